import { withResumableFetch } from "@sluice/resume/client";
import { describe, expect, test } from "vitest";
import { connectV1, connectV2 } from "../../bed/resuming.ts";
import { connectHttp } from "../base/http-client.ts";
import { Fault } from "../base/message.ts";
import { callResuming } from "./client.ts";
import { startResumeServer } from "./server.ts";

describe.each([
  { sdk: "SDK v1", connect: connectV1 },
  { sdk: "SDK v2", connect: connectV2 },
])("$sdk with withResumableFetch at a server of the text", ({ connect }) => {
  test("resumes before any event, sends its answer after the 204 alone, and gets the result", async () => {
    await using server = await startResumeServer();
    const client = await connect({
      url: server.url,
      fetch: withResumableFetch(),
      answer: () => "Ada",
    });
    expect(await client.call("greet")).toBe("Hello, Ada!");
    // nothing was said before the first break, the question before the second
    expect(server.seen.resumed).toEqual([undefined, "1"]);
    expect(server.seen.posted).toMatchObject([[{ result: { content: { text: "Ada" } } }]]);
    expect(server.seen.stray).toEqual([]);
    await client.close();
  });

  test("follows no link to another origin", async () => {
    await using server = await startResumeServer("foreign-link");
    const origins = new Set<string>();
    const seeing: typeof fetch = async (input, init) => {
      origins.add(new URL(input instanceof Request ? input.url : input).origin);
      return fetch(input, init);
    };
    const client = await connect({ url: server.url, fetch: withResumableFetch(seeing) });
    const calling = client.call("greet").catch(() => "nothing");
    await expect.poll(() => server.seen.breaks).toBe(1);
    // what would follow the link would have done so before another call is answered
    await client.call("none").catch(() => {});
    await client.close();
    expect(await calling).toBe("nothing");
    expect([...origins]).toEqual([new URL(server.url).origin]);
  });
});

// the literal client itself is one that sees faults
test.each(["foreign-link", "no-link"] as const)(
  "the literal client sees the fault %s, and none without it",
  async (fault) => {
    for (const made of [fault, undefined]) {
      await using server = await startResumeServer(made);
      const capabilities = { elicitation: {} };
      await using peer = await connectHttp(server.url, { revision: "2025-11-25", capabilities });
      const asked = callResuming(
        peer,
        "tools/call",
        { name: "greet", arguments: {} },
        async () => ({
          action: "accept",
          content: { text: "Ada" },
        }),
      );
      const outcome = await asked.then(
        ({ message }) => (message.result!["content"] as { text: string }[])[0]!.text,
        (error: unknown) => (error instanceof Fault ? "fault" : error),
      );
      expect(outcome).toBe(made ? "fault" : "Hello, Ada!");
    }
  },
);
