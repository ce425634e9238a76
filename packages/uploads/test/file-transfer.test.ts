import { createHash } from "node:crypto";
import type { Client } from "@modelcontextprotocol/client";
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { AuditRecord, SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import type { FileInputTerms } from "../src/files-sep-2631/file-input.ts";
import { fileInput } from "../src/files-sep-2631/file-input.ts";
import { createFileTransfer, type FileTransfer } from "../src/files-sep-2631/file-transfer.ts";
import { createFileUris } from "../src/files-sep-2631/file-uri.ts";
import { openInput } from "../src/files-sep-2631/open-input.ts";
import { serveCaller } from "../src/files-sep-2631/file-fault.ts";
import type { Uploads } from "../src/index.ts";
import {
  connectAnswerer,
  createFakeSlots,
  createPlainSluice,
  createToolServer,
  eras,
} from "./asking.ts";
import { startUploadServer } from "./upload-server.ts";

const report = "a report ".repeat(100);
const reportDigest = createHash("sha256").update(report).digest("base64url");
const uri = "files://demo/reports/a.txt";

type Files = FileTransfer & Pick<Uploads, "open">;
type Tool = (files: Files, call: { mcp: McpServer; ctx: ServerContext }) => Promise<unknown>;

function setUp(
  tool: Tool = async () => undefined,
  storage = createMemoryBackend({ "reports/a.txt": report }),
  options: Partial<SluiceOptions> = {},
) {
  const sluice = createPlainSluice({ storage, ...options } as Partial<SluiceOptions>);
  const slots = createFakeSlots();
  const { host } = sluice;
  const uris = createFileUris(host);
  const inputs = { slots, uris, trustedOrigins: [], maxBytes: 2 ** 20, onError: host.onError };
  const files: Files = {
    ...createFileTransfer({ ...slots, host: { sluice: host } }),
    open: (argument, terms, toolCall) =>
      serveCaller(host, toolCall, ({ owner, signal }) =>
        openInput(inputs, argument, { terms, owner, signal }),
      ),
  };
  const fetch = createToolServer(
    sluice,
    async (mcp, ctx) => {
      const structuredContent = { value: await tool(files, { mcp, ctx }) };
      return { content: [], structuredContent };
    },
    (mcp) => files.attach(mcp),
  );
  return { sluice, slots, fetch, storage };
}

async function call(client: Client): Promise<any> {
  const { structuredContent, isError, content } = await client.callTool({
    name: "look",
    arguments: {},
  });
  if (isError) throw new Error((content as { text: string }[])[0]!.text);
  return (structuredContent as { value: unknown }).value;
}

const ask = (client: Client, method: string, params: object): Promise<any> =>
  client.request({ method, params: { ...params } }, z.looseObject({}));

const declared = { name: "report.pdf", mimeType: "application/pdf", size: 248_123 };
const came = { name: "report.pdf", mimeType: "application/pdf", size: 248_123 };
const digest = { algorithm: "sha-256", value: "uU0nuZNNPgilLlLX2n2r-sSE7-N6U4D6ZVe-_rYh2sU" };
const sha256 = Buffer.from(digest.value, "base64url").toString("hex");

test.each(eras)("%s: a file that was authorized and uploaded opens in a tool", async (era) => {
  let argument = "";
  const terms: FileInputTerms = { accept: ["application/pdf"], transferModes: ["upload"] };
  const { slots, fetch } = setUp(async (files, toolCall) => {
    const { name, size, mimeType } = await files.open(argument, terms, toolCall);
    return { name, size, mimeType };
  });
  const client = await connectAnswerer({ era, fetch, token: "ada" });
  const { file, upload } = await ask(client, "files/authorizeUpload", { ...declared, digest });
  expect(file).toEqual({
    ...declared,
    digest,
    uri: expect.stringMatching(/^mcp-file:\/\/127\.0\.0\.1:9\/[\w-]{32}$/),
  });
  expect(upload).toMatchObject({
    transport: "https",
    method: "POST",
    multipart: { fileField: "file" },
    expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    _meta: { "dev.sluice/uploads": { auth: "self" } },
  });
  argument = file.uri;
  await expect(call(client)).rejects.toThrow(/bytes have not arrived/);
  const [uploadId] = upload.url.split("/").slice(-1);
  slots.came.set(uploadId, [{ ...came, sha256 }]);
  slots.bytes.set(uploadId, Buffer.from("%PDF-1.7\n"));
  expect(await call(client)).toEqual(came);
  // the same URI names the same bytes as long as it lives
  expect(await call(client)).toEqual(came);
  expect(slots.confirmed.size).toBe(1);
});

test("a file whose bytes came for an hour opens in a tool", async () => {
  let argument = "";
  const { slots, fetch } = setUp((files, toolCall) => files.open(argument, {}, toolCall));
  const client = await connectAnswerer({ era: "modern", fetch, token: "ada" });
  const { file, upload } = await ask(client, "files/authorizeUpload", declared);
  argument = file.uri;
  slots.came.set(upload.url.split("/").at(-1), [{ ...came, sha256 }]);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 3_600_000);
  expect(await call(client).finally(() => vi.restoreAllMocks())).toMatchObject(came);
});

