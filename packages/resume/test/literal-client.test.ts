import { generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { describe, expect, test } from "vitest";
import {
  answerTo,
  createResuming,
  eventsOf,
  linkOf,
  type Event,
  type Session,
} from "./resuming.ts";

type Server = ReturnType<typeof createResuming>;

/**
 * The record of a client that follows the algorithm of SEP-1335 to the letter, without the header
 * that it need not send.
 */
interface Seen {
  readonly events: readonly Event[];
  /** How often it asked at a link. */
  readonly gets: number;
}

/**
 * Reads to the end, comes back until 204, answers, and so on until the result is there. Never sends `Last-Event-ID`.
 * `takesNewLinks`: resumes at the link of each answer, else at that of the first.
 */
async function followLiterally(
  servers: readonly Server[],
  session: Session,
  { takesNewLinks }: { readonly takesNewLinks: boolean },
): Promise<Seen> {
  const events: Event[] = [];
  let gets = 0;
  let response = await servers[0]!.call("ask", session);
  let link = linkOf(response);
  for (;;) {
    const buffered: object[] = [];
    for (let isOver = false; !isOver;) {
      for (const event of await eventsOf(response)) {
        if (!event.message) continue;
        events.push(event);
        if (event.message.id === 1) return { events, gets };
        if (event.message.method) buffered.push(answerTo(event, { n: 1 }));
      }
      gets += 1;
      if (gets > 10) return { events, gets };
      response = await servers[gets % servers.length]!.at(link, session);
      isOver = response.status === 204;
      if (takesNewLinks) link = linkOf(response);
    }
    response = await servers[gets % servers.length]!.at(link, session, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(buffered),
    });
    link = linkOf(response);
  }
}

describe("a client that never sends Last-Event-ID", () => {
  test.each([false, true])(
    "is answered 204 once it has read the stream to its end, at new links %s [SEP-1335/turns/must-204]",
    async (takesNewLinks) => {
      const server = createResuming();
      const session = await server.open();
      const { events, gets } = await followLiterally([server], session, { takesNewLinks });
      expect(events.map(({ message }) => message.method ?? "result")).toEqual([
        "elicitation/create",
        "result",
      ]);
      expect(gets).toBe(1);
      expect(server.heard).toEqual([{ n: 1 }]);
    },
  );

  test("is answered 204 by another process that shares the stores", { tags: "slow" }, async () => {
    const memory = createMemoryStores();
    const stores = { ...memory, state: { ...memory.state, shared: true } };
    const shared = {
      sluice: { keys: [generateKey()], stores },
      resume: {},
    };
    const one = createResuming(shared);
    const other = createResuming({ ...shared, host: one.host });
    const session = await one.open();
    const { events, gets } = await followLiterally([one, other], session, { takesNewLinks: false });
    // it has to look by itself for the answers that the other process took
    expect([events.length, gets]).toEqual([2, 2]);
  });

  test("is asked again when the connection broke before the end", async () => {
    const server = createResuming();
    const session = await server.open();
    const response = await server.call("ask", session);
    const link = linkOf(response);
    const reader = response.body!.getReader();
    let text = "";
    while (!text.includes("elicitation/create"))
      text += new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
    const again = await eventsOf(await server.at(link, session));
    expect(again.some(({ message }) => message?.method === "elicitation/create")).toBe(true);
    expect((await server.at(link, session)).status).toBe(204);
  });

  test("waits as long as other readers if there was no room to note it", async () => {
    const state = createMemoryStateStore();
    const server = createResuming({
      sluice: {
        stores: {
          ...createMemoryStores(),
          state: {
            ...state,
            async put(id, record, terms) {
              if (id.startsWith("read ")) throw new Error("full");
              await state.put(id, record, terms);
            },
          },
        },
      },
    });
    const session = await server.open();
    const events = await eventsOf(await server.call("ask", session));
    expect(events.at(-1)?.retry).toBe(1_000);
    expect(String(server.errors)).toContain("full");
  });
});
