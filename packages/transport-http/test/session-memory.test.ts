import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { withBinary, withSluice } from "@sluice/transport-http/internal";
import { expect, test } from "vitest";
import { createSessionCapabilities, createSessionMemory } from "../src/sessions/session-memory.ts";

test("a principal that opens sessions without end makes the server forget its own alone", () => {
  const sessions = createSessionCapabilities((capabilities) => capabilities);
  const call = { params: { capabilities: { resourceStreaming: {} } } };
  sessions.remember(call, "of ann", "ann");
  for (let n = 0; n < 20_000; n++) sessions.remember(call, `of mallory ${n}`, "mallory");
  expect(sessions.of("of ann")).toEqual({ resourceStreaming: {} });
  expect(sessions.of("of mallory 0")).toBeUndefined();
  expect(sessions.of("of mallory 19999")).toBeDefined();
});

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
// a thousand and one show that the bound is the principal's, ten thousand fill the memory
const flood = isDeep ? 10_000 : 1_001;

test.each(isDeep ? ["outside", "inside"] : ["inside"])(
  "state of a session in the binary layer, %s of Sluice, is not pushed out by another principal's",
  { tags: "slow" },
  async (place) => {
    const url = "https://files.example.com/mcp";
    const sluice = createSluice({
      storage: createMemoryBackend({}),
      baseUri: "files://demo/",
      endpoint: url,
      keys: "ephemeral",
      principal: ({ header }) => ({ issuer: "i", subject: header("x-user")!, clientId: "c" }),
      onWarning: () => {},
    });
    let opened = 0;
    const mcp: McpFetchHandler = {
      fetch: async () =>
        Response.json({}, { headers: { "mcp-session-id": `session ${opened++}` } }),
    };
    const handler =
      place === "outside"
        ? withBinary(withSluice(mcp, sluice))
        : withSluice(withBinary(mcp), sluice);
    const send = async (user: string, body: string, fields: Record<string, string>) => {
      const headers = { host: "files.example.com", "x-user": user, ...fields };
      return handler.fetch(new Request(url, { method: "POST", headers, body }));
    };
    const open = (user: string) => {
      const binaryTransfer = { supported: true, preferredMode: "multipart" };
      const params = { capabilities: { binaryTransfer } };
      const call = { jsonrpc: "2.0", id: 1, method: "initialize", params };
      return send(user, JSON.stringify(call), { "content-type": "application/json" });
    };
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "ping" });
    const part = `--b\r\nContent-Type: application/json\r\n\r\n${ping}\r\n--b--\r\n`;
    const statusIn = async (user: string, { headers }: Response): Promise<number> => {
      const type = "multipart/mixed; boundary=b";
      const sessionId = headers.get("mcp-session-id")!;
      return (await send(user, part, { "content-type": type, "mcp-session-id": sessionId })).status;
    };
    const ofAnn = await open("ann");
    const first = await open("mallory");
    for (let n = 1; n < flood; n++) await open("mallory");
    expect(await statusIn("ann", ofAnn)).toBe(200);
    expect(await statusIn("mallory", first)).toBe(415);
  },
);

test("a full memory forgets the oldest session, and one that was said again is not it", () => {
  const memory = createSessionMemory<number>();
  for (let n = 0; n < 10_000; n++) memory.set(`s${n}`, n, "");
  memory.set("s0", 0, "");
  memory.set("one more", 1, "ann");
  expect(memory.get("s0")).toBe(0);
  expect(memory.get("s1")).toBeUndefined();
  memory.delete("one more");
  expect(memory.get("one more")).toBeUndefined();
});
