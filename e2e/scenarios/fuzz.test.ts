// @module-tag slow
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseContentDisposition, parseResourceUri } from "@sluice/core/internal";
import { checkKey } from "@sluice/storage/plugin";
import { Pool } from "undici";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { ServeSettings } from "../bed/programs/serve.ts";
import { startProgram, type Program } from "../bed/program.ts";
import { call, type RawOptions } from "../bed/raw.ts";
import { createRandom } from "../bed/random.ts";
import { startSite } from "../bed/site.ts";

const runs = process.env["SLUICE_DEEP"] === undefined ? 100 : 10_000;
const uri = "files://site/direct/a.txt";

const seed = process.env["SLUICE_DEEP"] === undefined ? 1 : Date.now() % 2 ** 31;
let random = createRandom(seed);

let server: Program<{ url: string }>;
let url: string;
let pool: Pool;

beforeAll(async () => {
  process.stdout.write(`seed ${seed}\n`);
  const settings: ServeSettings = {
    files: { "direct/a.txt": "the secret plans", "downloadUrl/a.txt": "the secret plans" },
  };
  server = await startProgram("serve", settings);
  ({ url } = server.hello);
  pool = new Pool(new URL(url).origin, { connections: 32, pipelining: 1 });
});
afterAll(async () => {
  await pool.close();
  await server[Symbol.asyncDispose]();
});

/** The process is there, nothing went unhandled, and it still serves. */
async function expectUnharmed(): Promise<void> {
  expect(await server.ask<string[]>("faults")).toEqual([]);
  const { bytes } = await call(url, "resources/stream", { uri }, { streaming: {} });
  expect(bytes.toString()).toBe("the secret plans");
}
beforeEach(async () => {
  random = createRandom(seed);
  await expectUnharmed();
});

async function inParallel(times: number, run: () => Promise<void>): Promise<void> {
  let left = times;
  const worker = async () => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}

test(`${runs} forged and altered tokens open nothing`, async () => {
  const { message } = await call(
    url,
    "resources/stream",
    { uri: "files://site/downloadUrl/a.txt" },
    { streaming: {} },
  );
  const real = new URL(String(message?.result?.["downloadUrl"])).pathname;
  const at = real.lastIndexOf("/") + 1;
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%=+".split(
    "",
  );
  const alter = [
    (t: string, i: number) => t.slice(0, i) + random.pick(alphabet) + t.slice(i + 1),
    (t: string, i: number) => t.slice(0, i) + t.slice(i + 1),
    (t: string, i: number) => t.slice(0, i) + random.pick(alphabet) + t.slice(i),
    (t: string, i: number) =>
      t.slice(0, i) + t.slice(i + 1, i + 2) + t.slice(i, i + 1) + t.slice(i + 2),
    (t: string) =>
      t.slice(0, 6) + t.slice(6).replace(/./g, () => random.pick(alphabet.slice(0, 64))),
  ];
  const token = real.slice(at);
  await inParallel(runs, async () => {
    const forged = random.pick(alter)(token, random.int(0, token.length));
    if (forged === token) return;
    const path = real.slice(0, at) + forged;
    const { statusCode, body } = await pool.request({ method: "GET", path });
    expect(await body.text()).not.toContain("secret plans");
    expect([400, 404]).toContain(statusCode);
  });
  await expectUnharmed();
});

test(`${runs} hostile URIs reach nothing`, async () => {
  const pieces = [
    "..",
    ".",
    "%2e%2e",
    "%252e",
    "..%2f",
    "..%5c",
    "\\",
    "/",
    "//",
    "%00",
    "\u0000",
    "%c0%ae",
    "CON",
    "direct/a.txt",
    "a.txt::$DATA",
    "etc/passwd",
    "proc/self/environ",
    "~",
    "%",
    "%zz",
    "\u202e",
    "\ud800",
    " ",
    "?",
    "#",
    "a".repeat(300),
    "é",
    "é",
    "😀",
  ];
  await inParallel(runs, async () => {
    let path = "";
    for (let n = random.int(1, 8); n > 0; n--) path += random.pick(pieces);
    const base = random.pick([
      "files://site/",
      "files://site",
      "FILES://SITE/",
      "file:///",
      "",
      "files://x@site/",
    ]);
    const { status, message, bytes } = await call(
      url,
      "resources/stream",
      { uri: base + path },
      { streaming: {} },
    );
    if (bytes.toString() === "the secret plans") return; // a spelling of the one that is there
    expect(status).toBeLessThan(500);
    expect(["not_found", "invalid", "stream_unsupported"]).toContain(message?.error?.data?.reason);
  });
  await expectUnharmed();
});

