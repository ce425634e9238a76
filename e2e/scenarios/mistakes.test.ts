// The mistakes of a first hour: each says what it is, at once.
import { createServer, type RequestListener } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { streamResource } from "@sluice/client";
import { generateKey } from "@sluice/core";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createMemoryBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createFsBackend } from "@sluice/storage-fs";
import { createGraphBackend } from "@sluice/storage-graph";
import { createS3Backend } from "@sluice/storage-s3";
import { createHandler, type McpFetchHandler } from "@sluice/transport-http";
import { createSessions } from "@sluice/transport-http/internal";
import { hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { createUploads } from "@sluice/uploads";
import express from "express";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { connect, sdkNames } from "../bed/clients.ts";
import { listen } from "../bed/listen.ts";

const baseUri = "files://demo/";
const uri = `${baseUri}a.bin`;
const content = "x".repeat(100_000);

const storage = createMemoryBackend({ "a.bin": content });
const good = {
  storage,
  baseUri,
  endpoint: "http://127.0.0.1:9/mcp",
  keys: "ephemeral",
  onWarning() {},
} satisfies SluiceOptions;
const sluice = createSluice(good);
const createMcp = (): McpServer => sluice.attach(new McpServer({ name: "d", version: "1" }));
const mcp = createMcp();
const handler = createMcpHandler(createMcp);
const uploads = createUploads(sluice, { storage: createMemoryBackend(), scan: "none" });
afterAll(() => uploads.close());

const url = { url: "ws://127.0.0.1:9/mcp", anonymous: true } as const;
const scan = "none";
const fileTool = { message: "A file?", fields: { file: { type: "file" } } } as const;

// as a JavaScript author may write it
// oxlint-disable-next-line typescript/no-explicit-any
const wrong = (value: unknown): any => value;

test.each<[string, () => unknown, RegExp]>([
  [
    "createHandler: a server",
    () => createHandler({ sluice, behind: wrong(mcp) }),
    /^createHandler: behind must be a handler/,
  ],
  [
    "createHandler: a made server",
    () => createHandler({ sluice, create: wrong(mcp) }),
    /^createHandler: create must be a function/,
  ],
  ["createHandler: no Sluice", () => createHandler(wrong({})), /sluice must be what createSluice/],
  [
    "createHandler: two ways to answer",
    () => createHandler({ sluice, create: createMcp, behind: handler }),
    /create or behind, and not both/,
  ],
  [
    "createHandler: sessions of no servers",
    () => createHandler({ sluice, behind: handler, sessions: {} }),
    /sessions .*pass create/,
  ],
  [
    "createHandler: uploads of another Sluice",
    () => createHandler({ sluice: createSluice(good), create: createMcp, uploads }),
    /uploads were made for another Sluice/,
  ],
  [
    "createHandler: a part in the place of uploads",
    () => createHandler({ sluice, create: createMcp, uploads: wrong(sluice) }),
    /uploads must be what createUploads gave/,
  ],
  [
    "createHandler: a typo",
    () => createHandler({ sluice, create: createMcp, ...wrong({ upload: uploads }) }),
    /no option upload; did you mean uploads/,
  ],
  [
    "createHandler: resume without JSON-RPC",
    () => createHandler({ sluice, binary: true }),
    /resume and binary are for JSON-RPC/,
  ],
  ["toNodeHandler: a server", () => toNodeHandler(wrong(mcp)), /^toNodeHandler: .*handler/],
  ["toNodeHandler: a Sluice", () => toNodeHandler(wrong(sluice)), /^toNodeHandler: .*handler/],
  ["createSluice: nothing", () => createSluice(wrong(undefined)), /^createSluice: storage must be/],
  ["createSluice: no storage", () => createSluice(wrong({})), /storage must be/],
  ["createSluice: a path", () => createSluice({ storage: wrong("./files") }), /createFsBackend/],
  [
    "createSluice: a promise",
    () => createSluice({ storage: wrong(Promise.resolve(good.storage)) }),
    /storage must be/,
  ],
  [
    "createSluice: a public endpoint without keys",
    () => createSluice({ storage, endpoint: "https://files.example.com/mcp", anonymous: true }),
    /^createSluice: keys is undefined.*ephemeral/,
  ],
  [
    "createSluice: a public endpoint whose callers nothing names",
    () => createSluice({ storage, endpoint: "https://files.example.com/mcp", keys: "ephemeral" }),
    /public.*pass principal.*anonymous: true/,
  ],
  [
    "createSluice: a typo",
    () => createSluice({ storage, ...wrong({ link: {} }) }),
    /^createSluice: there is no option link; did you mean links\?/,
  ],
  [
    "createSluice: limits without what they count",
    () => createSluice({ storage, limits: wrong({ perPrincipal: 4 }) }),
    /^createSluice: limits: there is no option perPrincipal/,
  ],
  [
    "createSluice: a number where limits stand",
    () => createSluice({ storage, limits: wrong({ streams: 4 }) }),
    /^createSluice: limits.streams must be an object of { perPrincipal, perAddress, perProcess }/,
  ],
  [
    "createSluice: limits of a mount without what they count",
    () => createSluice({ mounts: [{ storage, baseUri, limits: wrong({ perProcess: 4 }) }] }),
    /^createSluice: limits of a mount: there is no option perProcess/,
  ],
  [
    "createSluice: a limiter among the limits at once",
    () => createSluice({ storage, limits: wrong({ requests: { perPrincipal: {} } }) }),
    /^createSluice: limits: there is no option requests/,
  ],
  [
    "createSluice: a number among the rates",
    () => createSluice({ storage, rates: { requests: wrong({ perPrincipal: 4 }) } }),
    /^createSluice: a limiter of rates\.requests must have consume/,
  ],
  [
    "createSluice: a rate of a process",
    () => createSluice({ storage, rates: { requests: wrong({ perProcess: {} }) } }),
    /^createSluice: rates.requests: there is no option perProcess/,
  ],
  [
    "createSluice: an address of a client",
    () => createSluice({ storage, clientAddress: wrong("192.0.2.1") }),
    /^createSluice: clientAddress is the number of proxies in front, or a function/,
  ],
  [
    "createHandler: a bound of sessions that does not exist",
    () => createHandler({ sluice, create: createMcp, sessions: wrong({ maxSessions: 4 }) }),
    /^createHandler: sessions: there is no option maxSessions/,
  ],
  [
    "createUploads: limits without what they count",
    () => createUploads(sluice, { storage, scan, limits: wrong({ perPrincipal: 4 }) }),
    /^createUploads: limits: there is no option perPrincipal/,
  ],
  [
    "createWebSocketHandler: a server in the place of its Sluice",
    () => createWebSocketHandler(createMcp, { ...url, sluice: wrong(mcp) }),
    /^createWebSocketHandler: sluice must be what createSluice gave/,
  ],
  [
    "createSluice: an option of something else",
    () => createSluice({ storage, ...wrong({ retention: 1 }) }),
    /^createSluice: there is no option retention$/,
  ],
  ["attach: a second Sluice", () => createSluice(good).attach(createMcp()), /has a Sluice already/],
  [
    "attach: a second Sluice, without streaming",
    () => {
      const silent = sluice.attach(new McpServer({ name: "d", version: "1" }), { stream: false });
      createSluice(good).attach(silent, { stream: false });
    },
    /has a Sluice already/,
  ],
  ["attach: nothing", () => sluice.attach(wrong(undefined)), /^attach: .*McpServer/],
  ["attach: a handler", () => sluice.attach(wrong(handler)), /^attach: .*McpServer/],
  ["attach: the server inside", () => sluice.attach(wrong(mcp.server)), /^attach: .*McpServer/],
  [
    "createUploads: nothing",
    () => createUploads(wrong(undefined), wrong(undefined)),
    /^createUploads: the first/,
  ],
  [
    "createUploads: a server",
    () => createUploads(wrong(mcp), { storage, scan }),
    /^createUploads: the first/,
  ],
  [
    "createUploads: no storage",
    () => createUploads(sluice, wrong({ scan })),
    /^createUploads: storage must be/,
  ],
  [
    "createUploads: no word of a scan",
    () => createUploads(sluice, wrong({ storage: createMemoryBackend() })),
    /^createUploads: pass scan: .* or "none"/,
  ],
  [
    "createUploads: a typo",
    () => createUploads(sluice, wrong({ storage: createMemoryBackend(), scan, maxByte: 1 })),
    /no option maxByte; did you mean maxBytes\?$/,
  ],
  [
    "createUploads: a storage that is only read",
    () => createUploads(sluice, wrong({ storage: { ...storage, write: undefined }, scan })),
    /^createUploads: storage .* has no write and remove/,
  ],
  [
    "createUploads: shared state, and uploads of one process",
    () => {
      const stores = createMemoryStores();
      const state = { ...stores.state, shared: true };
      const sharing = { ...good, keys: [generateKey()], stores: { ...stores, state } };
      createUploads(createSluice(sharing), {
        storage: createMemoryBackend(),
        scan,
      });
    },
    /several processes share.* two writers.* stores: createRedisStores/,
  ],
  [
    "uploads.registerTool: no file",
    () => uploads.registerTool(mcp, "x", { message: "x", fields: {} }, () => ""),
    /^uploads.registerTool: no field is a file/,
  ],
  [
    "uploads.registerTool: no handler",
    () => uploads.registerTool(mcp, "x", fileTool, wrong(undefined)),
    /^uploads.registerTool: .*handler/,
  ],
  [
    "uploads.registerTool: an upload_id of its own",
    () => {
      const inputSchema = z.object({ upload_id: z.string() });
      uploads.registerTool(mcp, "x", { ...fileTool, inputSchema }, () => "");
    },
    /^uploads.registerTool: leave upload_id out/,
  ],
  [
    "uploads.registerTool: a server of another Sluice",
    () =>
      uploads.registerTool(
        createSluice(good).attach(new McpServer({ name: "x", version: "1" })),
        "x",
        fileTool,
        () => "",
      ),
    /attached to another Sluice/,
  ],
  [
    "uploads.attach: names beside the bounds",
    () => uploads.attach(mcp, wrong({ request: "ask" })),
    /^uploads.attach: there is no option request/,
  ],
  [
    "createSluice: no text in keys",
    () => createSluice({ ...good, keys: "" }),
    /^key ring: .*kid:base64url.*generateKey/,
  ],
  [
    "hardenServer: a handler",
    () => hardenServer(wrong(toNodeHandler(handler))),
    /^hardenServer: .*createServer/,
  ],
  ["createFsBackend: no root", () => createFsBackend(wrong({})), /^createFsBackend: root/],
  ["createFsBackend: a path", () => createFsBackend(wrong("./files")), /^createFsBackend: root/],
  ["createS3Backend: nothing", () => createS3Backend(wrong(undefined)), /^createS3Backend: bucket/],
  ["createS3Backend: no bucket", () => createS3Backend(wrong({})), /^createS3Backend: bucket/],
  ["createGraphBackend: nothing", () => createGraphBackend(wrong(undefined)), /driveId/],
  ["createGraphBackend: no drive", () => createGraphBackend(wrong({})), /driveId/],
  ["createAzureBlobBackend: nothing", () => createAzureBlobBackend(wrong(undefined)), /container/],
  [
    "createWebSocketHandler: a server",
    () => createWebSocketHandler(wrong(mcp), url),
    /^createWebSocketHandler: .*function/,
  ],
  [
    "createWebSocketHandler: no options",
    () => createWebSocketHandler(createMcp, wrong(undefined)),
    /options/,
  ],
])("%s is a TypeError of one line", (_, make, said) => {
  let thrown: unknown;
  try {
    make();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(TypeError);
  expect((thrown as TypeError).message).toMatch(said);
  expect((thrown as TypeError).message).not.toContain("\n");
});

const access = (): "allow" => "allow";
const accessPage = (): "allow"[] => [];
const oneMount = [{ baseUri, storage }];

test.each<[string, () => unknown, RegExp]>([
  [
    "createSluice: storage and mounts",
    // @ts-expect-error: one or the other
    () => createSluice({ storage, mounts: oneMount }),
    /pass mounts, or storage and baseUri, and not both/,
  ],
  [
    "createSluice: a base URI and mounts",
    // @ts-expect-error: each mount has its own
    () => createSluice({ baseUri, mounts: oneMount }),
    /pass mounts, or storage and baseUri, and not both/,
  ],
  [
    "createSluice: accessPage without access",
    // @ts-expect-error: a rule for pages needs one for single resources
    () => createSluice({ storage, accessPage }),
    /accessPage also needs access/,
  ],
  [
    "mounts: accessPage without access",
    // @ts-expect-error: the rule of the Sluice is none of this mount
    () => createSluice({ access, mounts: [{ baseUri, storage, accessPage }] }),
    /accessPage also needs access/,
  ],
  [
    "provide: accessPage without access",
    // @ts-expect-error: a rule for pages needs one for single resources
    () => sluice.provide("made://a", { open: () => "a", accessPage }),
    /accessPage also needs access/,
  ],
  [
    "createSluice: links that nothing can withdraw",
    // @ts-expect-error: links can be withdrawn
    () => createSluice({ storage, grant: { revocable: false }, links: true }),
    /leave out grant.revocable: false/,
  ],
  ...(["once", "lease"] as const).map((use): [string, () => unknown, RegExp] => [
    `createSluice: ${use} without a store`,
    // @ts-expect-error: only window needs none
    () => createSluice({ storage, grant: { revocable: false, use } }),
    /grant.revocable: false is for URLs that need no store; leave out use/,
  ]),
  [
    "createSluice: stored URLs without a store",
    // @ts-expect-error: only sealed ones need none
    () => createSluice({ storage, grant: { revocable: false, tokens: "stored" } }),
    /grant.revocable: false is for URLs that need no store; leave out tokens/,
  ],
])("%s contradicts itself: a type error, and a TypeError", (_, make, said) => {
  expect(make).toThrow(TypeError);
  expect(make).toThrow(said);
});

test("options that go together are accepted", () => {
  const fixed = { revocable: false } as const;
  const given: readonly SluiceOptions[] = [
    { mounts: oneMount },
    { storage, baseUri },
    { storage, access, accessPage, principal: () => undefined },
    { mounts: [{ baseUri, storage, access, accessPage }], principal: () => undefined },
    { storage, grant: fixed },
    { storage, grant: { ...fixed, use: "window", tokens: "sealed" }, links: false },
    { storage, grant: { use: "once" }, links: { ttlMs: 60_000 } },
  ];
  for (const options of given) expect(() => createSluice(options)).not.toThrow();
});

test.each<[string, (ctx: unknown) => unknown]>([
  ["uploads.ask", (ctx) => uploads.ask({ message: "x", fields: {} }, wrong({ ctx }))],
  ["uploads.ask", () => uploads.ask({ message: "x", fields: {} }, wrong({ mcp }))],
  ["uploads.ask", () => uploads.ask({ message: "x", fields: {} }, wrong(undefined))],
  ["uploads.open", () => uploads.open("mcp-file:x", {}, wrong({ mcp }))],
  ["resourceLink", async () => sluice.resourceLink(uri, wrong(undefined))],
  ["resourceLink", async () => sluice.resourceLink(uri, wrong({ mcp }))],
  ["resourceLink", async (ctx) => sluice.resourceLink(uri, wrong({ ctx }))],
  ["link", async () => sluice.link(uri, wrong({ mcp }))],
])("%s without its server or context names what to pass", async (_, call) => {
  await expect(call({ mcpReq: {} })).rejects.toThrow(
    /^mcp must be the server that the handler is registered on, and ctx what it was called with/,
  );
});

test("a call of a server of another Sluice is a TypeError, in every tool of uploads", async () => {
  const other = createSluice(good).attach(new McpServer({ name: "x", version: "1" }));
  const call = { mcp: other, ctx: wrong({ mcpReq: {} }) };
  for (const made of [uploads.ask(fileTool, call), uploads.open("data:,x", {}, call)])
    await expect(made).rejects.toThrow(/attached to another Sluice/);
});

interface Mount {
  readonly mcp: McpFetchHandler;
  readonly sluice: Sluice;
}

/** Serves a Sluice of one file as `mount` says; gives its URL and what it warned of. */
async function serve(
  mount: (parts: Mount) => RequestListener,
  options: Partial<SluiceOptions> = {},
): Promise<{ readonly url: string; readonly warnings: string[] }> {
  let listener: RequestListener | undefined;
  const listening = await listen(createServer((req, res) => listener?.(req, res)));
  onTestFinished(() => listening.close());
  const warnings: string[] = [];
  const endpoint = `${listening.origin}/mcp`;
  const onWarning = (warning: string): void => void warnings.push(warning);
  const own = createSluice({ ...good, endpoint, onWarning, ...options } as SluiceOptions);
  const create = (): McpServer => own.attach(new McpServer({ name: "d", version: "1" }));
  const sessions = createSessions(create, own);
  onTestFinished(() => sessions.close());
  listener = mount({ mcp: sessions, sluice: own });
  return { url: endpoint, warnings };
}

test.each(sdkNames)(
  "%s: a route for the endpoint alone is named, not a missing resource",
  async (sdk) => {
    const { url: endpoint } = await serve(({ mcp: inner, sluice: own }) => {
      const handle = toNodeHandler(createHandler({ sluice: own, behind: inner }));
      return express().all("/mcp", handle);
    });
    const client = await connect(sdk, endpoint);
    onTestFinished(() => client.close());
    const streaming = streamResource(client, uri, { timeouts: { pauseScale: 0 } });
    await expect(streaming).rejects.toMatchObject({
      code: "not_found",
      message: expect.stringContaining("every path below the MCP endpoint") as string,
    });
    // a handler for everything below is right
    const right = await serve(({ mcp: inner, sluice: own }) =>
      express().use(toNodeHandler(createHandler({ sluice: own, behind: inner }))),
    );
    const other = await connect(sdk, right.url);
    onTestFinished(() => other.close());
    const { body, size } = await streamResource(other, uri);
    await body.cancel();
    expect(size).toBe(content.length);
    const gone = streamResource(other, `${baseUri}nothing`);
    await expect(gone).rejects.toMatchObject({
      message: expect.not.stringContaining("every path below") as string,
    });
  },
);

test("the first download URL that nothing serves is warned of, once", async () => {
  const bare = await serve(({ mcp: inner }) => toNodeHandler(inner));
  const unserved = (warnings: readonly string[]): string[] =>
    warnings.filter((warning) => warning.includes("createHandler({ sluice, … })"));
  expect(unserved(bare.warnings)).toEqual([]);
  const client = await connect("SDK v2, modern", bare.url);
  onTestFinished(() => client.close());
  const options = { prefer: ["downloadUrl"], timeouts: { pauseScale: 0 } } as const;
  for (let at = 0; at < 2; at++)
    await expect(streamResource(client, uri, options)).rejects.toMatchObject({ code: "protocol" });
  expect(unserved(bare.warnings)).toHaveLength(1);
  const mounts: readonly ((parts: Mount) => RequestListener)[] = [
    ({ mcp: inner, sluice: own }) => toNodeHandler(createHandler({ sluice: own, behind: inner })),
    ({ mcp: inner, sluice: own }) => {
      const [handle, sidecar] = [
        toNodeHandler(inner),
        toNodeHandler(createHandler({ sluice: own })),
      ];
      return (req, res) => (req.url === "/mcp" ? handle(req, res) : sidecar(req, res));
    },
  ];
  for (const mount of mounts) {
    const right = await serve(mount);
    const other = await connect("SDK v2, modern", right.url);
    onTestFinished(() => other.close());
    const { body } = await streamResource(other, uri, options);
    await body.cancel();
    expect(unserved(right.warnings)).toEqual([]);
  }
});

test.each(sdkNames)(
  "%s without createStreaming is told so at once, and not to try again",
  async (sdk) => {
    const { url: endpoint } = await serve(
      ({ mcp: inner, sluice: own }) => toNodeHandler(createHandler({ sluice: own, behind: inner })),
      { delivery: "direct" },
    );
    const client = await connect(sdk, endpoint, { forgetsFetch: true });
    onTestFinished(() => client.close());
    await expect(streamResource(client, uri)).rejects.toMatchObject({
      code: "protocol",
      retryable: false,
      message: expect.stringContaining("createStreaming().fetch") as string,
    });
  },
);
