import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { systemClock } from "@sluice/core/internal";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { uploadIdInput, type Fields, type Uploads } from "../src/index.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { startUploadServer, type UploadServer } from "./upload-server.ts";

const run = promisify(execFile);
const one = { report: { type: "file", accept: ["text/*"], maxBytes: 1_000 } } as const;

afterEach(() => {
  vi.restoreAllMocks();
});

/** Tools that ask for files; each says what it got. */
function registerTools(mcp: McpServer, uploads: Uploads, fields: Fields = one): McpServer {
  const inputSchema = z.object({ upload_id: uploadIdInput() });
  for (const name of ["send", "other"])
    mcp.registerTool(name, { inputSchema }, async ({ upload_id: uploadId }, ctx) => {
      const message = name === "send" ? "The report, please" : "Another one";
      const outcome = await uploads.ask({ message, fields, uploadId }, { mcp, ctx });
      if (outcome.action === "ask") return outcome.result;
      return { content: [{ type: "text", text: JSON.stringify(outcome) }] };
    });
  return mcp;
}

async function start(fields?: Fields, server?: UploadServer) {
  const site = server ?? (await startUploadServer());
  const fetch = createToolServer(
    site.sluice,
    async () => ({ content: [] }),
    (mcp) => void registerTools(mcp, site.uploads, fields),
  );
  return { ...site, fetch };
}

interface Told {
  readonly text: string;
  readonly isError: boolean;
  readonly data: Record<string, any>;
}

async function call(client: Client, uploadId?: string, name = "send"): Promise<Told> {
  const result = await client.callTool({ name, arguments: { upload_id: uploadId } });
  const [content] = result.content as { text: string }[];
  const data = (result.structuredContent ?? {}) as Record<string, any>;
  return { text: content!.text, isError: result.isError === true, data };
}

/** A file of the user, as a shell names it. */
async function reportFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-report-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "report of today.txt"), "a report");
  return `'${join(folder, "report of today.txt")}'`;
}

/** Lets every wait end at once. */
function endWaits(): void {
  let now = systemClock.now();
  vi.spyOn(systemClock, "now").mockImplementation(() => (now += 30_000));
}

const put = (url: string, body = "a report", type = "text/plain") =>
  fetch(url, { method: "PUT", body, headers: { "content-type": type } });

/** What the page's script does: it asks, and gives the answer that a user has. */
async function openPage(url: string, accept = "application/json") {
  const shown = await fetch(url, { headers: { accept: "text/html" } });
  await fetch(shown.url, { headers: { accept } });
  return {
    html: await shown.text(),
    answer: (body: object) =>
      fetch(shown.url, {
        method: "POST",
        headers: { "content-type": "application/json", origin: new URL(url).origin },
        body: JSON.stringify({ answerId: "a".repeat(22), ...body }),
      }),
  };
}