test(`${runs / 10} hostile file names cross the wire as one name in one header`, async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-names-"));
  const pieces = [
    '"',
    "'",
    "\\",
    ";",
    "=",
    "%",
    "%0d%0a",
    "\u2028",
    "\u202e",
    "\u00e9",
    "\u0065\u0301",
    "\ud83d\ude00",
    " ",
    "filename*=UTF-8''x",
    "<script>",
    ",",
    "#",
    "?",
    "&",
    "a",
    ".",
    "..",
    "~",
    "CON",
    "\t",
    "\r\n",
    "\u0007",
  ];
  const contentOf = new Map<string, string>();
  for (let n = 0; n < runs / 10; n++) {
    let name = `${n}`;
    for (let length = random.int(1, 10); length > 0; length--) name += random.pick(pieces);
    await writeFile(join(root, name), `bytes of ${n}`);
    if (checkKey(name) === undefined) contentOf.set(name.normalize("NFC"), `bytes of ${n}`);
  }
  await using site = await startSite({ root });
  let cursor: unknown;
  let streamed = 0;
  do {
    const page = await call(site.url, "resources/list", cursor === undefined ? {} : { cursor });
    const { resources, nextCursor } = page.message!.result as unknown as ListPage;
    for (const resource of resources) {
      const options = { streaming: { prefer: ["direct"] } } satisfies RawOptions;
      const answer = await call(site.url, "resources/stream", { uri: resource.uri }, options);
      const key = decodeURIComponent(resource.uri.slice(resource.uri.lastIndexOf("/") + 1));
      expect(answer.bytes.toString()).toBe(contentOf.get(key.normalize("NFC")));
      expect(resource.name).not.toMatch(/[\u2028\u202e]/);
      const disposition = String(answer.headers["content-disposition"]);
      expect(parseContentDisposition(disposition)).toBeDefined();
      expect(disposition).toMatch(/^[\x20-\x7e]*$/);
      expect(parseResourceUri(String(answer.headers["mcp-resource-uri"]))).toBe(resource.uri);
      streamed++;
    }
    cursor = nextCursor;
  } while (cursor !== undefined);
  // names that no key can spell are not served at all
  expect(streamed).toBe(contentOf.size);
  expect(streamed).toBeGreaterThan(runs / 50);
  await rm(root, { recursive: true, force: true });
});

interface ListPage {
  readonly resources: readonly { readonly uri: string; readonly name: string }[];
  readonly nextCursor?: string;
}

/** Sends bytes as they are and waits for the end of the answer, or a moment. */
function sendBytes(text: string): Promise<string> {
  return new Promise((resolve) => {
    const { port } = new URL(url);
    let answer = "";
    const socket = dial(Number(port), "127.0.0.1", () => socket.end(text, "latin1"));
    socket.setTimeout(2_000, () => socket.destroy());
    socket.on("data", (chunk) => (answer += chunk.toString("latin1")));
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
  });
}

test(`${runs / 4} requests with hostile headers harm nobody`, async () => {
  const names = [
    "__proto__",
    "constructor",
    "prototype",
    "hasOwnProperty",
    "toString",
    "range",
    "if-range",
    "if-none-match",
    "authorization",
    "host",
    "origin",
    "mcp-session-id",
    "mcp-protocol-version",
    "content-length",
    "transfer-encoding",
    "x".repeat(200),
  ];
  const values = [
    "",
    "__proto__",
    "bytes=0-",
    "bytes=-",
    "bytes=0-0,1-1",
    "bytes=99999999999999999999-",
    '"',
    'W/"x"',
    "*",
    "Bearer ",
    "Bearer \u00ff\u00fe",
    "null",
    "evil.example",
    "chunked",
    "-1",
    "1e9",
    "\t",
    "a".repeat(4_000),
    "2026-07-28",
    "2025-11-25",
    "9999-99-99",
  ];
  const { pathname, host } = new URL(url);
  await inParallel(runs / 4, async () => {
    const lines = [];
    for (let n = random.int(1, 6); n > 0; n--)
      lines.push(`${random.pick(names)}: ${random.pick(values)}`);
    const [method, path] = random.pick([
      ["GET", `${pathname}/streams/v1.k1.x`],
      ["HEAD", `${pathname}/streams/__proto__`],
      ["OPTIONS", `${pathname}/streams/x`],
      ["POST", pathname],
      ["TRACE", `${pathname}/streams/x`],
    ] as const);
    const answer = await sendBytes(
      `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n${lines.join("\r\n")}\r\n\r\n`,
    );
    expect(answer).not.toContain("secret plans");
    expect(answer).not.toMatch(/^HTTP\/1\.1 5(?!03)/);
  });
  await expectUnharmed();
});

test(`${runs / 4} bodies that are no JSON-RPC do no harm`, async () => {
  const valid = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "resources/stream",
    params: {
      uri,
      _meta: { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } },
    },
  });
  const { pathname } = new URL(url);
  await inParallel(runs / 4, async () => {
    const bytes = Buffer.from(valid);
    for (let n = random.int(1, 6); n > 0; n--)
      bytes[random.int(0, bytes.length)] = random.int(0, 256);
    const body = random.pick([
      bytes,
      bytes.subarray(0, random.int(0, bytes.length)),
      Buffer.from(`[${valid},${valid}]`),
    ]);
    const { statusCode, body: answer } = await pool.request({
      method: "POST",
      path: pathname,
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
      body,
    });
    await answer.dump();
    expect(statusCode).toBeLessThan(500);
  });
  await expectUnharmed();
});
