import { closeSync, existsSync, openSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test } from "vitest";
import { createTemporaryTree } from "./temporary-tree.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const count = isDeep ? 1_000_000 : 3000;
// making the files takes longer than listing them, unless they are in memory
const memory = "/dev/shm";
const below = existsSync(memory) ? memory : tmpdir();
const mebibyte = 1024 * 1024;

test(
  `a folder of ${count} files is listed whole, in memory that does not grow with it`,
  { timeout: 600_000 },
  async () => {
    await using tree = await createTemporaryTree(below);
    const backend = createFsBackend({ root: tree.root });
    const create = (from: number, to: number): void => {
      for (let n = from; n < to; n++) closeSync(openSync(join(tree.root, String(n)), "w"));
    };
    create(0, 1000);
    // the first pages grow the heap to the size that any work needs
    for (let n = 0; n < (isDeep ? 30 : 2); n++) await backend.list();
    const before = process.memoryUsage.rss();
    create(1000, count);

    const seen = new Uint8Array(count);
    let pages = 0;
    let peak = before;
    let slowestMs = 0;
    let cursor: string | undefined;
    do {
      const startedAt = performance.now();
      const page = await backend.list(
        cursor === undefined ? { limit: 100 } : { limit: 100, cursor },
      );
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      for (const { key } of page.objects) seen[Number(key)] = 1;
      if (pages++ % 100 === 0) peak = Math.max(peak, process.memoryUsage.rss());
      ({ cursor } = page);
    } while (cursor !== undefined);
    expect(seen.indexOf(0)).toBe(-1);
    const grownMiB = (peak - before) / mebibyte;
    console.info(
      `${pages} pages: slowest ${slowestMs.toFixed(1)} ms, memory +${grownMiB.toFixed(1)} MiB`,
    );
    expect(grownMiB).toBeLessThan(40);
  },
);

test.runIf(isDeep)(
  "a folder with more files than a watch can remember is too_large",
  { timeout: 60_000 },
  async () => {
    await using tree = await createTemporaryTree(below);
    for (let n = 0; n < 100_001; n++) closeSync(openSync(join(tree.root, String(n)), "w"));
    const { signal } = new AbortController();
    const backend = createFsBackend({ root: tree.root });
    const watching = backend.watch?.({ signal })[Symbol.asyncIterator]();
    await expect(watching?.next()).rejects.toMatchObject({ code: "too_large" });
  },
);
