import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

/** The code that pages show of one file; `tools/check-snippets.mjs` holds the pages to their files. */
export interface ShownFile {
  readonly path: string;
  /** In the order of the file, each once. */
  readonly parts: readonly ShownPart[];
}

interface ShownPart {
  readonly code: string;
  /** The lines of the file that it stands on, counted from 1, both included. */
  readonly first: number;
  readonly last: number;
}

/** Every file that a fence of our pages names as its source. */
export function readShownFiles(): readonly ShownFile[] {
  const regions = new Map<string, Set<string>>();
  for (const { text } of readPages())
    for (const [, path = "", region = ""] of text.matchAll(/^```ts source=([^#\s]+)(?:#(\S+))?$/gm))
      regions.set(path, (regions.get(path) ?? new Set()).add(region));
  return [...regions].map(([path, names]) => ({ path, parts: partsOf(read(path), [...names]) }));
}

/** Code that a page says to save as JavaScript, by page. */
export function readSavedScripts(): readonly { readonly page: string; readonly code: string }[] {
  return readPages().flatMap(({ page, text }) =>
    [
      ...text.matchAll(
        /Save this as `[\w-]+\.mjs`(?:(?!```)[\s\S])*```ts[^\n]*\n([\s\S]*?)^```$/gm,
      ),
    ].map(([, code = ""]) => ({ page, code })),
  );
}

/** Whether the shown code of a file is a program: it begins with its imports. Other code takes names from its page. */
export function isProgram({ path, parts }: ShownFile): boolean {
  const isOfTest = path.endsWith(".test.ts") && !path.includes("/examples/");
  return parts[0]!.code.startsWith("import ") && !isOfTest;
}

export function programOf({ parts }: ShownFile): string {
  return parts.map(({ code }) => code).join("\n");
}

function readPages(): { readonly page: string; readonly text: string }[] {
  const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: root, encoding: "utf8" });
  return pages
    .split("\n")
    .filter(isPage)
    .map((page) => ({ page, text: read(page) }));
}

function isPage(path: string): boolean {
  return path.endsWith(".md") && !path.startsWith(".changeset/") && existsSync(join(root, path));
}

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

function partsOf(source: string, regions: readonly string[]): readonly ShownPart[] {
  const lines = source.split("\n");
  const parts = regions.map((name) => {
    const start =
      name === "" ? -1 : lines.findIndex((line) => line.trim() === `// #region ${name}`);
    const found = lines.findIndex((line, at) => at > start && /^\s*\/\/ #endregion/.test(line));
    const end = name === "" ? lines.length : found;
    return { code: lines.slice(start + 1, end).join("\n"), first: start + 2, last: end };
  });
  return parts.toSorted((a, b) => a.first - b.first);
}
