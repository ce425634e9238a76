import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import type { Client } from "@modelcontextprotocol/client";
import type { McpServer } from "@modelcontextprotocol/server";
import type { FileTransferDescriptor, FileValue } from "@sluice/core/internal";
import { fileInput, type FileInputTerms, type UploadedFile, type Uploads } from "@sluice/uploads";
import { createFileTransfer } from "@sluice/uploads/experimental";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { connectOfficial, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { postForm } from "../bed/senders.ts";
import { baseUri, startSite, type Site } from "../bed/site.ts";

const run = promisify(execFile);
const binary = { encoding: "buffer", maxBuffer: 2 ** 20 } as const;
const document = bytesOf(200_000, "document");
const sha256Of = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("base64url");
const terms: FileInputTerms = { accept: ["application/octet-stream", "text/*"] };
const accounts = { "ada-token": { subject: "ada" }, "eve-token": { subject: "eve" } };

async function digestOf(file: UploadedFile): Promise<string> {
  const { body } = await file.open();
  const hash = createHash("sha256");
  for await (const chunk of body) hash.update(chunk);
  return hash.digest("base64url");
}

/** Two tools of SEP-2631: one takes a file, one returns one. */
function registerTools(mcp: McpServer, uploads: Uploads): void {
  const files = createFileTransfer(uploads);
  mcp.registerTool(
    "digest",
    { inputSchema: z.object({ document: fileInput(terms) }) },
    async (args, ctx) => {
      const file = await uploads.open(args.document, terms, { mcp, ctx });
      return { content: [{ type: "text", text: await digestOf(file) }] };
    },
  );
  mcp.registerTool("report", { inputSchema: z.object({}) }, async (_args, ctx) => {
    const report = await files.value(`${baseUri}report.bin`, { mcp, ctx });
    return { content: [], structuredContent: { report } };
  });
  files.attach(mcp);
}

async function startFiles(uploads: object = {}): Promise<Site> {
  const files = { "report.bin": document };
  const site = await startSite({ accounts, files, asking: registerTools, uploads });
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site;
}

interface Authorized {
  readonly file: FileValue;
  readonly upload: FileTransferDescriptor;
  readonly download: FileTransferDescriptor;
}

const ask = async (client: Client, method: string, params: object) =>
  (await client.request(
    { method, params: { ...params } },
    z.looseObject({}),
  )) as unknown as Authorized;

async function digest(client: Client, argument: string): Promise<string> {
  const { content } = await client.callTool({ name: "digest", arguments: { document: argument } });
  return (content as { text: string }[])[0]!.text;
}

const declared = {
  name: "document.bin",
  mimeType: "application/octet-stream",
  size: document.length,
  digest: { algorithm: "sha-256", value: sha256Of(document) },
};

test.each(sdkNames)("%s: a file is authorized, uploaded, and named in the call", async (sdk) => {
  const site = await startFiles();
  const client = await connectOfficial(sdk, site.url, { token: "ada-token" });
  onTestFinished(() => client.close());
  const { file, upload } = await ask(client, "files/authorizeUpload", declared);
  expect(upload).toMatchObject({ transport: "https", multipart: { fileField: "file" } });
  // the descriptor is enough: no bearer
  const sent = new File([document], "document.bin", { type: "application/octet-stream" });
  expect((await postForm(upload.url, [sent])).status).toBeLessThan(300);
  expect(await digest(client, file.uri)).toBe(sha256Of(document));
  expect(await digest(client, file.uri)).toBe(sha256Of(document));
  const eve = await connectOfficial(sdk, site.url, { token: "eve-token" });
  onTestFinished(() => eve.close());
  expect(await digest(eve, file.uri)).toMatch(/names no file of this server/);
});

test("a file in the call itself goes the same way: hashed, scanned, kept", async () => {
  const scanned: number[] = [];
  const scan = (_body: unknown, { size }: { size: number }) => {
    scanned.push(size);
    return size === 3 ? "reject" : "clean";
  };
  const site = await startFiles({ scan });
  const client = await connectOfficial("SDK v2, modern", site.url, { token: "ada-token" });
  onTestFinished(() => client.close());
  const inline = `data:text/plain;base64,${Buffer.from("inline").toString("base64")}`;
  expect(await digest(client, inline)).toBe(sha256Of(Buffer.from("inline")));
  expect(await digest(client, "data:text/plain,bad")).not.toMatch(/^[\w-]{43}$/);
  expect(scanned).toEqual([6, 3]);
  const { objects } = await site.received.list();
  expect(objects.filter(({ key }) => key.includes("/bytes-"))).toHaveLength(1);
});

test("bytes that do not match the declared digest are refused as a form, raw and in steps, and nothing is kept", async () => {
  const site = await startFiles();
  const client = await connectOfficial("SDK v2, modern", site.url, { token: "ada-token" });
  onTestFinished(() => client.close());
  const { file, upload } = await ask(client, "files/authorizeUpload", declared);
  const body = bytesOf(document.length, "other");
  const form = await postForm(upload.url, [new File([body], "document.bin")]);
  const headers = { "content-type": "application/octet-stream" };
  const raw = await fetch(upload.url, { method: "PUT", body, headers });
  const steps = { ...headers, "upload-complete": "?1", "upload-length": `${body.length}` };
  const inSteps = await fetch(upload.url, { method: "POST", body, headers: steps });
  expect([form.status, raw.status, inSteps.status]).toEqual([422, 422, 422]);
  expect(await digest(client, file.uri)).not.toMatch(/^[\w-]{43}$/);
  const { objects } = await site.received.list();
  expect(objects.filter(({ key }) => key.includes("/bytes-"))).toEqual([]);
});

test.each(sdkNames)("%s: a file that a tool returned is authorized and downloaded", async (sdk) => {
  const site = await startFiles();
  const client = await connectOfficial(sdk, site.url, { token: "ada-token" });
  onTestFinished(() => client.close());
  const { structuredContent } = await client.callTool({ name: "report", arguments: {} });
  const { report } = structuredContent as { report: FileValue };
  expect(report).toMatchObject({ name: "report.bin", size: document.length });
  const { file, download } = await ask(client, "files/authorizeDownload", { uri: report.uri });
  expect(file.digest).toEqual({ algorithm: "sha-256", value: sha256Of(document) });
  expect(Date.parse(download.expiresAt)).toBeGreaterThan(Date.now());
  // the descriptor is all that it takes: no bearer, and it may be handed on
  const { stdout } = await run("curl", ["-fsS", download.url], binary);
  expect(stdout.equals(document)).toBe(true);
  expect((await fetch(download.url.slice(0, -1))).status).toBe(404);
  const eve = await connectOfficial(sdk, site.url, { token: "eve-token" });
  onTestFinished(() => eve.close());
  await expect(ask(eve, "files/authorizeDownload", { uri: report.uri })).rejects.toMatchObject({
    code: -32602,
  });
});
