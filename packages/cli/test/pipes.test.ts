// `sluice cat`, `get -o -`, and what goes with them in scripts.
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { partOfFile } from "../src/commands/option-values.ts";
import { parseChecksums } from "../src/download/checksum-file.ts";
import { createPace } from "../src/download/rate-limit.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { program, runCommand, type Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const digits = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(4, "0")).join("");
const big = randomBytes(3 * 2 ** 20 + 7);
const sha256 = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex");
let root = "";
let served: Served;
let official: Server;
let officialUrl = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-pipes-"));
  await mkdir(join(root, "files/sub"), { recursive: true });
  await writeFile(join(root, "files/digits"), digits);
  await writeFile(join(root, "files/sub/a.txt"), "a\n");
  await writeFile(join(root, "files/sub/b.txt"), "b\n");
  await writeFile(join(root, "files/big.bin"), big);
  served = await serveHere(join(root, "files"));
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "plain", version: "1.0.0" });
    server.registerResource("digits", "plain://a/digits", {}, ({ href }) => ({
      contents: [{ uri: href, text: digits }],
    }));
    return server;
  });
  const handle = toNodeHandler(mcp);
  official = createServer((request, response) => void handle(request as never, response));
  await once(official.listen(0, "127.0.0.1"), "listening");
  officialUrl = `http://127.0.0.1:${(official.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  await served?.end();
  official?.close().closeAllConnections();
  await rm(root, { recursive: true });
});

test.each([
  ["the first bytes", "0-99", digits.slice(0, 100)],
  ["bytes in the middle", "1001-1010", digits.slice(1_001, 1_011)],
  ["the rest", "3990-", digits.slice(3_990)],
  ["the last bytes", "-7", digits.slice(-7)],
  ["more than there are", "3990-99999", digits.slice(3_990)],
  ["more last bytes than there are", "-99999", digits],
  ["all", "0-", digits],
])("cat --range writes %s and nothing else", async (_, range, wanted) => {
  for (const args of [
    [served.url, "files://local/digits"],
    [officialUrl, "plain://a/digits"],
  ]) {
    const run = await runHere(["cat", ...args, "--range", range]);
    expect(run).toEqual({ status: 0, stdout: wanted, stderr: "" });
  }
});

test("a range that begins after the end, or of several resources, is refused", async () => {
  const after = await runHere(["cat", served.url, "digits", "--range", "4000-"]);
  expect([after.status, after.stdout]).toEqual([exitCodes.integrity.status, ""]);
  expect(after.stderr).toMatch(/^sluice: .* has 4000 bytes; .*\n$/);
  const several = await runHere(["cat", served.url, "sub/", "--range", "0-1"]);
  expect([several.status, several.stdout]).toEqual([exitCodes.usage.status, ""]);
});

test.each(["0-", "5-5", "-1"])("%s is a range", (text) => {
  expect(partOfFile(text)).toBeDefined();
});

test.each(["", "-", "5-4", "a-b", "1", "-0", "0-9007199254740993", "1-2-3"])(
  "%j is not a range",
  (text) => {
    expect(() => partOfFile(text)).toThrow("Use a range such as 0-99, 100- or -500.");
  },
);

test.each([
  ["cat", ["cat", "digits", "sub/"], `${digits}a\nb\n`],
  ["get -o -", ["get", "sub/", "digits", "-o", "-"], `a\nb\n${digits}`],
])("%s writes several one after the other", async (_, [command = "", ...args], wanted) => {
  const run = await runHere([command, served.url, ...args]);
  expect(run).toEqual({ status: 0, stdout: wanted, stderr: "" });
});

test("a pipe gets the file, byte for byte", { tags: "slow" }, async () => {
  const words = [...program, "get", served.url, "big.bin", "-o", "-"];
  const line = words.map((word) => `'${word}'`).join(" ");
  const run = await runCommand(["sh", "-c", `${line} | sha256sum`]);
  expect(run).toEqual({ status: 0, stdout: `${sha256(big)}  -\n`, stderr: "" });
  // a reader may leave early
  const head = await runCommand([
    "bash",
    "-c",
    `${line} | head -c 5 | wc -c; echo "\${PIPESTATUS[0]}"`,
  ]);
  expect([head.stdout, head.stderr]).toEqual(["5\n0\n", ""]);
});

test("a resource that is not there writes nothing", async () => {
  const run = await runHere(["cat", served.url, "files://local/none"]);
  expect([run.status, run.stdout]).toEqual([exitCodes.notFound.status, ""]);
});

test("--quiet prints the paths alone, and what went wrong", async () => {
  const cwd = await mkdtemp(join(root, "target-"));
  const one = await runHere(["get", served.url, "digits", "-q"], { cwd });
  expect(one).toEqual({ status: 0, stdout: "digits\n", stderr: "" });
  const tree = await runHere(["get", served.url, "sub/", "--quiet"], { cwd });
  expect(tree).toEqual({ status: 0, stdout: "a.txt\nb.txt\n", stderr: "" });
  await writeFile(join(cwd, "a.txt"), "mine");
  const refused = await runHere(["get", served.url, "sub/", "--quiet"], { cwd });
  expect(refused.stderr).toMatch(/^sluice: files:.*a\.txt: .*\nsluice: 1 of 2 files .*\n$/);
});

test("--checksum saves what has the digest of its line, and nothing else", async () => {
  const cwd = await mkdtemp(join(root, "target-"));
  const sums = join(cwd, "SUMS");
  await writeFile(sums, `${sha256("a\n")}  a.txt\n${sha256("other")} *b.txt\n`);
  const run = await runHere(["get", served.url, "sub/", "-o", "out", "--checksum", sums], { cwd });
  expect([run.status, run.stdout]).toEqual([exitCodes.integrity.status, "out/a.txt\n"]);
  expect(run.stderr).toMatch(/^sluice: files:.*b\.txt: .*SHA-256 is wrong/);
  expect(await readdir(join(cwd, "out"))).toEqual(["a.txt"]);
  // the same size and time are not enough
  await writeFile(sums, `SHA256 (./sub/a.txt) = ${sha256("x")}\n`);
  const other = await runHere(["get", served.url, "sub/", "-o", "out", "--checksum", sums], {
    cwd,
  });
  expect(other.stderr).toMatch(/has no SHA-256 of a\.txt/);
  await writeFile(sums, `${sha256("x")}  a.txt\n${sha256("b\n")}  b.txt\n`);
  const differs = await runHere(["get", served.url, "sub/", "-o", "out", "--checksum", sums], {
    cwd,
  });
  expect(differs.stderr).toMatch(/^sluice: files:.*a\.txt: .*--force/);
  expect(await readFile(join(cwd, "out/b.txt"), "utf8")).toBe("b\n");
});

test("--checksum holds for a server without streaming", async () => {
  const cwd = await mkdtemp(join(root, "target-"));
  await writeFile(join(cwd, "SUMS"), `${sha256("x")}  digits\n`);
  const args = ["get", officialUrl, "plain://a/digits", "--checksum", "SUMS"];
  const wrong = await runHere(args, { cwd });
  expect([wrong.status, await readdir(cwd)]).toEqual([exitCodes.integrity.status, ["SUMS"]]);
  await writeFile(join(cwd, "SUMS"), `${sha256(digits)}  digits\n`);
  expect((await runHere(args, { cwd })).status).toBe(0);
});

test.each([
  ["a missing file", "none", undefined, /none cannot be read/],
  ["a file of something else", "SUMS", "hello\n", /SUMS has no SHA-256; make it with sha256sum/],
])("--checksum with %s is refused before anything is asked", async (_, name, content, line) => {
  const cwd = await mkdtemp(join(root, "target-"));
  if (content !== undefined) await writeFile(join(cwd, name), content);
  const args = ["get", "http://127.0.0.1:1/mcp", "x", "--checksum", name];
  const { status, stderr } = await runHere(args, { cwd });
  expect([status, stderr]).toEqual([exitCodes.usage.status, expect.stringMatching(line)]);
});

test("digests are read in the forms of sha256sum", () => {
  const [a, b, c, d] = ["a", "b", "c", "d"].map(sha256);
  const text = `${a}  one\r\n${b?.toUpperCase()} *two three\nSHA256 (./x/y) = ${c}\n\\${d}  back\\\\slash\n\\${a}  x\\\\n\nnot  one\n`;
  expect([...parseChecksums(text)]).toEqual([
    ["one", a],
    ["two three", b],
    ["x/y", c],
    ["back\\slash", d],
    ["x\\n", a],
  ]);
});

test("--limit-rate lets bytes pass at that rate, and an end of the run at once", async () => {
  const pace = createPace(100_000, new AbortController().signal);
  const startedAt = performance.now();
  for (let chunk = 0; chunk < 5; chunk += 1) await pace(10_000);
  // the last one passes whole
  expect(performance.now() - startedAt).toBeGreaterThan(390);
  const stop = new AbortController();
  const slow = createPace(1, stop.signal);
  await slow(1_000);
  const waiting = slow(1);
  stop.abort();
  await expect(waiting).rejects.toThrow(/abort/);
});

test.each([
  ["get over one connection", ["get", "big.bin"]],
  ["get over several connections", ["get", "big.bin", "--connections", "4"]],
  ["cat", ["cat", "big.bin"]],
])("%s keeps to --limit-rate", { tags: "slow" }, async (_, [command = "", ...args]) => {
  const cwd = await mkdtemp(join(root, "target-"));
  const startedAt = performance.now();
  const run = await runHere([command, served.url, ...args, "--limit-rate", "2M"], { cwd });
  expect(run.status).toBe(0);
  // 3 MiB, of which the last chunk does not wait
  expect(performance.now() - startedAt).toBeGreaterThan(900);
});

test("--header goes with every request of every command, never over plain HTTP to another machine", async () => {
  const seen = new Map<string, Set<string | undefined>>();
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "plain", version: "1.0.0" });
    server.registerResource("x", "plain://a/x", {}, ({ href }) => ({
      contents: [{ uri: href, text: "x" }],
    }));
    return server;
  });
  let current = "";
  const handle = toNodeHandler(mcp);
  const server = createServer((request, response) => {
    seen.get(current)!.add(request.headers["x-key"] as string | undefined);
    void handle(request as never, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const cwd = await mkdtemp(join(root, "target-"));
    for (const args of [["ls"], ["get", "plain://a/x"], ["cat", "plain://a/x"], ["put"]]) {
      const [command = "", ...rest] = args;
      current = command;
      seen.set(command, new Set());
      const options = { cwd, env: { KEY: "secret" } };
      await runHere([command, url, ...rest, "--header", "X-Key: ${KEY}"], options);
      expect([command, ...seen.get(command)!]).toEqual([command, "secret"]);
    }
  } finally {
    server.close().closeAllConnections();
  }
  const clear = await runHere(["ls", "http://example.com/mcp", "--header", "X-Key: secret"]);
  expect([clear.status, clear.stderr]).toEqual([
    exitCodes.refused.status,
    expect.stringContaining("in the clear"),
  ]);
});

test("an address alone says what else to write", async () => {
  const { status, stderr } = await runHere(["get", "http://127.0.0.1:1/dl/0123456789"]);
  expect([status, stderr]).toEqual([
    exitCodes.usage.status,
    expect.stringMatching(/^sluice: no resource is named; .*for a download link use `curl/),
  ]);
});
