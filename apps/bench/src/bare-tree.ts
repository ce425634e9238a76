/**
 * The least that a Node program does to save many files: one request each over connections that are kept, and what
 * `saveBare` does: `node bare-tree.js LIST DIRECTORY JOBS [sync]`, where a line of the list is a URL, a space and a path.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { saveBare } from "./lib/bare-file.ts";
import { reportWork } from "./lib/report-work.ts";

const [list = "", directory = "", jobs = "1", sync] = process.argv.slice(2);
const dispatcher = new Agent({ connections: Number(jobs) });

async function save(url: string, path: string): Promise<number> {
  const { body, statusCode } = await request(url, { dispatcher });
  if (statusCode !== 200) throw new Error(`bench: HTTP ${statusCode}`);
  return saveBare(body, path, sync !== undefined);
}

await reportWork(async () => {
  const lines = readFileSync(list, "utf8").split("\n").values();
  let bytes = 0;
  const job = async (): Promise<void> => {
    for (const line of lines) {
      const [url = "", path = ""] = line.split(" ");
      const size = await save(url, join(directory, path));
      bytes += size;
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, job));
  return bytes;
});
await dispatcher.close();
