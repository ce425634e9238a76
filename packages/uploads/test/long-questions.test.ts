import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport as InMemoryTransportV1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { createFileSender, type FileSenderOptions, type NamedBlob } from "@sluice/client/send";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import type { AnyCall } from "@sluice/server";
import { uploadIdInput, type Fields, type Uploads } from "../src/index.ts";
import { connectAnswerer, createToolServer } from "./asking.ts";
import { startUploadServer, type UploadServerOptions } from "./upload-server.ts";

// what a user needs minutes for, in virtual time: hosts give up on a call that says nothing for 60 s

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"],
    shouldAdvanceTime: true,
  });
});
afterEach(() => void vi.useRealTimers());

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const report = { blob: new Blob(["a report"], { type: "text/plain" }), name: "report.txt" };
const one = { report: { type: "file", accept: ["text/*"], maxBytes: 1_000 } } as const;

type Call = (uploadId?: string, options?: object, name?: string) => Promise<Told>;
type Answer = Awaited<ReturnType<FileSenderOptions<NamedBlob>["onFilesRequested"]>>;

interface Told {
  readonly text: string;
  readonly data: Record<string, any>;
}

/** A host, its user's dialog, and the URL of the page that it was asked to open. */
interface ConnectedHost {
  readonly call: Call;
  /** Answers what the user was asked. */
  readonly answer: (answer: object) => void;
  /** Resolves when the user has been asked. */
  readonly asked: Promise<any>;
  /** Pages that the host was told are done. */
  readonly done?: readonly string[];
}

/** The handler for SDK v1 and v2: the fields that both have. */
type AnyContext = AnyCall["ctx"];

function register(mcp: any, uploads: Uploads, fields: Fields = one): void {
  const shape = { upload_id: uploadIdInput() };
  const inputSchema = mcp instanceof McpServerV1 ? shape : z.object(shape);
  const ask = async (ctx: AnyContext, id: object) => {
    const request = { message: "The report, please", fields, ...id };
    const outcome = await uploads.ask(request, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: JSON.stringify(outcome) }] };
  };
  mcp.registerTool("send", { inputSchema }, (args: any, ctx: AnyContext) =>
    ask(ctx, { uploadId: args.upload_id }),
  );
  mcp.registerTool("plain", { inputSchema }, (_args: any, ctx: AnyContext) => ask(ctx, {}));
}

async function serve(fields?: Fields, options: UploadServerOptions = {}) {
  const site = await startUploadServer({ ...options, sluice: { anonymous: true } });
  const fetch = createToolServer(
    site.sluice,
    async () => ({ content: [] }),
    (mcp) => register(mcp, site.uploads, fields),
  );
  return { ...site, fetch, fields };
}

type Site = Awaited<ReturnType<typeof serve>>;

const callsOf =
  (client: any): Call =>
  async (uploadId, options = {}, name = "send") => {
    const params = { name, arguments: { upload_id: uploadId } };
    const isV1 = client instanceof ClientV1;
    const result = await (isV1
      ? client.callTool(params, undefined, options)
      : client.callTool(params, options));
    const [{ text }] = result.content;
    return { text, data: result.structuredContent ?? {} };
  };

/** What a user is asked, and the answer that a test gives. */
function dialog() {
  let ask!: (question: any) => void;
  let answer!: (answer: any) => void;
  const asked = new Promise<any>((resolve) => void (ask = resolve));
  const answered = new Promise<any>((resolve) => void (answer = resolve));
  return { ask, asked, answer, answered };
}

const headers = { authorization: "Bearer alice" };