test.each(eras)(
  "%s: bytes of another digest or size are refused, and nothing is kept",
  async (era) => {
    for (const [wrong, message] of [
      [{ sha256: "0".repeat(64) }, /digest|declared/],
      [{ size: 3, sha256 }, /declared/],
    ] as const) {
      let argument = "";
      const { slots, fetch } = setUp((files, toolCall) => files.open(argument, {}, toolCall));
      const client = await connectAnswerer({ era, fetch, token: "ada" });
      const { file, upload } = await ask(client, "files/authorizeUpload", { ...declared, digest });
      argument = file.uri;
      slots.came.set(upload.url.split("/").at(-1), [{ ...came, ...wrong }]);
      await expect(call(client)).rejects.toThrow(message);
      expect(slots.came.size).toBe(0);
    }
  },
);

test.each(eras)("%s: a file belongs to the principal that it was authorized for", async (era) => {
  let argument = "";
  const { slots, fetch } = setUp((files, toolCall) => files.open(argument, {}, toolCall));
  const ada = await connectAnswerer({ era, fetch, token: "ada" });
  const eve = await connectAnswerer({ era, fetch, token: "eve" });
  const { file, upload } = await ask(ada, "files/authorizeUpload", declared);
  slots.came.set(upload.url.split("/").at(-1), [{ ...came, sha256 }]);
  argument = file.uri;
  await expect(call(eve)).rejects.toThrow(/names no file of this server/);
  argument = `${file.uri.slice(0, -1)}${file.uri.endsWith("A") ? "B" : "A"}`;
  await expect(call(ada)).rejects.toThrow(/names no file of this server/);
  argument = "mcp-file://elsewhere/file_01HXYZ";
  await expect(call(ada)).rejects.toThrow(/names no file of this server/);
  expect(slots.confirmed.size).toBe(0);
});

test.each(eras)(
  "%s: an uploaded executable does not pass as the picture that an argument asks for",
  async (era) => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
    const still = '<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>';
    let argument = "";
    const { slots, fetch } = setUp(async (files, toolCall) => {
      const { mimeType } = await files.open(argument, { accept: ["image/*"] }, toolCall);
      return mimeType;
    });
    const client = await connectAnswerer({ era, fetch, token: "ada" });
    const outcomes: string[] = [];
    for (const text of [svg, "hello", still]) {
      const { file, upload } = await ask(client, "files/authorizeUpload", { name: "a.svg" });
      const uploadId = upload.url.split("/").at(-1);
      const mimeType = "image/svg+xml";
      slots.came.set(uploadId, [{ name: "a.svg", mimeType, size: text.length }]);
      slots.bytes.set(uploadId, Buffer.from(text));
      argument = file.uri;
      outcomes.push(await call(client).catch(({ message }: Error) => message));
    }
    const refused = expect.stringContaining("not accepted") as string;
    expect(outcomes).toEqual([refused, refused, "image/svg+xml"]);
  },
);

test.each(eras)("%s: neither does an executable in a data: URI", async (era) => {
  const { sluice, uploads } = await startUploadServer();
  let argument = "";
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    const { mimeType } = await uploads.open(argument, { accept: ["image/*"] }, { mcp, ctx });
    return { content: [], structuredContent: { value: mimeType } };
  });
  const client = await connectAnswerer({ era, fetch, token: "alice" });
  argument = 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>';
  expect(await call(client)).toBe("image/svg+xml");
  for (const data of ["image/svg+xml,<svg><script/></svg>", "image/png,hello"]) {
    argument = `data:${data}`;
    await expect(call(client)).rejects.toThrow(/not accepted/);
  }
});

test.each(eras)("%s: what a field does not accept is refused with the reason", async (era) => {
  const rows: readonly [string, FileInputTerms, RegExp][] = [
    ["data:text/plain,hello", { transferModes: ["upload"] }, /must come by upload/],
    ["mcp-file://127.0.0.1:9/a", { transferModes: ["inline"] }, /must come by inline/],
    ["data:text/plain,hello", { maxBytes: 4 }, /has 5 bytes, and at most 4/],
    ["data:text/plain,hello", { accept: ["image/*"] }, /text\/plain is not accepted/],
    ["data:text/plain;base64,a", {}, /names no file|malformed/],
    ["/etc/passwd", {}, /names no file of this server; call request_upload/],
    ["files://demo/a.txt", {}, /names no file of this server; call request_upload/],
  ];
  for (const [argument, terms, message] of rows) {
    const { fetch } = setUp((files, toolCall) => files.open(argument, terms, toolCall));
    const client = await connectAnswerer({ era, fetch });
    await expect(call(client), argument).rejects.toThrow(message);
  }
  const { fetch } = setUp(async (files, toolCall) => {
    // extensions are for the file picker
    const { size } = await files.open(
      "data:text/csv,1;2",
      { accept: [".csv", "text/*"] },
      toolCall,
    );
    return size;
  });
  expect(await call(await connectAnswerer({ era, fetch }))).toBe(3);
});

