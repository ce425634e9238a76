// What a server gives its one user: the token is the same for all callers.
import { once } from "node:events";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { request, type IncomingMessage, type RequestOptions } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { uploadLimits } from "../src/serve/serve-limits.ts";
import { serveHere } from "./run-here.ts";
import type { Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const deep = process.env["SLUICE_DEEP"] !== undefined;
const token = "correct-horse-battery-staple";
const bearer = { authorization: `Bearer ${token}` };
let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-limits-"));
  await mkdir(join(root, "files"));
  await mkdir(join(root, "inbox"));
  await writeFile(join(root, "files/big.bin"), "");
  await truncate(join(root, "files/big.bin"), 2 ** 26);
  const args = ["--uploads", join(root, "inbox"), "--max-upload", "20G"];
  served = await serveHere(join(root, "files"), args, { env: { SLUICE_TOKEN: token } });
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** The answer of a request whose body may go on. */
async function send(url: string, options: RequestOptions, body?: string): Promise<IncomingMessage> {
  const sent = request(url, { agent: false, ...options });
  if (body === undefined) sent.end();
  else sent.write(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  response.on("error", () => {});
  sent.on("error", () => {});
  return response;
}

async function call(method: string, params: object): Promise<any> {
  const terms = { prefer: ["downloadUrl"] };
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {
      resourceStreaming: terms,
      extensions: { "dev.sluice/resource-streaming": terms },
    },
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
  const headers = {
    ...bearer,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...("uri" in params ? { "mcp-name": String(params.uri) } : {}),
  };
  const answer = await text(await send(served.url, { method: "POST", headers }, body));
  return JSON.parse(/^data: (.*)$/m.exec(answer)?.[1] ?? answer).result;
}

test("one token has as many streams as the process", async () => {
  const count = deep ? 256 : 24;
  const { downloadUrl } = await call("resources/stream", { uri: "files://local/big.bin" });
  const open: IncomingMessage[] = [];
  try {
    for (let at = 0; at < count; at++) open.push(await send(downloadUrl, { headers: bearer }));
    expect(new Set(open.map(({ statusCode }) => statusCode))).toEqual(new Set([200]));
    if (!deep) return;
    const over = await send(downloadUrl, { headers: bearer });
    expect(over.statusCode).toBe(503);
  } finally {
    for (const response of open) response.destroy();
  }
});

test("one token has 64 uploads at the same time, and no more", { tags: "slow" }, async () => {
  const size = 1_000;
  const uploads = await Promise.all(
    Array.from({ length: 65 }, () => call("files/authorizeUpload", { name: "a.bin", size })),
  );
  const sent = uploads.map(({ upload }) =>
    request(upload.url, {
      agent: false,
      method: "POST",
      headers: { "content-type": "application/octet-stream", "content-length": size },
    }),
  );
  const answers = sent.map(async (outgoing) => {
    outgoing.on("error", () => {});
    outgoing.write("a");
    const [response] = (await once(outgoing, "response")) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  });
  // the others wait for their last byte
  expect(await Promise.race(answers)).toBe(429);
  for (const outgoing of sent) outgoing.end("a".repeat(size - 1));
  const statuses = await Promise.all(answers);
  expect(statuses.filter((status) => status === 201)).toHaveLength(64);
});

test("a file of 20 GiB may be sent where as much is allowed", async () => {
  const size = 20 * 2 ** 30;
  const { upload } = await call("files/authorizeUpload", { name: "big.iso", size });
  const begun = await send(upload.url, {
    method: "POST",
    headers: { "upload-complete": "?0", "upload-length": size, "content-length": 0 },
  });
  expect(begun.statusCode).toBe(201);
  const larger = await call("files/authorizeUpload", { name: "big.iso", size: size + 1 });
  expect(larger).toBeUndefined();
});

test("every upload that may run has room for the largest file, at any size", () => {
  expect(uploadLimits(2 ** 30)).toEqual({
    requests: { perPrincipal: 64 },
    fileBytes: { perPrincipal: 2 ** 36 },
  });
  expect(uploadLimits(Number.MAX_SAFE_INTEGER).fileBytes).toEqual({
    perPrincipal: Number.MAX_SAFE_INTEGER,
  });
});