test.each(eras)(
  "%s: a host that can be asked nothing gets an answer for its model, which calls again with the id",
  async (era) => {
    const { fetch, url } = await start();
    const client = await connectAnswerer({ era, fetch, capabilities: {}, token: "alice" });
    const asked = await call(client);
    expect(asked.isError).toBe(false);
    const { data } = asked;
    expect(data).toEqual({
      status: "upload_required",
      upload_id: expect.stringMatching(/^[\w-]{32}$/),
      page_url: expect.stringMatching(new RegExp(`^${url}/u/[\\w-]{32}$`)),
      upload_url: `${data["page_url"]}/`,
      method: "PUT",
      max_bytes: 1_000,
      accept: ["text/*"],
      expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
    // a model needs no more than the text
    for (const said of ["The report, please", "1 kB", data["page_url"], data["upload_id"]])
      expect(asked.text).toContain(said);
    const line = /^curl .*/m.exec(asked.text)![0].replace("FILE", await reportFile());
    const { stdout } = await run("sh", ["-c", line]);
    expect(JSON.parse(stdout)).toMatchObject({ uploadId: data["upload_id"], status: "completed" });
    const done = await call(client, data["upload_id"]);
    expect(JSON.parse(done.text)).toMatchObject({
      action: "accept",
      files: { report: { name: "report of today.txt", size: 8 } },
    });
    // a host that repeats a call hears the same
    expect(await call(client, data["upload_id"])).toEqual(done);
  },
);

test.each(eras)("%s: while nothing has come the same upload is asked for again", async (era) => {
  const { fetch } = await start();
  const client = await connectAnswerer({ era, fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  endWaits();
  const again = await call(client, data["upload_id"]);
  expect(again.data).toEqual(data);
  expect(again.text).toMatch(/^Nothing has come yet/);
  vi.restoreAllMocks();
  // a file that comes while the call waits is taken
  const waiting = call(client, data["upload_id"]);
  expect((await put(data["upload_url"])).status).toBe(201);
  expect(JSON.parse((await waiting).text)).toMatchObject({ action: "accept" });
});

test.each(eras)("%s: the user answers on the page, or declines there", async (era) => {
  for (const action of ["accept", "decline"]) {
    const { fetch } = await start({ ...one, note: { type: "string", required: true } });
    const client = await connectAnswerer({ era, fetch, capabilities: {}, token: "alice" });
    const { data, text } = await call(client);
    // more than a file must be answered, so there is no upload URL
    expect([data["upload_url"], text.includes("curl")]).toEqual([undefined, false]);
    const page = await openPage(data["page_url"]);
    expect(page.html).toContain("The report, please");
    const [slot] = /http[^"]*\/u\/[\w-]{32}/.exec(page.html)!;
    const sent = (await (await put(slot)).json()) as { size: number; mimeType: string };
    const report = { name: "r.txt", size: sent.size, mimeType: "text/plain" };
    const named = { ...report, uploadId: data["upload_id"] };
    const content = { report: named, note: "it is final" };
    expect((await page.answer({ action, content })).status).toBe(204);
    const { text: outcome } = await call(client, data["upload_id"]);
    const accepted = { action: "accept", files: { report }, values: { note: "it is final" } };
    expect(JSON.parse(outcome)).toMatchObject(action === "accept" ? accepted : { action });
    const ended = await (await globalThis.fetch(slot, { headers: { accept: "text/html" } })).text();
    expect(ended).toContain(action === "accept" ? "All done" : "Nothing is used");
  }
});

test("a file on an open page is taken when its user has pressed Done, and not before", async () => {
  const { fetch } = await start();
  const client = await connectAnswerer({ era: "legacy", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  const page = await openPage(data["page_url"]);
  await put(data["upload_url"]);
  endWaits();
  const early = await call(client, data["upload_id"]);
  expect(early.text).toMatch(/ask the user to press Done/);
  vi.restoreAllMocks();
  const { upload_id: uploadId } = data;
  const report = { name: "r.txt", size: 8, mimeType: "text/plain", uploadId };
  await page.answer({ action: "accept", content: { report } });
  expect(JSON.parse((await call(client, uploadId)).text)).toMatchObject({ action: "accept" });
  // the twin: a program that loads the page, such as a preview of links, is not a user
  const second = await call(client);
  await openPage(second.data["page_url"], "text/html");
  await put(second.data["upload_url"]);
  const taken = await call(client, second.data["upload_id"]);
  expect(JSON.parse(taken.text)).toMatchObject({ action: "accept" });
});

test.each<[string, Fields, number]>([
  ["two files", { first: one.report, second: one.report }, 2],
  ["a file and a text", { ...one, note: { type: "string", required: true } }, 1],
  [
    "several files and a text",
    { ...one, more: { ...one.report, multiple: true }, note: { type: "string" } },
    2,
  ],
])(
  "a page for %s: the result says how many files have arrived, and that Done is missing",
  async (_what, fields, count) => {
    const { fetch } = await start(fields);
    const client = await connectAnswerer({
      era: "modern",
      fetch,
      capabilities: {},
      token: "alice",
    });
    const { data } = await call(client);
    const page = await openPage(data["page_url"]);
    const slots = [...new Set(page.html.match(/http[^"]*\/u\/[\w-]{32}/g))];
    expect(slots).toHaveLength(count);
    for (const [at, slot] of slots.entries()) {
      expect((await put(slot)).status).toBe(201);
      endWaits();
      const { text } = await call(client, data["upload_id"]);
      vi.restoreAllMocks();
      const words = at === 0 ? "1 file has arrived" : `${at + 1} files have arrived`;
      expect(text).toContain(`${words}, but the user has not confirmed the answer`);
      expect(text).toContain("press Done");
    }
  },
);

test("an upload is taken up by its principal, with its question only", async () => {
  const state = createMemoryStateStore();
  const server = await startUploadServer({
    sluice: { stores: { ...createMemoryStores(), state } },
  });
  const { fetch } = await start(one, server);
  const changed = await start({ report: { ...one.report, maxBytes: 999 } }, server);
  const connect = (token: string, through = fetch) =>
    connectAnswerer({ era: "modern", fetch: through, capabilities: {}, token });
  const alice = await connect("alice");
  const { data } = await call(alice);
  await put(data["upload_url"]);
  const id = data["upload_id"] as string;
  const altered = id.slice(0, -1) + (id.endsWith("A") ? "B" : "A");
  const refused = {
    isError: true,
    text: expect.stringMatching(/call the tool again without upload_id/),
  };
  expect(await call(await connect("bob"), id)).toMatchObject(refused);
  expect(await call(alice, id, "other")).toMatchObject(refused);
  expect(await call(await connect("alice", changed.fetch), id)).toMatchObject(refused);
  for (const wrong of [altered, "x", "../../etc"])
    expect(await call(alice, wrong)).toMatchObject(refused);
  // models fill arguments that they leave out
  expect((await call(alice, "")).data).toMatchObject({ status: "upload_required" });
  // and none of them used it up
  expect(JSON.parse((await call(alice, id)).text)).toMatchObject({ action: "accept" });
});

test("calls that a host repeats get the same file, and an id ends with its time", async () => {
  const { fetch } = await start();
  const client = await connectAnswerer({ era: "legacy", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  await put(data["upload_url"]);
  const both = await Promise.all([0, 1].map(() => call(client, data["upload_id"])));
  expect(JSON.parse(both[0]!.text)).toMatchObject({ action: "accept" });
  expect(both[1]).toEqual(both[0]);
  const late = await call(client);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 1_000_000);
  expect(await call(client, late.data["upload_id"])).toMatchObject({ isError: true });
});

test("a repeated call waits for as long as the one before may confirm", async () => {
  let confirm: (() => void) | undefined;
  let isHeld = false;
  const server = await startUploadServer({
    wrap: (backend) => ({
      ...backend,
      async write(key, options) {
        if (isHeld && !confirm) await new Promise<void>((resolve) => void (confirm = resolve));
        return backend.write!(key, options);
      },
    }),
  });
  const { fetch } = await start(one, server);
  const client = await connectAnswerer({ era: "legacy", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  await put(data["upload_url"]);
  isHeld = true;
  const first = call(client, data["upload_id"]);
  await vi.waitFor(() => expect(confirm).toBeDefined());
  const repeated = call(client, data["upload_id"]);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const now = systemClock.now.bind(systemClock);
  vi.spyOn(systemClock, "now").mockImplementation(() => now() + 40_000);
  await new Promise((resolve) => setTimeout(resolve, 500));
  confirm!();
  const { text } = await first;
  expect(JSON.parse(text)).toMatchObject({ action: "accept" });
  expect((await repeated).text).toBe(text);
});

test("any process with the same keys and stores takes an upload up", async () => {
  const state = createMemoryStateStore();
  const server = await startUploadServer({
    sluice: { stores: { ...createMemoryStores(), state } },
  });
  const first = await start(one, server);
  const second = await start(one, server);
  const connect = (fetch: typeof globalThis.fetch) =>
    connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(await connect(first.fetch));
  await put(data["upload_url"]);
  const { text } = await call(await connect(second.fetch), data["upload_id"]);
  expect(JSON.parse(text)).toMatchObject({ action: "accept" });
});

test("a call that is given up leaves the upload for the next one", async () => {
  const { fetch } = await start();
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  const stop = new AbortController();
  const { upload_id } = data;
  const waiting = client.callTool(
    { name: "send", arguments: { upload_id } },
    { signal: stop.signal },
  );
  stop.abort();
  await expect(waiting).rejects.toThrow(/abort/i);
  await put(data["upload_url"]);
  expect(JSON.parse((await call(client, upload_id)).text)).toMatchObject({ action: "accept" });
});

test("a call that is given up while its files are confirmed leaves them for the next one", async () => {
  let confirm: (() => void) | undefined;
  let isHeld = false;
  const server = await startUploadServer({
    wrap: (backend) => ({
      ...backend,
      async write(key, options) {
        if (isHeld) await new Promise<void>((resolve) => void (confirm = resolve));
        return backend.write!(key, options);
      },
    }),
  });
  const { fetch } = await start(one, server);
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  const { upload_id } = data;
  await put(data["upload_url"]);
  isHeld = true;
  const stop = new AbortController();
  const givenUp = client.callTool(
    { name: "send", arguments: { upload_id } },
    { signal: stop.signal },
  );
  givenUp.catch(() => {});
  await vi.waitFor(() => expect(confirm).toBeDefined());
  stop.abort();
  await expect(givenUp).rejects.toThrow(/abort/i);
  isHeld = false;
  const again = call(client, upload_id);
  confirm!();
  expect(JSON.parse((await again).text)).toMatchObject({ action: "accept" });
});

test("legacy: it works without a session", async () => {
  const { sluice, uploads } = await startUploadServer();
  const handler = createMcpHandler(() =>
    sluice.attach(registerTools(new McpServer({ name: "test", version: "1.0.0" }), uploads)),
  );
  const client = await connectAnswerer({
    era: "legacy",
    fetch: (input, init) => handler.fetch(new Request(input, init)),
    token: "alice",
  });
  const { data } = await call(client);
  await put(data["upload_url"]);
  expect(JSON.parse((await call(client, data["upload_id"])).text)).toMatchObject({
    action: "accept",
  });
});

test("the tool works over stdio if the process takes uploads, whatever the host declares", async () => {
  for (const capabilities of [{}, { elicitation: { binary: {} } }]) {
    const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
    const mcp = sluice.attach(
      registerTools(new McpServer({ name: "test", version: "1.0.0" }), uploads),
    );
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "test", version: "1.0.0" }, { capabilities });
    onTestFinished(() => client.close());
    await Promise.all([mcp.connect(ours), client.connect(theirs)]);
    const { data } = await call(client);
    await put(data["upload_url"]);
    expect(JSON.parse((await call(client, data["upload_id"])).text)).toMatchObject({
      action: "accept",
    });
  }
});

test.each(eras)("%s: a host that can be asked is asked, as before", async (era) => {
  const { fetch } = await start();
  const modes: unknown[] = [];
  const client = await connectAnswerer({
    era,
    fetch,
    token: "alice",
    answer: ({ mode }) => {
      modes.push(mode);
      return { action: "decline" };
    },
  });
  expect(JSON.parse((await call(client)).text)).toEqual({ action: "decline" });
  expect(modes).toEqual(["binary"]);
});

test("several files are asked for by field, and the page of any of their URLs is that of the question", async () => {
  const { fetch } = await start({
    first: { type: "file" },
    more: { type: "file", multiple: true },
  });
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data, text } = await call(client);
  expect(data).not.toHaveProperty("upload_url");
  expect(text).toMatch(/first: one file, at most .*; more: up to 10 files/);
  const page = await openPage(data["page_url"]);
  expect(new Set(page.html.match(/http[^"]*\/u\/[\w-]{32}/g)).size).toBe(2);
});

test("a file that its slot refuses is told to its sender, and the upload goes on", async () => {
  const { fetch } = await start();
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  expect((await put(data["upload_url"], "x".repeat(1_001))).status).toBe(413);
  expect((await put(data["upload_url"], "%PDF-1.7\n", "application/pdf")).status).toBe(415);
  expect((await put(data["upload_url"])).status).toBe(201);
  expect(JSON.parse((await call(client, data["upload_id"])).text)).toMatchObject({
    action: "accept",
  });
});

test("the tool works the same with sealed tokens, with longer URLs", async () => {
  const server = await startUploadServer({ sluice: { links: { tokens: "sealed" } } });
  const { fetch } = await start(one, server);
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  const { data } = await call(client);
  expect(data["page_url"]).toMatch(/\/mcp\/upload-page\//);
  expect(data["upload_url"]).toMatch(/\/mcp\/uploads\//);
  const { html } = await openPage(data["page_url"], "text/html");
  expect(html).toContain("The report, please");
  await put(`${data["upload_url"]}r.txt`);
  const { text } = await call(client, data["upload_id"]);
  expect(JSON.parse(text)).toMatchObject({
    action: "accept",
    files: { report: { name: "r.txt" } },
  });
});
