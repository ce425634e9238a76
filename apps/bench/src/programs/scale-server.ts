/**
 * Makes more and more of one thing and tells what one more costs: `node scale-server.js KIND COUNTS`, the counts as
 * JSON, ascending. Prints a line of JSON for each: bytes in use, and microseconds of processor time.
 */
import { createSluice, type Sluice } from "@sluice/server";
import { McpServer } from "@modelcontextprotocol/server";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import { createSessions } from "@sluice/transport-http/internal";
import { createUploads } from "@sluice/uploads";
import { usedBytes, type OneMore } from "../lib/program.ts";

const [kind = "", counts = "[]"] = process.argv.slice(2);
const endpoint = "http://127.0.0.1:9/mcp";
const many = 1_000_000;

/** Small objects, more than are subscribed to. */
const bytes = new Uint8Array(16);
const objects = Object.fromEntries(
  Array.from({ length: kind === "subscription" ? 20_000 : 1 }, (_, n) => [`${n}.bin`, bytes]),
);
const storage = createMemoryBackend(objects);

const createStore = (): StateStore =>
  createMemoryStateStore({ records: { perProcess: many, perPrincipal: many } });

function createOne(mounts = 1): Sluice {
  return createSluice({
    mounts: Array.from({ length: mounts }, (_, n) => ({ baseUri: `files://m${n}/`, storage })),
    endpoint,
    keys: "ephemeral",
    stores: { ...createMemoryStores(), state: createStore() },
    onWarning: () => {},
    limits: { streams: { perPrincipal: many, perProcess: many } },
  });
}

const attach = (sluice: Sluice): McpServer =>
  sluice.attach(new McpServer({ name: "scale", version: "0.0.0" }));

/** Talks to sessions as a client does. */
function createCaller() {
  const sluice = createOne();
  const handler = createSessions(() => attach(sluice), sluice, {
    perPrincipal: many,
    perProcess: many,
  });
  const post = async (message: object, session?: string): Promise<Response> => {
    const response = await handler.fetch(
      new Request(endpoint, {
        method: "POST",
        headers: {
          accept: "application/json, text/event-stream",
          "content-type": "application/json",
          host: new URL(endpoint).host,
          ...(session === undefined
            ? {}
            : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" }),
        },
        body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      }),
    );
    const text = await response.text();
    if (response.status >= 400 || text.includes('"error"'))
      throw new Error(`scale: ${response.status} ${text}`);
    return response;
  };
  const params = {
    protocolVersion: "2025-11-25",
    clientInfo: { name: "bench", version: "0.0.0" },
    capabilities: {},
  };
  const open = async (): Promise<string> => {
    const opened = await post({ id: 0, method: "initialize", params });
    return opened.headers.get("mcp-session-id") ?? "";
  };
  return { post, open };
}

/** Makes one more, the n-th. What it gives is kept. */
type Make = (n: number) => unknown;

const kinds: Readonly<Record<string, () => Make | Promise<Make>>> = {
  session() {
    const { open } = createCaller();
    return open;
  },
  async subscription() {
    const { post, open } = createCaller();
    // one session takes 1,000 subscriptions
    const sessions = await Promise.all(Array.from({ length: 25 }, open));
    return async (n) => {
      const params = { uri: `files://m0/${n}.bin` };
      await post({ id: n, method: "resources/subscribe", params }, sessions[n % sessions.length]);
    };
  },
  slot() {
    const uploads = createUploads(createOne(), {
      storage: createMemoryBackend(),
      scan: "none",
    });
    // without a principal, so that a slot is kept; one that is bound is sealed into its URL
    return async () => {
      await uploads.reserve(undefined, { accept: [], maxBytes: 1024, maxFiles: 1 });
    };
  },
  grant() {
    const state = createStore();
    const now = Date.now();
    return (n) =>
      state.claim(
        {
          id: `grant-${n}`,
          principal: "",
          resource: "resource",
          use: "lease",
          issuedAt: now,
          expiresAt: now + 900_000,
        },
        now,
      );
  },
};

/** A server cannot be given one more mount, so that it is made anew, with fewer and with more. */
async function measureMounts(count: number, more: number): Promise<OneMore> {
  const few = await costOf(() => createOne(count));
  const all = await costOf(() => createOne(count + more));
  return {
    count,
    bytes: (all.bytes - few.bytes) / more,
    microseconds: Math.max(0, all.microseconds - few.microseconds) / more,
  };
}

/** Bytes that are in use after `work` and were not before, and its processor time. What it gives is kept. */
async function costOf(work: () => unknown): Promise<Omit<OneMore, "count">> {
  const before = await usedBytes();
  const cpuBefore = process.cpuUsage();
  kept.push(await work());
  const { user, system } = process.cpuUsage(cpuBefore);
  return { bytes: (await usedBytes()) - before, microseconds: user + system };
}

async function measureMore(count: number, more: number): Promise<OneMore> {
  // those that warmed up are there already
  await makeMany(Math.max(0, count - made));
  const all = await costOf(() => makeMany(more));
  return { count, bytes: all.bytes / more, microseconds: all.microseconds / more };
}

const kept: unknown[] = [];
let made = 0;
const make = await kinds[kind]?.();

async function makeMany(count: number): Promise<void> {
  for (let more = 0; more < count; more += 1) kept.push(await make?.((made += 1)));
}

// code that is compiled on the way is no part of the cost
if (make) await makeMany(500);
else for (const mounts of [1, 500, 1_000]) kept.push(createOne(mounts));
for (const count of JSON.parse(counts) as number[]) {
  const more = Math.max(500, count / 10);
  const line = await (make ? measureMore : measureMounts)(count, more);
  console.log(JSON.stringify(line));
}
process.exit();
