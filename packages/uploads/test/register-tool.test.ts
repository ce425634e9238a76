import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport as InMemoryTransportV1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Uploads } from "../src/index.ts";
import { connectAnswerer, createToolServer, eras, type Asked } from "./asking.ts";
import { bearer, startUploadServer, type UploadServer } from "./upload-server.ts";

const report = "one\ntwo\nthree\n";
const fields = {
  report: { type: "file", accept: ["text/*"], maxBytes: 1_000 },
  more: { type: "file", multiple: true, required: false },
  note: { type: "string" },
} as const;
const question = { message: "Which report?", fields };

type Register = (mcp: McpServer, uploads: Uploads) => void;

/** A server whose tool `count` was registered, and what its handler got. */
async function serve(register: Register, site?: UploadServer) {
  const server = site ?? (await startUploadServer());
  const fetch = createToolServer(
    server.sluice,
    async () => ({ content: [] }),
    (mcp) => register(mcp, server.uploads),
  );
  return { ...server, fetch };
}

const bytesOnDisk = async ({ files }: UploadServer): Promise<string[]> =>
  (await files()).filter((path) => path.includes("bytes-"));

const put = (url: string): Promise<Response> =>
  fetch(url, {
    method: "PUT",
    headers: {
      ...bearer("alice"),
      "content-type": "text/plain",
      "content-disposition": 'inline; filename="report.txt"',
    },
    body: report,
  });

/** What a client answers whose user sends the report. */
async function send({ uploadEndpoints }: Asked) {
  const { url, uploadId } = uploadEndpoints!["report"]!;
  expect((await put(url)).status).toBe(201);
  const facts = { name: "report.txt", size: report.length, mimeType: "text/plain", uploadId };
  return { action: "accept", content: { report: facts, note: "mine" } };
}

interface Told {
  readonly text: string;
  readonly isError: boolean;
  readonly data: Record<string, string>;
}

async function call(client: Pick<Client, "callTool">, args: object = {}): Promise<Told> {
  const result = await client.callTool({ name: "count", arguments: { ...args } });
  const [content] = result.content as { text: string }[];
  const data = (result.structuredContent ?? {}) as Record<string, string>;
  return { text: content!.text, isError: result.isError === true, data };
}

describe.each(eras)("%s: a tool that asks", (era) => {
  const connect = (fetch: typeof globalThis.fetch, answer?: (asked: Asked) => unknown) =>
    connectAnswerer({
      era,
      fetch,
      token: "alice",
      ...(answer ? { answer } : { capabilities: {} }),
    });

  test("gives its handler the files, the values, its arguments and its call, and removes the files", async () => {
    const inputSchema = z.object({ unit: z.enum(["lines", "bytes"]).default("lines") });
    let isTyped = false;
    const server = await serve((mcp, uploads) =>
      uploads.registerTool(
        mcp,
        "count",
        { ...question, inputSchema },
        async ({ files, values, args }, given) => {
          const { note }: { readonly note: string | undefined } = values;
          const unit: "lines" | "bytes" = args.unit;
          isTyped = given.mcp === mcp && !given.ctx.mcpReq.signal.aborted;
          const lines = (await files.report.text()).split("\n").length - 1;
          const { byteLength } = await files.report.bytes();
          return `${note}: ${unit === "lines" ? lines : byteLength}, ${files.more.length} more`;
        },
      ),
    );
    const client = await connect(server.fetch, send);
    expect(await call(client, { unit: "bytes" })).toMatchObject({
      text: "mine: 14, 0 more",
      isError: false,
    });
    expect([isTyped, await bytesOnDisk(server)]).toEqual([true, []]);
    const { tools } = await client.listTools();
    const { inputSchema: schema } = tools.find(({ name }) => name === "count")!;
    expect(Object.keys(schema.properties!)).toEqual(["unit", "upload_id"]);
  });

  test("keeps only what its handler keeps, even if the handler throws", async () => {
    let kept: { remove(): Promise<void> } | undefined;
    let isKeeping = false;
    const server = await serve((mcp, uploads) =>
      uploads.registerTool(mcp, "count", question, ({ files }) => {
        if (isKeeping) files.report.keep();
        kept = files.report;
        throw new Error("no count");
      }),
    );
    const client = await connect(server.fetch, send);
    expect(await call(client)).toMatchObject({ isError: true, text: "no count" });
    expect(await bytesOnDisk(server)).toEqual([]);
    isKeeping = true;
    await call(client);
    expect(await bytesOnDisk(server)).toHaveLength(1);
    await kept!.remove();
    expect(await bytesOnDisk(server)).toEqual([]);
  });

  test.each(["decline", "cancel"] as const)("answers %s in words", async (action) => {
    const server = await serve((mcp, uploads) =>
      uploads.registerTool(mcp, "count", question, () => expect.unreachable("there is no file")),
    );
    const client = await connect(server.fetch, () => ({ action }));
    const { text, isError } = await call(client);
    expect(text).toMatch(action === "decline" ? /^The user declined/ : /^The user closed/);
    expect(isError).toBe(false);
  });

  test("asks by its result in a host without elicitation, beside an output schema", async () => {
    const outputSchema = z.object({ lines: z.number() });
    const only = { report: fields.report };
    const server = await serve((mcp, uploads) =>
      uploads.registerTool(
        mcp,
        "count",
        { message: "Which report?", fields: only, outputSchema },
        async ({ files }) => ({
          content: [],
          structuredContent: { lines: (await files.report.text()).split("\n").length - 1 },
        }),
      ),
    );
    const client = await connect(server.fetch);
    // with the schemas of the tools a client checks each result
    await client.listTools();
    const asked = await client.callTool({ name: "count", arguments: {} });
    const { status, upload_id, upload_url } = asked.structuredContent as Record<string, string>;
    expect(status).toBe("upload_required");
    expect((await put(upload_url!)).status).toBe(201);
    const done = await client.callTool({ name: "count", arguments: { upload_id } });
    expect(done.structuredContent).toEqual({ lines: 3 });
    expect(await bytesOnDisk(server)).toEqual([]);
    // a refusal has no data: with a schema it must be an error
    const refusing = await connect(server.fetch, () => ({ action: "decline" }));
    expect(await call(refusing)).toMatchObject({ isError: true, text: /declined/ as never });
  });
});

