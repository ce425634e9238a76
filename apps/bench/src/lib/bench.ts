import { open, mkdir, mkdtemp, rm, truncate } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const KiB = 1024;
export const MiB: number = 1024 * KiB;
export const GiB: number = 1024 * MiB;

/** What every experiment works with. */
export interface Bench extends AsyncDisposable {
  /** Holds `files` and everything else that is written; removed at the end. */
  readonly directory: string;
  /** What the servers serve. */
  readonly files: string;
  /** Runs of each subject. */
  readonly runs: number;
  /** Small files and short runs, for a look while working. */
  readonly quick: boolean;
  /** Leaves Sluice out of the tables of servers. */
  readonly peersOnly: boolean;
  readonly signal: AbortSignal;
  /** Prints one line of progress. */
  say(line: string): void;
  /** A file of `bytes` random bytes under `files`, made once. Gives its name. */
  file(bytes: number): Promise<string>;
  /** A file of `bytes` zeros that takes no room on the disk. Gives its name. */
  sparseFile(bytes: number): Promise<string>;
  /** A fresh directory. */
  scratch(name: string): Promise<string>;
}

/** Options of {@link createBench}. */
export interface BenchOptions {
  readonly runs: number;
  readonly quick: boolean;
  readonly peersOnly: boolean;
  readonly signal: AbortSignal;
}

/** Sets up the directory of one run of the bench. */
export async function createBench(options: BenchOptions): Promise<Bench> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  const files = join(directory, "files");
  await mkdir(files);
  const made = new Set<string>();
  const once = async (name: string, make: (path: string) => Promise<void>): Promise<string> => {
    if (!made.has(name)) await make(join(files, name));
    made.add(name);
    return name;
  };
  let scratches = 0;
  return {
    ...options,
    directory,
    files,
    say: (line) => console.error(line),
    file: (bytes) => once(`random-${bytes}.bin`, (path) => writeRandom(path, bytes)),
    sparseFile: (bytes) =>
      once(`sparse-${bytes}.bin`, async (path) => {
        await (await open(path, "wx")).close();
        await truncate(path, bytes);
      }),
    async scratch(name) {
      const path = join(directory, `${name}-${++scratches}`);
      await mkdir(path);
      return path;
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

async function writeRandom(path: string, bytes: number): Promise<void> {
  const block = randomBytes(Math.min(bytes, MiB));
  const file = await open(path, "wx");
  try {
    for (let written = 0; written < bytes; written += block.length) {
      block.writeUInt32LE((written / block.length) >>> 0); // no two blocks are the same
      await file.write(block, 0, Math.min(block.length, bytes - written));
    }
  } finally {
    await file.close();
  }
}