/** Hosts that send files themselves, by our sender. */
const senders: Record<string, (site: Site) => Promise<ConnectedHost>> = {
  async "SDK version 2"(site) {
    const { ask, asked, answer, answered } = dialog();
    const files = senderOf(site, ask, answered);
    const client = new (files.extend(Client))({ name: "test", version: "1" });
    const transport = new StreamableHTTPClientTransport(new URL(site.url), {
      fetch: files.fetch(site.fetch),
      requestInit: { headers },
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { call: callsOf(client), answer, asked };
  },
  async "SDK version 1"(site) {
    const { ask, asked, answer, answered } = dialog();
    const files = senderOf(site, ask, answered);
    const client = new ClientV1({ name: "test", version: "1" });
    files.attach(client);
    const transport = new TransportV1(new URL(site.url), {
      fetch: files.fetch(site.fetch),
      requestInit: { headers },
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { call: callsOf(client), answer, asked };
  },
};

function senderOf({ url }: Site, ask: (question: any) => void, answered: Promise<Answer>) {
  return createFileSender({
    endpoint: url,
    onFilesRequested(request) {
      ask(request);
      return answered;
    },
  });
}

const capabilities = { elicitation: { url: {} } };

/** Hosts that open a page. */
const browsers: Record<string, (site: Site) => Promise<ConnectedHost>> = {
  async "SDK version 2"(site) {
    const { ask, asked, answer, answered } = dialog();
    const client = new Client({ name: "test", version: "1" }, { capabilities });
    client.setRequestHandler("elicitation/create", ({ params }) => {
      ask(params);
      return answered;
    });
    const done: string[] = [];
    client.setNotificationHandler("notifications/elicitation/complete", ({ params }) => {
      done.push(params.elicitationId);
    });
    const transport = new StreamableHTTPClientTransport(new URL(site.url), {
      fetch: site.fetch,
      requestInit: { headers },
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { call: callsOf(client), answer, asked, done };
  },
  async "SDK version 1 on both sides"(site) {
    const { ask, asked, answer, answered } = dialog();
    const mcp = new McpServerV1({ name: "test", version: "1.0.0" });
    register(mcp, site.uploads, site.fields);
    site.uploads.host.routes("/mcp");
    const client = new ClientV1({ name: "test", version: "1" }, { capabilities });
    client.fallbackRequestHandler = async ({ params }) => {
      ask(params);
      return answered;
    };
    const done: string[] = [];
    client.fallbackNotificationHandler = async ({ params }: any) =>
      void done.push(params.elicitationId);
    const [ours, theirs] = InMemoryTransportV1.createLinkedPair();
    onTestFinished(() => client.close());
    await Promise.all([site.sluice.attach(mcp).connect(ours), client.connect(theirs)]);
    return { call: callsOf(client), answer, asked, done };
  },
};

/** What the page's script does: it asks how things are, sends a file and gives an answer. */
async function pageOf(url: string) {
  const shown = await fetch(url, { headers: { accept: "text/html" } });
  const { origin } = new URL(url);
  const [slot] = /http[^"]*\/u(?:ploads)?\/[\w.-]{32,}/.exec(await shown.text()) ?? [""];
  const json = { accept: "application/json" };
  return {
    async phase(): Promise<string> {
      return ((await (await fetch(shown.url, { headers: json })).json()) as any).phase;
    },
    async send(): Promise<object> {
      const body = "a report";
      const sent = await fetch(slot, {
        method: "PUT",
        body,
        headers: { "content-type": "text/plain" },
      });
      const { uploadId } = (await sent.json()) as { uploadId: string };
      return { name: "r.txt", size: body.length, mimeType: "text/plain", uploadId };
    },
    async answer(body: object): Promise<number> {
      const own = { "content-type": "application/json", origin };
      const given = JSON.stringify({ answerId: "a".repeat(22), ...body });
      return (await fetch(shown.url, { method: "POST", body: given, headers: own })).status;
    },
  };
}

const sendNow = (name = "report") => ({ action: "accept", files: { [name]: [report] } });

/** Options of a host that waits as long as there is progress. */
function patient() {
  const progress: number[] = [];
  const onprogress = (note: { progress: number }): void => void progress.push(note.progress);
  return { progress, options: { onprogress, resetTimeoutOnProgress: true } };
}

function expectGrowth(progress: readonly number[], atLeast: number): void {
  expect(progress.length).toBeGreaterThanOrEqual(atLeast);
  expect(progress).toEqual([...new Set(progress)].toSorted((a, b) => a - b));
  // a tool that counts something itself goes on from 1
  expect(Math.max(...progress)).toBeLessThan(1);
}

describe.each(Object.entries(senders))("%s, a host that sends files itself", (_name, connect) => {
  test.each(["send", "plain"])(
    "a call that wants progress lasts as long as the user takes (%s)",
    async (tool) => {
      const { call, answer, asked } = await connect(await serve());
      const { progress, options } = patient();
      const result = call(undefined, options, tool);
      await asked;
      for (let minute = 0; minute < 10; minute++) await pass(60_000);
      answer(sendNow());
      expect(JSON.parse((await result).text)).toMatchObject({ action: "accept" });
      expectGrowth(progress, 40);
    },
  );

  test("a call without progress ends before its host gives up, and what the dialog says later counts", async () => {
    const { call, answer, asked, site } = await connectTo(connect);
    const result = call();
    await asked;
    await pass(50_000);
    const { data, text } = await result;
    expect(data).toMatchObject({ status: "upload_required", page_url: expect.any(String) });
    expect(text).toMatch(/^The user has been asked/);
    // files alone do not say that they are all
    expect(data["upload_url"]).toBeUndefined();
    await pass(120_000);
    answer(sendNow());
    await expect.poll(() => site.files()).not.toEqual([]);
    const again = await call(data["upload_id"]);
    expect(JSON.parse(again.text)).toMatchObject({
      action: "accept",
      files: { report: { name: "report.txt", size: 8 } },
    });
    expect(await (await pageOf(data["page_url"])).phase()).toBe("accepted");
    expect(site.errors).toEqual([]);
  });

  test("a late refusal ends the question", async () => {
    const { call, answer, asked } = await connectTo(connect);
    const result = call();
    await asked;
    await pass(50_000);
    const { data } = await result;
    answer({ action: "decline" });
    const page = await pageOf(data["page_url"]);
    await expect.poll(() => page.phase()).toBe("declined");
    expect(JSON.parse((await call(data["upload_id"])).text)).toEqual({ action: "decline" });
  });

  test("a dialog that closes with its call leaves the page", async () => {
    const { call, answer, asked } = await connectTo(connect);
    const result = call();
    await asked;
    await pass(50_000);
    const { data } = await result;
    answer({ action: "cancel" });
    const page = await pageOf(data["page_url"]);
    const content = { report: await page.send() };
    expect(await page.answer({ action: "accept", content })).toBe(204);
    const again = await call(data["upload_id"]);
    expect(JSON.parse(again.text)).toMatchObject({ action: "accept" });
  });

  test("a call without progress and without an upload id waits until its host gives up", async () => {
    const { call, asked, site } = await connectTo(connect);
    const result = call(undefined, {}, "plain");
    await asked;
    await Promise.all([expect(result).rejects.toThrow(/timed out/i), pass(61_000)]);
    // what says that the slot takes nothing more
    await expect.poll(async () => (await site.files()).length).toBe(1);
  });
});

describe.each(Object.entries(browsers))("%s, a host that opens a page", (_name, connect) => {
  test("a call that wants progress lasts as long as the user takes", async () => {
    const { call, answer, asked } = await connectTo(connect);
    const { progress, options } = patient();
    const result = call(undefined, options);
    const { url } = await asked;
    answer({ action: "accept" });
    for (let minute = 0; minute < 10; minute++) await pass(60_000);
    const page = await pageOf(url);
    await page.answer({ action: "accept", content: { report: await page.send() } });
    await pass(3_000);
    expect(JSON.parse((await result).text)).toMatchObject({ action: "accept" });
    expectGrowth(progress, 40);
  });

  test("a call without progress ends before its host gives up, and the page that is open still counts", async () => {
    const { call, answer, asked, done, site } = await connectTo(connect);
    const result = call();
    const { url } = await asked;
    answer({ action: "accept" });
    const page = await pageOf(url);
    const sent = await page.send();
    await pass(50_000);
    const { data } = await result;
    expect(data).toMatchObject({ status: "upload_required", page_url: url });
    expect(await page.phase()).toBe("open");
    await pass(120_000);
    expect(await page.answer({ action: "accept", content: { report: sent } })).toBe(204);
    const again = await call(data["upload_id"]);
    expect(JSON.parse(again.text)).toMatchObject({
      action: "accept",
      files: { report: { size: 8 } },
    });
    expect(await page.phase()).toBe("accepted");
    // a dialog that waits for it closes
    expect(done).toEqual([data["upload_id"]]);
    expect(site.errors).toEqual([]);
  });

  test("a host that refuses late ends the question", async () => {
    const { call, answer, asked } = await connectTo(connect);
    const result = call();
    const { url } = await asked;
    await pass(50_000);
    const { data } = await result;
    answer({ action: "decline" });
    const page = await pageOf(url);
    await expect.poll(() => page.phase()).toBe("declined");
    expect(JSON.parse((await call(data["upload_id"])).text)).toEqual({ action: "decline" });
  });
});

const several = { report: { ...one.report, multiple: true, maxFiles: 2 } } as const;

/** A host that sends files itself, and says what a test wants. */
async function connectLiar(fields?: Fields) {
  const site = await serve(fields);
  const { ask, asked, answer, answered } = dialog();
  const client = await connectAnswerer({
    era: "legacy",
    fetch: site.fetch,
    token: "alice",
    answer(question) {
      ask(question);
      return answered;
    },
  });
  const call = callsOf(client);
  const result = call();
  const { url, uploadId } = (await asked).uploadEndpoints.report;
  await pass(50_000);
  const send = async (name: string) => {
    const type = { "content-type": "text/plain" };
    const sent = await fetch(`${url}/${name}`, { method: "PUT", body: "a report", headers: type });
    expect(sent.status).toBe(201);
    return { name, size: 8, mimeType: "text/plain", uploadId };
  };
  return { site, call, answer, send, uploadId, data: (await result).data };
}

test.each<[string, (sent: object) => unknown]>([
  ["another size", (sent) => ({ action: "accept", content: { report: { ...sent, size: 9 } } })],
  ["another id", (sent) => ({ action: "accept", content: { report: { ...sent, uploadId: "x" } } })],
  ["no file", () => ({ action: "accept", content: {} })],
  ["a field of its own", (sent) => ({ action: "accept", content: { report: sent, more: 1 } })],
])("a late answer with %s takes nothing, and leaves the page", async (_case, lie) => {
  const { call, answer, send, data, site } = await connectLiar();
  const sent = await send("r.txt");
  answer(lie(sent));
  await expect.poll(() => site.errors.length).toBe(1);
  const page = await pageOf(data["page_url"]);
  expect(await page.phase()).toBe("open");
  expect(await page.answer({ action: "accept", content: { report: sent } })).toBe(204);
  expect(JSON.parse((await call(data["upload_id"])).text)).toMatchObject({ action: "accept" });
});

test("the first of several files does not end the request", async () => {
  const { call, answer, send, data } = await connectLiar(several);
  const first = await send("first.txt");
  const [waiting] = await Promise.all([call(data["upload_id"]), pass(25_000)]);
  expect(waiting.text).toMatch(/^1 file has arrived/);
  const second = await send("second.txt");
  answer({ action: "accept", content: { report: [first, second] } });
  const { files } = JSON.parse((await call(data["upload_id"])).text);
  expect(files.report.map(({ name }: any) => name).toSorted()).toEqual(["first.txt", "second.txt"]);
});

test("the upload of another user is not taken up", async () => {
  const { site, data } = await connectLiar();
  const client = await connectAnswerer({ era: "legacy", fetch: site.fetch, token: "bob" });
  expect((await callsOf(client)(data["upload_id"])).text).toContain(
    "no upload with this upload_id",
  );
});

async function connectTo(connect: (site: Site) => Promise<ConnectedHost>, fields?: Fields) {
  const site = await serve(fields);
  return { site, ...(await connect(site)) };
}
