import { generateKey } from "@sluice/core";
import { createMemoryEventStore } from "@sluice/state/internal";
import { expect, test } from "vitest";
import { createResuming, eventsOf, linkOf } from "./resuming.ts";

/** Two processes with the same keys and store, of which the first one works. */
async function working(protocolVersion?: string) {
  const keys = [generateKey()];
  const store = createMemoryEventStore();
  const options = { sluice: { keys }, resume: { stores: { events: store }, retryMs: 7 } };
  const [leaving, staying] = [createResuming(options), createResuming(options)];
  const session = await leaving.open("ann", protocolVersion);
  const response = await leaving.call("work", session);
  return { leaving, staying, session, response };
}

test("a process that closes sends its readers away and ends its requests; they get the result elsewhere", async () => {
  const { leaving, staying, session, response } = await working();
  const closed = leaving.handler.close({ deadlineMs: 30_000 });
  expect((await eventsOf(response)).at(-1)?.retry).toBe(7);
  const elsewhere = () => staying.at(linkOf(response), session);
  expect((await eventsOf(await elsewhere())).at(-1)?.retry).toBe(7);
  leaving.release();
  await closed;
  const rest = await eventsOf(await elsewhere());
  expect(rest.at(-1)?.message.result.content[0].text).toBe("worked");
  expect(leaving.aborted).toEqual([]);
});

test.each([{ deadlineMs: 20 }, { deadlineMs: 30_000, signal: AbortSignal.abort() }, {}])(
  "a call unfinished at the deadline is cancelled here, and another process may have it at once: %j",
  async (options) => {
    const { leaving, staying, session, response } = await working();
    await leaving.handler.close(options);
    const rest = await eventsOf(await staying.at(linkOf(response), session));
    expect(rest.at(-1)?.message.error.data).toEqual({ reason: "interrupted" });
    await expect.poll(() => leaving.aborted).toEqual(["work"]);
  },
);

test("a reader that would not come back is kept until its result", async () => {
  const { leaving, response } = await working("2025-06-18");
  const closed = leaving.handler.close({ deadlineMs: 30_000 });
  const events = eventsOf(response);
  leaving.release();
  expect((await events).at(-1)?.message.result.content[0].text).toBe("worked");
  await closed;
});

test("a handler that breaks where the rest of a stream is asked for ends it for its client", async () => {
  const { host } = createResuming();
  const body = "id: 1\nretry: 10\ndata: \n\n";
  const breaking = createResuming({
    host: {
      async fetch(request, told) {
        if (request.method === "GET") throw new Error("broken");
        const { method } = (told?.parsedBody ?? {}) as { method?: string };
        if (method !== "tools/call") return host.fetch(request, told);
        return new Response(body, { headers: { "content-type": "text/event-stream" } });
      },
    },
  });
  const session = await breaking.open();
  const events = await eventsOf(await breaking.call("work", session));
  expect(events.at(-1)?.message.error.data).toEqual({ reason: "interrupted" });
});
