// @module-tag slow
// The demo server behind the bridge as a command: the same messages as without it, and three tools more with folders.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  Client as ClientV2,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { z } from "zod";
import { createApp } from "../../apps/demo-server/src/server.ts";
import { listen, type Listening } from "../bed/listen.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

vi.setConfig({ testTimeout: 60_000 });

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const programs = inject("programs");
let root = "";
let url = "";
let listening: Listening;

beforeAll(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "sluice-bridge-demo-")));
  for (const folder of ["served", "saved"]) mkdirSync(join(root, folder));
  writeFileSync(join(root, "served", "a.txt"), "one, two");
  let app: RequestListener | undefined;
  listening = await listen(createServer((request, response) => app?.(request, response)));
  url = `${listening.origin}/mcp`;
  // the entity tag of a new file is there at once
  const storage = createFsBackend({ root: join(root, "served"), racyMs: 0 });
  app = createApp({ storage, received: createMemoryBackend(), endpoint: url }) as RequestListener;
});
afterAll(async () => {
  await listening.close();
  rmSync(root, { recursive: true });
});

const info = { name: "host", version: "1.0.0" };
const clients = {
  "SDK v1": () => new ClientV1(info) as unknown as ClientV2,
  "SDK v2, legacy": () => new ClientV2(info),
  "SDK v2, modern": () =>
    new ClientV2(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } }),
} as const;

const uri = "files://demo/a.txt";
const calls = [
  { method: "tools/list" },
  { method: "resources/list" },
  { method: "resources/templates/list" },
  { method: "resources/read", params: { uri } },
  { method: "resources/read", params: { uri: "files://demo/none" } },
  { method: "resources/stream", params: { uri } },
  { method: "tools/call", params: { name: "no-such-tool", arguments: {} } },
];
/** Over HTTP, the SDK gives its own error for these in the modern revision, where the status is 404. */
const unknown = [{ method: "prompts/list" }, { method: "example/unknown", params: { odd: [1] } }];

function throughCommand(...flags: string[]): Transport {
  const args = [programs["packages/cli/src/main.ts"]!, "bridge", ...flags, url];
  return new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" });
}

/** Every message that a client got. */
async function record(
  name: string,
  client: ClientV2,
  transport: Transport,
): Promise<JSONRPCMessage[]> {
  const got: JSONRPCMessage[] = [];
  await client.connect(transport);
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    got.push(message);
    deliver?.(message, extra);
  };
  for (const call of name.endsWith("modern") ? calls : [...calls, ...unknown])
    await client.request(call as never, z.looseObject({}) as never).catch(() => {});
  await client.close();
  return got;
}

const added = ["save_resource", "list_saved", "send_file"];

/** The messages without the bridge's tools, and the names of those. */
function withoutAdded(messages: readonly JSONRPCMessage[]) {
  const names: string[] = [];
  const rest = messages.map((message) => {
    if (!("result" in message) || !Array.isArray(message.result["tools"])) return message;
    const tools = (message.result["tools"] as { readonly name: string }[]).filter(({ name }) => {
      const isAdded = added.includes(name);
      if (isAdded) names.push(name);
      return !isAdded;
    });
    return { ...message, result: { ...message.result, tools } };
  });
  return { rest, names };
}

/** Whether the bridge has folders: each client once with the one or the other, or with both. */
const filings: Readonly<Record<string, readonly boolean[]>> = {
  "SDK v1": isDeep ? [false, true] : [true],
  "SDK v2, legacy": isDeep ? [false, true] : [false],
  "SDK v2, modern": isDeep ? [false, true] : [true],
};
if (!isDeep)
  console.info("bridge-demo: with and without folders for each client run with SLUICE_DEEP");

describe.each(Object.entries(clients))("%s", (name, create) => {
  test("gets the same messages of the demo server, and with folders three tools more", async () => {
    const direct = await record(name, create(), new StreamableHTTPClientTransport(new URL(url)));
    expect(direct.length).toBeGreaterThanOrEqual(calls.length);
    expect(JSON.stringify(direct)).toContain("one, two");
    const folders = ["--save-to", join(root, "saved"), "--send-from", join(root, "served")];
    for (const isFiling of filings[name]!) {
      const bridged = await record(name, create(), throughCommand(...(isFiling ? folders : [])));
      const names = isFiling ? added : [];
      expect(withoutAdded(bridged)).toEqual({ rest: direct, names });
    }
  });
});
