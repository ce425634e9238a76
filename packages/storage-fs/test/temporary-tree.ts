import { fstatSync, readdirSync, realpathSync, type Stats } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

/** How long a written file has no etag in these tests; the clock of the file system ticks in less. */
export const racyMs = 8;

/** A folder of a test with a served `root` in it; files beside it must stay out of reach. */
export interface TemporaryTree extends AsyncDisposable {
  readonly path: string;
  readonly root: string;
  /** Writes a file below the root, making its folders; resolves when it has an etag. */
  readonly put: (key: string, content: string | Uint8Array) => Promise<void>;
  /** How many files and how many directories below `path` this process has open. */
  readonly countOpen: () => { readonly files: number; readonly directories: number };
}

/** Makes a fresh tree below the system's temporary folder, or below another one. */
export async function createTemporaryTree(below: string = tmpdir()): Promise<TemporaryTree> {
  const path = realpathSync(await mkdtemp(join(below, "sluice-fs-")));
  const root = join(path, "data");
  await mkdir(root);
  return {
    path,
    root,
    async put(key, content) {
      const file = join(root, key);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, content);
      await wait(racyMs + 2);
    },
    countOpen() {
      const count = { files: 0, directories: 0 };
      for (const fd of readdirSync("/proc/self/fd")) {
        const stats = statBelow(path, Number(fd));
        if (stats) count[stats.isDirectory() ? "directories" : "files"]++;
      }
      return count;
    },
    async [Symbol.asyncDispose]() {
      await rm(path, { recursive: true, force: true });
    },
  };
}

/** Kind of an open descriptor that lies below the path. */
function statBelow(path: string, fd: number): Stats | undefined {
  try {
    // the real one, even if a test takes it away from the backend
    const { readlinkSync } = process.getBuiltinModule("node:fs");
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path) ? fstatSync(fd) : undefined;
  } catch {
    // the descriptor that read the directory is closed by now
    return undefined;
  }
}

/** Everything that a body gives. */
export async function readAll(body: ReadableStream<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}
