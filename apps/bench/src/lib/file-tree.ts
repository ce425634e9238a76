import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { KiB, MiB, type Bench } from "./bench.ts";

/** A folder of many files. */
export interface FileTree {
  readonly root: string;
  /** Relative paths. */
  readonly names: readonly string[];
  readonly bytes: number;
}

const filesOfFolder = 500;

/** Writes `count` random files of 8 KiB to 1 MiB, as many of each order of size, in folders of 500. */
export async function createFileTree(bench: Bench, count: number): Promise<FileTree> {
  const root = await bench.scratch("tree");
  const block = randomBytes(MiB);
  const names: string[] = [];
  let bytes = 0;
  for (let n = 0; n < count; n += 1) {
    const folder = `d${Math.floor(n / filesOfFolder)}`;
    if (n % filesOfFolder === 0) await mkdir(join(root, folder));
    const size = Math.round(8 * KiB * (MiB / (8 * KiB)) ** ((n * 0.618) % 1));
    block.writeUInt32LE(n); // no two files are the same
    const name = `${folder}/${n}.bin`;
    await writeFile(join(root, name), block.subarray(0, size));
    names.push(name);
    bytes += size;
  }
  return { root, names, bytes };
}
