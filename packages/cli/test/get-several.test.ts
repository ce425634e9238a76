import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runInOrder, SaveOrder } from "../src/save/save-order.ts";
import { shareProgress } from "../src/terminal/progress-bar.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Served } from "./sluice.ts";

let root = "";
let served: Served;
const count = 12;
const names = Array.from({ length: count }, (_, n) => `${n}.txt`);
const uris = names.map((name) => `files://local/${name}`);
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  // the first takes longest
  for (const [n, name] of names.entries())
    await writeFile(join(root, name), "x".repeat(n === 0 ? 4e6 : 10 + n));
  served = await serveHere(root);
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

function target(): Promise<string> {
  return mkdtemp(join(root, "target-"));
}

async function isSaved(folder: string, name: string): Promise<boolean> {
  const saved = await readFile(join(folder, name));
  return saved.equals(await readFile(join(root, name)));
}

/** Work that ends when it is told to. */
function controlled(total: number, jobs: number) {
  const begun: number[] = [];
  const told: number[] = [];
  const stopped: number[] = [];
  const ends = new Map<number, (error?: Error) => void>();
  const over = runInOrder<number>({
    count: total,
    jobs,
    signal: new AbortController().signal,
    run(index, signal) {
      begun.push(index);
      return new Promise((resolve, reject) => {
        ends.set(index, (error) => (error ? reject(error) : resolve(index)));
        signal.addEventListener("abort", () => {
          stopped.push(index);
          reject(signal.reason as Error);
        });
      });
    },
    async tell(result, index) {
      expect(result).toBe(index);
      told.push(index);
    },
  });
  over.catch(() => {});
  const end = async (index: number, error?: Error): Promise<void> => {
    ends.get(index)?.(error);
    await new Promise(setImmediate);
  };
  return { begun, told, stopped, end, over };
}

test("--jobs is the maximum of concurrent downloads, and results are printed in order", async () => {
  const { begun, told, end, over } = controlled(4, 2);
  expect(begun).toEqual([0, 1]);
  await end(1);
  expect(begun).toEqual([0, 1, 2]);
  expect(told).toEqual([]);
  await end(2);
  await end(0);
  expect(told).toEqual([0, 1, 2]);
  await end(3);
  await over;
  expect(told).toEqual([0, 1, 2, 3]);
});

test("downloads before the first error are done and reported, later ones are ended, no more begin", async () => {
  const { begun, told, stopped, end, over } = controlled(9, 4);
  await end(3);
  const [late, first] = [new Error("late"), new Error("first")];
  await end(2, late);
  expect([begun, stopped]).toEqual([[0, 1, 2, 3, 4], [4]]);
  await end(1, first);
  await end(0);
  await expect(over).rejects.toBe(first);
  expect(told).toEqual([0, 3]);
  expect(begun).toHaveLength(5);
});

test("saves that meet at one path follow each other in the order of their numbers", async () => {
  const order = new SaveOrder();
  const entered: string[] = [];
  const enter = async (index: number, path: string) => {
    const place = await order.enter(index, async () => path);
    entered.push(`${index} ${path}`);
    return () => place.leave();
  };
  const last = enter(3, "a");
  const other = enter(2, "b");
  const first = enter(0, "a");
  await new Promise(setImmediate);
  // number 1 has no path yet
  expect(entered).toEqual(["0 a"]);
  order.pass(1);
  (await other)();
  expect(entered).toEqual(["0 a", "2 b"]);
  (await first)();
  (await last)();
  expect(entered).toEqual(["0 a", "2 b", "3 a"]);
});

test("one bar shows the bytes of all downloads, and of how many once each has told its size", () => {
  const drawn: unknown[] = [];
  const bar = { update: (...facts: unknown[]) => void drawn.push(facts) };
  const begin = shareProgress(bar, 2);
  const [a, b] = [begin(), begin()];
  a.report(5, 10);
  b.report(1);
  b.report(2, 20);
  a.report(0, 12);
  const none = { done: 0, total: 2 };
  expect(drawn).toEqual([
    [5, undefined, none],
    [6, undefined, none],
    [7, 30, none],
    [2, 32, none],
  ]);
});

