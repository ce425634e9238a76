import { once } from "node:events";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";
import { serveCommand } from "../src/commands/serve-command.ts";
import { freePort } from "./sluice.ts";

const token = "correct-horse-battery-staple";
const targets = process.env["SLUICE_DEEP"] ? 1_000_000 : 1_000;
const host = "files.example.com";

/** Public URLs, and the one spelling of each endpoint. */
const table: readonly (readonly [string, string])[] = [
  [`https://${host}`, "/"],
  [`https://${host}/`, "/"],
  [`https://${host}/mcp`, "/mcp"],
  [`https://${host}/mcp/`, "/mcp"],
  [`https://${host}/a/b/mcp`, "/a/b/mcp"],
  [`https://${host}/m%C3%A9/mcp`, "/m%C3%A9/mcp"],
  [`https://FILES.example.com/MCP/`, "/MCP"],
];

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-paths-"));
  await mkdir(join(root, "files"));
  await mkdir(join(root, "received"));
  await writeFile(join(root, "files/secret.txt"), "x".repeat(100));
});
afterAll(() => rm(root, { recursive: true }));

/** `sluice serve` in this process. */
interface Serving extends AsyncDisposable {
  readonly port: number;
  /** What it has said. */
  readonly said: () => string;
}

async function start(publicUrl: string): Promise<Serving> {
  const port = await freePort();
  const ended = new AbortController();
  let said = "";
  const keep = (chunk: unknown): boolean => {
    said += String(chunk);
    return true;
  };
  const out = vi.spyOn(process.stdout, "write").mockImplementation(keep);
  const err = vi.spyOn(process.stderr, "write").mockImplementation(keep);
  const running = serveCommand(join(root, "files"), {
    host: "127.0.0.1",
    port,
    uri: "files://local/",
    token,
    publicUrl,
    audit: false,
    uploads: join(root, "received"),
    maxUpload: 1_000,
    signal: ended.signal,
  });
  await Promise.race([running, vi.waitUntil(() => said.includes("Ctrl-C"))]);
  return {
    port,
    said: () => said,
    async [Symbol.asyncDispose]() {
      ended.abort();
      await running;
      out.mockRestore();
      err.mockRestore();
    },
  };
}

let connections = 0;

/** Another address for each connection: of one that fails too often further failures are 429, as its own test says. */
function nextAddress(): { readonly localAddress?: string } {
  connections += 1;
  const address = [
    127,
    1 + ((connections >> 16) & 63),
    (connections >> 8) & 255,
    connections & 255,
  ];
  // only Linux has all of 127.0.0.0/8
  return process.platform === "linux" ? { localAddress: address.join(".") } : {};
}

/** Sends bytes, and gives everything that comes back until the server hangs up, or until a text is in it. */
async function exchange(port: number, bytes: Buffer, until?: string): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", ...nextAddress() });
  let answer = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    answer += chunk;
    if (until !== undefined && answer.includes(until)) socket.destroy();
  });
  socket.on("error", () => {});
  socket.write(bytes);
  await once(socket, "close");
  return answer;
}

