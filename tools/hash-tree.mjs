// One hash of all files of a folder: what passed on files of this hash passes on them again.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What is installed or made from the other files; the lockfile stands for what is installed. */
const left = new Set(["node_modules", "dist", "coverage", ".git", ".turbo"]);

/** SHA-256, in hexadecimal, of the paths and the contents of all files under `root`. */
export function hashTree(root) {
  const hash = createHash("sha256");
  const add = (folder) => {
    const entries = readdirSync(join(root, folder), { withFileTypes: true });
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name);
      if (left.has(entry.name)) continue;
      if (entry.isDirectory()) add(path);
      if (!entry.isFile()) continue;
      const content = readFileSync(join(root, path));
      hash.update(`${path}\0${content.length}\0`).update(content);
    }
  };
  add("");
  return hash.digest("hex");
}
