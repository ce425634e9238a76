import { EXTENSION_ID, type DeliveryMode } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { send, type RawAnswer } from "../bed/raw.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite, type Site, type SiteOptions } from "../bed/site.ts";

const uri = "files://site/report.pdf";
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];

let sessions: Site;
let stateless: Site;
let store: SigningStore | undefined;
let mode: DeliveryMode = "direct";

beforeAll(async () => {
  const options: SiteOptions = {
    files: { "report.pdf": "a report of more than a thousand bytes".repeat(30) },
    storage: async (files) => (store ??= await createSigningStore(files)).backend,
    sluice: () => ({ delivery: () => mode, redirectOrigins: [store!.origin] }),
  };
  sessions = await startSite({ ...options, sessions: true });
  stateless = await startSite(options);
});
afterAll(async () => {
  await sessions[Symbol.asyncDispose]();
  await stateless[Symbol.asyncDispose]();
  await store?.close();
});

const json = {
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
};

/** Opens a session that declares exactly this; gives the headers that belong to it. */
async function open(capabilities: Record<string, unknown>): Promise<Record<string, string>> {
  const clientInfo = { name: "raw", version: "1.0.0" };
  const params = { protocolVersion: "2025-11-25", capabilities, clientInfo };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  const answer = await send("POST", sessions.url, { headers: json, body });
  return { ...json, "mcp-session-id": String(answer.headers["mcp-session-id"]) };
}

const ask = (session: Record<string, string>): Promise<RawAnswer> =>
  send("POST", sessions.url, {
    headers: { ...session, "mcp-protocol-version": "2025-11-25" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/stream", params: { uri } }),
  });

const post = (body: unknown): Promise<RawAnswer> =>
  send("POST", stateless.url, {
    headers: { ...json, "mcp-protocol-version": "2025-03-26" },
    body: JSON.stringify(body),
  });

const streamMessage = (id?: number): object => ({
  jsonrpc: "2.0",
  ...(id !== undefined && { id }),
  method: "resources/stream",
  params: {
    uri,
    _meta: { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } },
  },
});

describe("a legacy session", () => {
  test("is asked once, in either spelling, and each remembers its own", async () => {
    mode = "direct";
    const literal = await open({ resourceStreaming: {} });
    const extension = await open({ extensions: { [EXTENSION_ID]: {} } });
    const nothing = await open({});
    for (const session of [literal, extension])
      expect((await ask(session)).headers["mcp-resource-uri"]).toBe(uri);
    const refused = await ask(nothing);
    expect(refused.headers).not.toHaveProperty("mcp-resource-uri");
    expect(refused.message?.error?.data?.reason).toBe("client_capability");
  });

  test("is held to a limit that it set", async () => {
    const { message } = await ask(await open({ resourceStreaming: { maxStreamSize: 1_000 } }));
    expect(message?.error?.data?.reason).toBe("too_large");
  });
});

describe("a request that leaves no response to replace", () => {
  test("a batch is answered in JSON or refused, never with bytes or a redirect", async () => {
    for (const delivery of modes) {
      mode = delivery;
      const { status, headers } = await post([streamMessage(1), streamMessage(2)]);
      expect([200, 400]).toContain(status);
      expect(headers).not.toHaveProperty("mcp-resource-uri");
      expect(headers["content-type"]).toMatch(/^(application\/json|text\/event-stream)/);
    }
  });

  test("a notification has no answer", async () => {
    mode = "direct";
    const { headers, bytes } = await post(streamMessage());
    expect(headers).not.toHaveProperty("mcp-resource-uri");
    expect(bytes.length).toBeLessThan(1_000);
  });
});