test("downloads whose sizes are known have a total from the start, and one that ended early none left", () => {
  const drawn: unknown[] = [];
  const begin = shareProgress({ update: (...facts: unknown[]) => void drawn.push(facts) }, 2);
  const [a, b] = [begin(10), begin(20)];
  a.report(4);
  a.end();
  a.end();
  b.report(20, 20);
  b.end();
  expect(drawn).toEqual([
    [4, 30, { done: 0, total: 2 }],
    [4, 24, { done: 1, total: 2 }],
    [24, 24, { done: 1, total: 2 }],
    [24, 24, { done: 2, total: 2 }],
  ]);
});

test(
  "get prints the paths in the order of the URIs, whichever is there first",
  { tags: "slow" },
  async () => {
    const folder = await target();
    const { status, stdout, stderr } = await runHere(["get", served.url, ...uris, "-o", folder]);
    expect(stdout.trimEnd().split("\n")).toEqual(names.map((name) => join(folder, name)));
    expect(stderr.match(/sha256/g)).toHaveLength(count);
    expect(status).toBe(0);
    for (const name of names) expect(await isSaved(folder, name)).toBe(true);
    expect((await readdir(folder)).toSorted()).toEqual(names.toSorted());
  },
);

test("one that is not there does not end the rest, and the status is its own", async () => {
  const folder = await target();
  const asked = [uris[0]!, uris[1]!, "files://local/none.txt", ...uris.slice(2)];
  const args = ["get", served.url, ...asked, "-y", "-o", folder];
  const { status, stdout, stderr } = await runHere(args);
  expect(stdout.trimEnd().split("\n")).toEqual(names.map((name) => join(folder, name)));
  expect(stderr).toMatch(/^sluice: files:\/\/local\/none\.txt: .*sluice ls/m);
  expect(stderr).toMatch(/^12 saved, 1 refused: /m);
  expect(stderr).toContain("sluice: 1 of 13 files were refused; see the lines above\n");
  expect(status).toBe(exitCodes.notFound.status);
  for (const name of names) expect(await isSaved(folder, name)).toBe(true);
});

test("a resource that is asked for twice is saved once", async () => {
  const folder = await target();
  const asked = [uris[0]!, uris[0]!, uris[1]!];
  const { status, stdout, stderr } = await runHere(["get", served.url, ...asked, "-o", folder]);
  const paths = ["0.txt", "0.txt", "1.txt"].map((name) => join(folder, name));
  expect(stdout.trimEnd().split("\n")).toEqual(paths);
  expect(stderr).toContain("0.txt is there already, and the same\n");
  expect(stderr).toMatch(/^2 saved, 1 there already: /m);
  expect(status).toBe(0);
  expect(await isSaved(folder, "0.txt")).toBe(true);
});

test("get has as many calls open as --jobs say", { tags: "slow" }, async () => {
  const seen = { now: 0, most: 0 };
  const pass = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const isStream = body.includes('"resources/stream"');
    if (isStream) seen.most = Math.max(seen.most, (seen.now += 1));
    const headers = new Headers();
    for (const [name, value] of Object.entries(req.headers))
      if (!["host", "connection", "content-length"].includes(name))
        headers.set(name, String(value));
    const { method = "POST" } = req;
    const sent = method === "GET" ? undefined : new Uint8Array(body);
    const answer = await fetch(served.url, { method, headers, body: sent ?? null });
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (isStream) seen.now -= 1;
    const kept = [...answer.headers].filter(([name]) => name !== "transfer-encoding");
    res.writeHead(answer.status, Object.fromEntries(kept)).end(bytes);
  };
  const counting = createServer((req, res) => void pass(req, res)).listen(0, "127.0.0.1");
  await once(counting, "listening");
  const { port } = counting.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/mcp`;
  const peakOf = async (...options: string[]): Promise<number> => {
    seen.most = 0;
    const args = ["get", url, ...uris, "-o", await target(), "--trust", new URL(served.url).origin];
    const { status, stderr } = await runHere([...args, ...options]);
    expect(stderr).toContain("sha256");
    expect(status).toBe(0);
    return seen.most;
  };
  try {
    expect(await peakOf("-j", "1")).toBe(1);
    const most = await peakOf();
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(5);
  } finally {
    counting.closeAllConnections();
    counting.close();
  }
});
