// Counts the values that the public entries of our packages export. Fails for more than `maxValues`, for one that no guide,
// README, example or reference names, and for a guide that imports an internal entry. Public is every entry but `./internal`
// and below, which are outside of the promise of versions.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";
import { isMain } from "./is-main.mjs";
import { isInternal, packagesOf } from "./options-reference.mjs";

/** Maximum of all packages together: each value is a name that we keep for all of a major version. */
export const maxValues = 180;

/** Names of the values that a declaration declares; a type declares none. */
function declaredBy(declaration) {
  if (!declaration || /^TS(Interface|TypeAlias)Declaration$/.test(declaration.type)) return [];
  return (declaration.declarations ?? [declaration]).map(({ id }) => id.name);
}

/** Whether values from a module count here; those of another package's public entries are counted there. */
const isCounted = (from) => from === undefined || from.startsWith(".") || isInternal(from);

/** Values that a file exports, by name. */
function valuesOf(path, read) {
  const { program } = parseSync(path, read(path), { lang: "ts" });
  return program.body.flatMap((node) => {
    const from = node.source?.value;
    if (node.exportKind === "type" || !isCounted(from)) return [];
    if (node.type === "ExportAllDeclaration") return valuesOf(join(dirname(path), from), read);
    if (node.type !== "ExportNamedDeclaration") return [];
    const listed = node.specifiers.filter(({ exportKind }) => exportKind !== "type");
    return [...listed.map(({ exported }) => exported.name), ...declaredBy(node.declaration)];
  });
}

/** The public values of packages `{ name, entries }`, each with the entries that have it. */
export function publicValues(packages, read) {
  return packages.flatMap(({ name: owner, entries }) => {
    const found = new Map();
    for (const { entry, path } of entries)
      for (const name of valuesOf(path, read))
        found.set(name, (found.get(name) ?? new Set()).add(entry));
    return [...found].map(([name, from]) => ({ owner, name, entries: [...from] }));
  });
}

/** Pages that explain how we work, and may show what is not for users. */
const explainsInsides = /^docs\/concepts\//;

/** The code of a page: fences and spans of Markdown, all of any other file. */
export function codeOf(path, text) {
  if (!path.endsWith(".md")) return text;
  return [...text.matchAll(/^```[\s\S]*?^```$|`[^`\n]+`/gm)].map(([code]) => code).join("\n");
}

/** Findings for public values and the pages `{ path, text }` that may name them. */
export function checkExports(values, pages, max = maxValues) {
  const named = new Set(pages.flatMap(({ path, text }) => codeOf(path, text).match(/\w+/g) ?? []));
  const findings = values
    .filter(({ name }) => !named.has(name))
    .map(
      ({ name, entries }) =>
        `${entries[0]}: nothing names ${name}; show it in a guide, or move it to ./internal`,
    );
  for (const { path, text } of pages.filter(({ path: page }) => !explainsInsides.test(page)))
    for (const [, entry] of codeOf(path, text).matchAll(/(?:from|import\()\s*"([^"]+)"/g))
      if (isInternal(entry)) findings.push(`${path}: imports ${entry}, which is not for users`);
  if (values.length > max)
    findings.push(`${values.length} public values are more than ${max}: move some to ./internal`);
  return findings;
}

/** Where users look. */
const pagePaths =
  /^(?:README\.md|packages\/[^/]+\/README\.md|docs\/(?:start|guides|reference|concepts)\/.*\.md|e2e\/examples\/.*\.ts|templates\/.*\.ts)$/;

/** The public values of the repository, and the pages that may name them. */
export function readRepository(root) {
  const read = (path) => readFileSync(join(root, path), "utf8");
  const files = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" }).split("\n");
  const pages = files.filter((path) => pagePaths.test(path));
  return {
    values: publicValues(packagesOf(root), read),
    pages: pages.map((path) => ({ path, text: read(path) })),
  };
}

if (isMain(import.meta.url)) {
  const { values, pages } = readRepository(dirname(dirname(fileURLToPath(import.meta.url))));
  const findings = checkExports(values, pages);
  for (const owner of new Set(values.map((value) => value.owner)))
    console.log(`${values.filter((value) => value.owner === owner).length}\t${owner}`);
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exit(1);
  console.log(
    `exports: ${values.length} public values of at most ${maxValues}, each named by a page`,
  );
}
