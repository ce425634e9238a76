/**
 * Takes files without MCP, then tells what that took: `node bare-client.js WAY …`. The first two are the least that a
 * program in Node can do; they check nothing.
 */
import { createWriteStream, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Worker } from "node:worker_threads";
import { saveBare } from "../lib/bare-file.ts";
import { reportWork, wayOf } from "../lib/program.ts";

const [way, ...args] = process.argv.slice(2);

/** What is loaded and opened before the clock starts, and the work. */
const ways: Readonly<Record<string, () => Promise<() => Promise<number>>>> = {
  /** One file over one connection, written and hashed: one socket, shared memory, one thread: `URL PATH`. */
  async save() {
    const [address = "", path = ""] = args;
    return () => saveAndHash(new URL(address), path);
  },
  /**
   * Many files: one request each over connections that are kept, and what `saveBare` does: `LIST DIRECTORY JOBS [sync]`,
   * where a line of the list is a URL, a space and a path.
   */
  async tree() {
    const { Agent, request } = await import("undici");
    const [list = "", directory = "", jobs = "1", sync] = args;
    const dispatcher = new Agent({ connections: Number(jobs) });
    return async () => {
      const lines = readFileSync(list, "utf8").split("\n").values();
      let bytes = 0;
      const job = async (): Promise<void> => {
        for (const line of lines) {
          const [url = "", path = ""] = line.split(" ");
          const { body, statusCode } = await request(url, { dispatcher });
          if (statusCode !== 200) throw new Error(`bench: HTTP ${statusCode}`);
          const size = await saveBare(body, join(directory, path), sync !== undefined);
          bytes += size;
        }
      };
      await Promise.all(Array.from({ length: Number(jobs) }, job));
      return bytes;
    };
  },
  /** Downloads with huggingface.js, as its README does: `HUB FILE PATH`. */
  async hub() {
    const { downloadFile } = await import("@huggingface/hub");
    const [hubUrl = "", file = "", path = ""] = args;
    return async () => {
      const blob = await downloadFile({ repo: "bench/model", path: file, hubUrl });
      if (blob === null) throw new Error("bench: the hub has no such file");
      await pipeline(Readable.fromWeb(blob.stream() as never), createWriteStream(path));
      return blob.size;
    };
  },
};

const blockBytes = 2 ** 20;
const blocks = 6;
const leastRoom = 65_536;

const threadSource = `
const { parentPort, workerData: { fd, memory } } = require("node:worker_threads");
const { writeSync } = require("node:fs");
const hash = require("node:crypto").createHash("sha256");
const bytes = Buffer.from(memory);
parentPort.on("message", ({ from, to, at }) => {
  if (from === to) return parentPort.postMessage(hash.digest("hex"));
  for (let next = from; next < to; ) {
    const written = writeSync(fd, bytes, next, Math.min(196608, to - next), at + next - from);
    hash.update(bytes.subarray(next, next + written));
    next += written;
  }
  parentPort.postMessage(from);
});
`;

/** Gives the number of bytes when all are written and hashed. */
function saveAndHash(url: URL, path: string): Promise<number> {
  const memory = new SharedArrayBuffer(blocks * blockBytes);
  const bytes = Buffer.from(memory);
  const workerData = { fd: openSync(path, "w"), memory };
  const worker = new Worker(threadSource, { eval: true, workerData });
  const scratch = Buffer.alloc(65_536);
  let head = "";
  let block = 0;
  let filled = 0;
  let busy = 0;
  let length = 0;
  let at = 0;

  /** Takes what lies in the current block behind what it has already. */
  function take(count: number): void {
    filled += count;
    if (blockBytes - filled >= leastRoom && at + filled < length) return;
    const from = block * blockBytes;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    worker.postMessage({ from, to: from + filled, at });
    busy++;
    at += filled;
    filled = 0;
    block = (block + 1) % blocks;
  }

  const buffer = (): Buffer =>
    length === 0 ? scratch : bytes.subarray(block * blockBytes + filled, (block + 1) * blockBytes);
  function callback(count: number, into: Uint8Array): boolean {
    if (into !== scratch) take(count);
    else if (length > 0) {
      bytes.set(into.subarray(0, count), block * blockBytes + filled);
      take(count);
    } else {
      head += Buffer.from(into.subarray(0, count)).toString("latin1");
      const end = head.indexOf("\r\n\r\n") + 4;
      if (end < 4) return true;
      length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      bytes.write(head.slice(end), block * blockBytes, "latin1");
      take(head.length - end);
    }
    return busy < blocks - 1;
  }

  return new Promise((resolve, reject) => {
    const socket = connect({
      host: url.hostname,
      port: Number(url.port),
      onread: { buffer, callback },
    });
    socket.on("error", reject);
    worker.on("error", reject);
    worker.on("message", (message: number | string) => {
      if (typeof message === "string") {
        void worker.terminate();
        socket.destroy();
        return resolve(at);
      }
      busy--;
      if (at < length) socket.resume();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      else if (busy === 0) worker.postMessage({ from: 0, to: 0, at });
    });
    socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`);
  });
}

await reportWork(await wayOf(ways, way)());
// connections that are kept alive would keep the process
process.exit();