test("a file that cannot be removed is reported, and the result stands", async () => {
  const server = await startUploadServer({
    wrap: (backend) => ({ ...backend, remove: () => Promise.reject(new Error("stuck")) }),
  });
  const { fetch } = await serve(
    (mcp, uploads) => uploads.registerTool(mcp, "count", question, () => "counted"),
    server,
  );
  const client = await connectAnswerer({ era: "modern", fetch, token: "alice", answer: send });
  expect(await call(client)).toMatchObject({ text: "counted", isError: false });
  expect(server.errors).not.toEqual([]);
});

test("text is read as its byte order mark says, and without the mark", async () => {
  const { uploads } = await startUploadServer();
  const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };
  const utf16 = Buffer.from("\ufeffzwölf", "utf16le");
  for (const bytes of [
    Buffer.from("zwölf"),
    Buffer.from("\ufeffzwölf"),
    utf16,
    Buffer.from(utf16).swap16(),
  ]) {
    const file = await uploads.keep(undefined, { bytes, mimeType: "text/plain" }, terms);
    expect(await file.text()).toBe("zwölf");
    expect(Buffer.from(await file.bytes()).equals(bytes)).toBe(true);
  }
});

test("reading a whole file ends with its signal, and says when storage has another size", async () => {
  let cut = 0;
  const { uploads } = await startUploadServer({
    wrap: (backend) => ({
      ...backend,
      async open(key, options) {
        const opened = await backend.open(key, options);
        if (cut === 0 || !key.includes("bytes-")) return opened;
        const content = Buffer.alloc(100 + cut);
        const info = { ...opened.info, size: content.length };
        return { info, body: new Blob([content]).stream() };
      },
    }),
  });
  const bytes = new Uint8Array(100);
  const file = await uploads.keep(
    undefined,
    { bytes },
    { accept: [], maxBytes: 1_000, maxFiles: 1 },
  );
  await expect(file.bytes({ signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
  for (cut of [-1, 1]) await expect(file.bytes()).rejects.toMatchObject({ code: "corrupt" });
});

describe("SDK v1", () => {
  test("a server has the same tool", async () => {
    const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
    uploads.host.routes("/mcp");
    const mcp = new McpServerV1({ name: "test", version: "1.0.0" });
    uploads.registerTool(
      mcp,
      "count",
      { message: "Which?", fields: { a: { type: "file" } } },
      ({ files: { a } }, given) => `${given.mcp === mcp} ${a.size}`,
    );
    const [ours, theirs] = InMemoryTransportV1.createLinkedPair();
    const client = new ClientV1({ name: "test", version: "1.0.0" });
    onTestFinished(() => client.close());
    await Promise.all([sluice.attach(mcp).connect(ours), client.connect(theirs)]);
    const { data } = await call(client as unknown as Client);
    expect((await put(data["upload_url"]!)).status).toBe(201);
    const { text } = await call(client as unknown as Client, { upload_id: data["upload_id"] });
    expect(text).toBe(`true ${report.length}`);
  });

  test("takes no output schema, and says so at once", async () => {
    const { uploads } = await startUploadServer();
    const mcp = new McpServerV1({ name: "test", version: "1.0.0" });
    const config = { ...question, outputSchema: z.object({}) };
    expect(() => uploads.registerTool(mcp, "count", config, () => "")).toThrow(
      /^uploads.registerTool: SDK v1 takes one object as outputSchema/,
    );
  });
});

test("a tool of an extended schema keeps the checks of its author", async () => {
  const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
  uploads.host.routes("/mcp");
  const inputSchema = z
    .strictObject({ from: z.number(), to: z.number() })
    .refine(({ from, to }) => from <= to, { message: "from is after to" });
  const mcp = new McpServer({ name: "test", version: "1.0.0" });
  uploads.registerTool(mcp, "count", { ...question, inputSchema }, () => "counted");
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "test", version: "1.0.0" });
  onTestFinished(() => client.close());
  await Promise.all([sluice.attach(mcp).connect(ours), client.connect(theirs)]);
  const wrong = [
    [{ from: 2, to: 1 }, /from is after to/],
    [{ from: 1, to: 2, unit: "x" }, /unit/],
  ] as const;
  for (const [args, said] of wrong) {
    const refused = await call(client, args).catch(({ message }: Error) => ({ text: message }));
    expect(refused.text).toMatch(said);
  }
  expect((await call(client, { from: 1, to: 2 })).data["status"]).toBe("upload_required");
});
