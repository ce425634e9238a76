/**
 * The least that a Node program does to save many files: one request each over connections that are kept, SHA-256, a
 * hidden file in the target folder, and its name. It checks nothing, and syncs a file and its folder only when told:
 * `node bare-tree.js LIST DIRECTORY JOBS [sync]`, where a line of the list is a URL, a space and a path.
 */
import { createHash, randomBytes } from "node:crypto";
import { closeSync, fsync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Agent, request } from "undici";
import { reportWork } from "./lib/report-work.ts";

const [list = "", directory = "", jobs = "1", sync] = process.argv.slice(2);
const dispatcher = new Agent({ connections: Number(jobs) });

const flush = promisify(fsync);

async function save(url: string, path: string): Promise<number> {
  const { body, statusCode } = await request(url, { dispatcher });
  if (statusCode !== 200) throw new Error(`bench: HTTP ${statusCode}`);
  const hash = createHash("sha256");
  const chunks: Uint8Array[] = [];
  await new Promise((resolve, reject) => {
    body.on("data", (chunk: Uint8Array) => {
      hash.update(chunk);
      chunks.push(chunk);
    });
    body.on("end", resolve);
    body.on("error", reject);
  });
  hash.digest("hex");
  const part = join(dirname(path), `.${randomBytes(16).toString("hex")}`);
  const fd = openSync(part, "wx", 0o600);
  const bytes = Buffer.concat(chunks);
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
  if (sync) await flush(fd);
  closeSync(fd);
  renameSync(part, path);
  if (sync) await flushFolder(dirname(path));
  return bytes.length;
}

async function flushFolder(path: string): Promise<void> {
  const fd = openSync(path, "r");
  await flush(fd);
  closeSync(fd);
}

await reportWork(async () => {
  const lines = readFileSync(list, "utf8").split("\n").values();
  let bytes = 0;
  const job = async (): Promise<void> => {
    for (const line of lines) {
      const [url = "", path = ""] = line.split(" ");
      bytes += await save(url, join(directory, path));
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, job));
  return bytes;
});
await dispatcher.close();
