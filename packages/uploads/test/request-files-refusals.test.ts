import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  connectAnswerer,
  createAsker,
  createFakeSlots,
  createPlainSluice,
  createToolServer,
} from "./asking.ts";

const fields = { picture: { type: "file" } } as const;

function setUp(sluice = createPlainSluice()) {
  const slots = createFakeSlots();
  const ask = createAsker(sluice, slots);
  const register = (mcp: McpServer) =>
    mcp.registerTool("look", { inputSchema: z.object({}) }, async (_args, ctx) => {
      const request = { message: "A picture, please", fields };
      const outcome = await ask(request, { mcp, ctx });
      if (outcome.action === "ask") return outcome.result;
      return { content: [{ type: "text", text: outcome.action }] };
    });
  return { sluice, slots, ask, register };
}

async function look(client: Client): Promise<string> {
  const { content } = await client.callTool({ name: "look", arguments: {} });
  return (content as { text: string }[])[0]!.text;
}

test("the error over stdio, in a process without uploads, says what to do instead", async () => {
  const { slots, register } = setUp();
  const mcp = new McpServer({ name: "test", version: "1.0.0" });
  register(mcp);
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { capabilities: { elicitation: { binary: {} } } },
  );
  await Promise.all([mcp.connect(ours), client.connect(theirs)]);
  try {
    expect(await look(client)).toMatch(/takes no files over HTTP; give the tool a path/);
    expect(slots.revoked).toEqual([]);
  } finally {
    await client.close();
  }
});

test("legacy: without a session a tool that takes no upload id cannot ask, and the error says so", async () => {
  const { sluice, register } = setUp();
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    register(mcp);
    return sluice.attach(mcp);
  });
  const client = await connectAnswerer({
    era: "legacy",
    fetch: (input, init) => handler.fetch(new Request(input, init)),
    answer: () => expect.unreachable("it cannot be asked"),
  });
  expect(await look(client)).toMatch(/uploadIdInput\(\)/);
});

test("a caller that is not authenticated is not asked", async () => {
  const { sluice, ask } = setUp(createPlainSluice({ anonymous: false }));
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    await ask({ message: "x", fields }, { mcp, ctx });
    return { content: [] };
  });
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    answer: () => expect.unreachable("no user is asked"),
  });
  const { isError } = await client.callTool({ name: "look", arguments: {} });
  expect(isError).toBe(true);
});

test("legacy: a question whose time is over leaves nothing behind", async () => {
  const { sluice, slots, ask } = setUp();
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    await ask({ message: "x", fields, ttlMs: 100 }, { mcp, ctx });
    return { content: [] };
  });
  let gone: (() => void) | undefined;
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    answer: () => new Promise((resolve) => (gone = () => resolve({ action: "cancel" }))),
  });
  expect(await look(client)).toMatch(/did not answer in time/);
  expect(slots.revoked).toHaveLength(1);
  gone!();
});

test("legacy: a call that is cancelled leaves nothing behind", async () => {
  const { sluice, slots, ask } = setUp();
  const fails: unknown[] = [];
  let discarded!: () => void;
  const done = new Promise<void>((resolve) => (discarded = resolve));
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    try {
      await ask({ message: "x", fields }, { mcp, ctx });
    } catch (error) {
      fails.push(error === ctx.mcpReq.signal.reason);
      discarded();
      throw error;
    }
    return { content: [] };
  });
  const stop = new AbortController();
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    answer() {
      stop.abort(new Error("enough"));
      return new Promise(() => {});
    },
  });
  const call = client.callTool({ name: "look", arguments: {} }, { signal: stop.signal });
  await expect(call).rejects.toThrow("enough");
  await done;
  expect(fails).toEqual([true]);
  expect(slots.revoked).toHaveLength(1);
});

test("a form without a file is the mistake of its author", async () => {
  const { sluice, ask } = setUp();
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    await ask({ message: "x", fields: { note: { type: "string" } } }, { mcp, ctx });
    return { content: [] };
  });
  const client = await connectAnswerer({ era: "legacy", fetch, answer: () => ({}) });
  expect(await look(client)).toMatch(/no field is a file/);
});
