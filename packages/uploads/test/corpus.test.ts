import { open, readdir } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { homedir } from "node:os";
import { expect, test } from "vitest";
import { typeOfName } from "@sluice/client/internal";
import { createKindDetector } from "../src/checks/detect-kind.ts";

// Files of this machine as an ordinary corpus: none was made to be refused.

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("corpus: the files of the whole system are for SLUICE_DEEP=1");

const repository = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const ownFolders = ["docs", "packages", "apps", "e2e", "tools"].map((name) =>
  join(repository, name),
);
const systemFolders = [
  "/usr/share",
  "/usr/lib/python3",
  join(homedir(), ".pyenv"),
  join(repository, "node_modules", ".pnpm"),
];
/** Maximum files of each folder. */
const mostFiles = isDeep ? 25_000 : 60;
const mostBytes = 2 ** 18;

/** Regular files below a folder, in order; none if there is no such folder. */
async function* filesBelow(folder: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== ".git" && entry.name !== ".cache")
      yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

async function someFiles(folder: string): Promise<string[]> {
  const files: string[] = [];
  for await (const path of filesBelow(folder)) if (files.push(path) === mostFiles) break;
  return files;
}

async function beginningOf(path: string): Promise<Uint8Array | undefined> {
  const file = await open(path).catch(() => undefined);
  if (!file) return undefined;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(mostBytes), 0, mostBytes, 0);
    return buffer.subarray(0, bytesRead);
  } catch {
    // it went meanwhile
    return undefined;
  } finally {
    await file.close();
  }
}

/** Why it is refused; `undefined` if it is taken. */
async function refusalOf(
  name: string,
  bytes: Uint8Array,
  accept: readonly string[],
): Promise<string | undefined> {
  const detector = createKindDetector({ name, declaredType: typeOfName(name) }, accept);
  try {
    await detector.add(bytes);
    await detector.kind();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** What a form asks for that wants such files: a range for what is seen, heard and read, else the very type. */
function askedFor(type: string): string | undefined {
  if (type === "application/octet-stream") return undefined;
  const [top = ""] = type.split("/");
  return ["image", "audio", "video", "font", "text"].includes(top) ? `${top}/*` : type;
}

test(
  "no ordinary file is refused where everything is accepted",
  { timeout: 1_200_000 },
  async () => {
    const refused: string[] = [];
    const rows = new Map<string, { files: number; refused: number }>();
    let files = 0;
    for (const folder of isDeep ? [...ownFolders, ...systemFolders] : ownFolders)
      for (const path of await someFiles(folder)) {
        const bytes = await beginningOf(path);
        if (!bytes) continue;
        files += 1;
        const name = path.slice(path.lastIndexOf("/") + 1);
        const why = await refusalOf(name, bytes, []);
        if (why !== undefined) refused.push(`${path}: ${why}`);
        const asked = extname(name) === "" ? undefined : askedFor(typeOfName(name));
        if (asked === undefined) continue;
        const key = `${asked} ${asked.endsWith("*") ? extname(name).toLowerCase() : ""}`;
        const row = rows.get(key) ?? { files: 0, refused: 0 };
        row.files += 1;
        if ((await refusalOf(name, bytes, [asked])) !== undefined) row.refused += 1;
        rows.set(key, row);
      }
    if (isDeep) {
      const total = [...rows.values()].reduce((sum, row) => sum + row.refused, 0);
      console.log(`corpus: ${files} files, ${refused.length} refused where everything is accepted`);
      console.log(`corpus: ${total} refused where what the name says is asked for, by kind:`);
      console.table(
        [...rows]
          .filter(([, row]) => row.refused > 0)
          .map(([asked, row]) => ({ asked, ...row }))
          .toSorted((a, b) => b.refused - a.refused),
      );
    }
    expect(refused).toEqual([]);
    expect(files).toBeGreaterThan(isDeep ? 10_000 : 200);
  },
);