function statusesIn(answer: string): number[] {
  return [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}

const _meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/list", params: { _meta } });
const listFields = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/list\r\n";

function requestOf(method: string, target: string, more = ""): string {
  return `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nAccept: application/json, text/event-stream\r\n${more}\r\n`;
}

/** A call as the last request of its connection. */
function callOf(target: string, more = ""): string {
  const fields = `Content-Type: application/json\r\nContent-Length: ${list.length}\r\nConnection: close\r\n${listFields}${more}`;
  return requestOf("POST", target, fields) + list;
}

/** Makes targets out of the words that this server knows, and of those that routers mistake for them. */
function targetsOf(path: string, seed: number): () => string {
  const random = randomNumbers(seed);
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  const own = path.split("/").filter((word) => word !== "");
  const token43 = "A".repeat(43);
  const words = [
    ...own,
    ...own.map((word) => word.toUpperCase()),
    ...own.map((word) => word.toLowerCase()),
    "uploads",
    "UPLOADS",
    "upload-page",
    "Upload-Page",
    "streams",
    "d",
    "u",
    "open",
    "open?file=secret.txt",
    "resume",
    "assets",
    "",
    ".",
    "..",
    "%2e",
    "%2E%2e",
    ".%2e",
    "%2f",
    "..%2f",
    "%5c",
    "\\",
    "..\\",
    "%00",
    ";",
    "x",
    token43,
    `v1.k1.${token43}`,
    `k1.${token43}`,
    "%6dcp",
    "upl%6fads",
    "*",
    "a=b",
  ];
  const starts = ["", "", "", "", path, path, path, `${path}/uploads`, `${path}/upload-page`];
  const forms = [
    ...Array<string>(20).fill(""),
    `http://${host}`,
    `//${host}`,
    "*",
    `x://t@${host}`,
  ];
  const ends = ["", "", "", "", "?", "?x", `?/..${path}`, "#", "#/x", ";x=1", "/", "//", "/."];
  return () => {
    let target = pick(forms) + pick(starts).replace(/^\/$/, "");
    const count = random(5);
    for (let at = 0; at < count; at++)
      target += pick(["/", "/", "/", "/", "//", "\\", "%2f"]) + pick(words);
    return target + pick(ends) || "/";
  };
}

const methods = ["GET", "GET", "GET", "HEAD", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND"];
const perConnection = 80;
const mayBeRead = /^\/|^\*$|^http:\/\/[a-z.]+(?:\/|$)/;

test.each(table)(
  "without the token no target opens anything of a server at %s",
  async (publicUrl, path) => {
    await using serving = await start(publicUrl);
    const { port } = serving;
    const next = targetsOf(path, table.findIndex(([url]) => url === publicUrl) + 1);
    const random = randomNumbers(7);
    const share = Math.ceil(targets / table.length);
    const seen = new Map<number, number>();
    const wrong: string[] = [];

    /** How many of these were answered. */
    async function tryAll(asked: readonly string[]): Promise<number> {
      const statuses = statusesIn(await exchange(port, Buffer.from(asked.join(""), "latin1")));
      if (statuses.length < asked.length) wrong.push(`${statuses.length} of ${asked.length}`);
      for (const [at, status] of statuses.entries()) {
        seen.set(status, (seen.get(status) ?? 0) + 1);
        // what the URL itself permits has its methods, whatever the URL permits
        const isMethod = status === 405 && /^\w+ \S*\/[du]\//.test(asked[at]!);
        if (status !== 400 && status !== 401 && status !== 404 && !isMethod)
          wrong.push(`${status} ${asked[at]!.slice(0, 200)}`);
      }
      return statuses.length;
    }

    async function tryConnection(): Promise<number> {
      const asked: string[] = [];
      let tried = 0;
      while (asked.length <= perConnection) {
        const target = next();
        // a line that Node itself cannot read ends the connection, with all that wait on it
        if (!mayBeRead.test(target)) tried += await tryAll([callOf(target)]);
        else if (asked.length === perConnection) asked.push(callOf(target));
        else asked.push(requestOf(methods[random(methods.length)]!, target));
      }
      return tried + (await tryAll(asked));
    }

    for (let left = share; left > 0 && wrong.length === 0;) {
      const some = Array.from(
        { length: Math.min(8, Math.ceil(left / perConnection)) },
        tryConnection,
      );
      for (const tried of await Promise.all(some)) left -= tried;
    }
    expect(wrong).toEqual([]);
    expect([400, 401, 404].every((status) => seen.has(status))).toBe(true);
    // and raw bytes
    const bytes = (): Buffer => Buffer.from(Array.from({ length: 24 }, () => random(256)));
    for (let at = 0; at < share / 200; at++) {
      const wild = Buffer.concat([Buffer.from(`GET ${path}`), bytes()]);
      const rest = Buffer.from(` HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      for (const status of statusesIn(await exchange(port, Buffer.concat([wild, rest]))))
        expect([400, 401, 404]).toContain(status);
    }
    const bearer = `Authorization: Bearer ${token}\r\n`;
    const listed = await exchange(port, Buffer.from(callOf(path, bearer)), "secret.txt");
    expect(listed).toContain("secret.txt");
    expect(serving.said()).not.toContain(token);
  },
  600_000,
);

test.each(table)(
  "an invalid slot never admits a call without the token, at %s",
  async (publicUrl, path) => {
    await using serving = await start(publicUrl);
    const given = new URL(publicUrl).pathname;
    const bases = [given, `${given}/`, path, `${path}/`, "", "/"];
    for (const base of bases)
      for (const rest of ["uploads/x", "/uploads/x", "UPLOADS/x", "uploads/x/y", "upload-page/x"]) {
        const answer = await exchange(serving.port, Buffer.from(callOf(base + rest)), "secret.txt");
        expect(answer, base + rest).toMatch(/^HTTP\/1\.1 40[014] /);
      }
  },
);

test("a refused token is logged once for each request, up to a bound, without token and URL", async () => {
  await using serving = await start(`https://${host}/mcp`);
  const wrong = "Authorization: Bearer not-the-token-of-this-server\r\n";
  await exchange(serving.port, Buffer.from(callOf("/mcp", wrong)));
  await exchange(serving.port, Buffer.from(callOf("/mcp/streams/token-in-a-url")));
  const lines = (): string[] =>
    serving
      .said()
      .split("\n")
      .filter((line) => line.includes("refused"));
  expect(lines()).toEqual([
    expect.stringMatching(/^\d{4}-\S+Z 127\.\S+ mcp: refused, another token$/),
    expect.stringMatching(/^\d{4}-\S+Z 127\.\S+ stream: refused, no token$/),
  ]);
  for (let at = 0; at < 30; at++) await exchange(serving.port, Buffer.from(callOf("/mcp")));
  expect(lines()).toHaveLength(20);
  expect(serving.said()).not.toMatch(/not-the-token|token-in-a-url/);
});