test.each(eras)(
  "%s: what cannot be authorized is -32602 with machine-readable details",
  async (era) => {
    const { fetch } = setUp();
    const client = await connectAnswerer({ era, fetch });
    const refusals: readonly [object, object][] = [
      [{ ...declared, digest: { ...digest, algorithm: "md5" } }, { reason: "invalidDigest" }],
      [{ ...declared, digest: { ...digest, value: "x" } }, { reason: "invalidDigest" }],
      [{ ...declared, mimeType: "image/*" }, { reason: "invalidMimeType" }],
    ];
    for (const [params, data] of refusals)
      await expect(ask(client, "files/authorizeUpload", params)).rejects.toMatchObject({
        code: -32602,
        data,
      });
    await expect(
      ask(client, "files/authorizeDownload", { uri: "mcp-file://127.0.0.1:9/nothing" }),
    ).rejects.toMatchObject({ code: -32602, data: { reason: "malformedUri" } });
  },
);

test.each(eras)(
  "%s: a resource that a tool returns as a file is authorized for download",
  async (era) => {
    const { fetch, storage } = setUp((files, toolCall) => files.value(uri, toolCall));
    const ada = await connectAnswerer({ era, fetch, token: "ada" });
    const value = await call(ada);
    expect(value).toEqual({
      uri: expect.stringMatching(/^mcp-file:/),
      name: "a.txt",
      size: report.length,
      digest: { algorithm: "sha-256", value: reportDigest },
      _meta: { "dev.sluice/uploads": { expiresAt: expect.any(String) } },
    });
    const authorized = await ask(ada, "files/authorizeDownload", { uri: value.uri });
    expect(authorized).toMatchObject({
      file: { uri: value.uri, size: report.length, digest: { value: reportDigest } },
      download: {
        transport: "https",
        method: "GET",
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:9\/mcp\/d\/[\w-]{32}$/),
        expiresAt: expect.any(String),
      },
    });
    const eve = await connectAnswerer({ era, fetch, token: "eve" });
    await expect(ask(eve, "files/authorizeDownload", { uri: value.uri })).rejects.toMatchObject({
      code: -32602,
    });
    storage.put("reports/a.txt", "another report");
    await expect(ask(ada, "files/authorizeDownload", { uri: value.uri })).rejects.toMatchObject({
      code: -32602,
      data: { reason: "changed" },
    });
  },
);

test.each(eras)(
  "%s: a download that was authorized is counted, and in the trail under the id of its redemption",
  async (era) => {
    const records: AuditRecord[] = [];
    let counted = 0;
    const { sluice, fetch, storage } = setUp(
      (files, toolCall) => files.value(uri, toolCall),
      undefined,
      {
        audit: (record) => void records.push(record),
        rates: { requests: { perPrincipal: { consume: async () => void (counted += 1) } } },
      },
    );
    const ada = await connectAnswerer({ era, fetch, token: "ada" });
    const value = await call(ada);
    records.length = 0;
    const before = counted;
    const { download } = await ask(ada, "files/authorizeDownload", { uri: value.uri });
    expect(counted).toBe(before + 1);
    const [issued] = records;
    expect(records).toEqual([
      expect.objectContaining({
        action: "link",
        outcome: "issued",
        mode: "link",
        revision: era,
        uri,
      }),
    ]);
    const token = download.url.slice(download.url.lastIndexOf("/") + 1);
    await sluice.host.redeem({ kind: "link", method: "HEAD", token, header: () => undefined });
    const { grant, principal } = issued!;
    expect(records[1]).toMatchObject({ action: "download", mode: "link", grant, principal, uri });
    expect(JSON.stringify(records)).not.toContain(token);
    storage.put("reports/a.txt", "another report");
    await expect(ask(ada, "files/authorizeDownload", { uri: value.uri })).rejects.toMatchObject({
      code: -32602,
    });
    expect(records.at(-1)).toMatchObject({ action: "link", outcome: "denied", principal });
  },
);

test.each(eras)(
  "%s: a tool's argument is declared with x-mcp-file on a URI string",
  async (era) => {
    const inputSchema = z.object({
      document: fileInput({
        accept: ["application/pdf"],
        maxBytes: 20_000_000,
        transferModes: ["upload"],
      }).describe("The document to analyze."),
      more: z.array(fileInput()).optional(),
    });
    const fetch = createToolServer(
      createPlainSluice(),
      async () => ({ content: [] }),
      (mcp) => mcp.registerTool("analyze", { inputSchema }, () => ({ content: [] })),
    );
    const client = await connectAnswerer({ era, fetch });
    const { tools } = await client.listTools();
    expect(tools.find(({ name }) => name === "analyze")?.inputSchema).toMatchObject({
      properties: {
        document: {
          type: "string",
          format: "uri",
          description: "The document to analyze.",
          "x-mcp-file": {
            accept: ["application/pdf"],
            maxSize: 20_000_000,
            transferModes: ["upload"],
          },
        },
        more: { type: "array", items: { format: "uri", "x-mcp-file": {} } },
      },
      required: ["document"],
    });
  },
);
