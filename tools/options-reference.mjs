// Writes docs/reference/options.md from the docstrings of every exported interface whose name ends in
// "Options" or "Timeouts", found from the public entries in the packages' manifests. `--check` fails when the page is stale.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";
import { isMain } from "./is-main.mjs";

const width = 118;

/** A file's declarations, imports and exports by name. */
function parseModule(path, source) {
  const { program, comments } = parseSync(path, source, { lang: "ts" });
  const module = { path, source, comments, types: new Map(), links: new Map(), stars: [] };
  const link = (local, from, name) => module.links.set(local, { from, name });
  for (const node of program.body) {
    if (node.type === "ImportDeclaration")
      for (const { local, imported } of node.specifiers)
        if (imported) link(local.name, node.source.value, imported.name);
    if (node.type === "ExportAllDeclaration") module.stars.push(node.source.value);
    if (node.type !== "ExportNamedDeclaration") continue;
    for (const { local, exported } of node.specifiers)
      if (node.source) link(exported.name, node.source.value, local.name);
      else if (!module.links.has(exported.name)) link(exported.name, undefined, local.name);
    const declared = node.declaration;
    if (/^TS(Interface|TypeAlias)Declaration$/.test(declared?.type))
      module.types.set(declared.id.name, { module, node: declared, start: node.start });
  }
  for (const node of program.body)
    if (/^TS(Interface|TypeAlias)Declaration$/.test(node.type))
      module.types.set(node.id.name, { module, node, start: node.start });
  return module;
}

/**
 * Finds types by name from a file on, through re-exports and imports. `resolve` gives the source of an entry of our
 * packages.
 */
export function createTypes(read, resolve = () => undefined) {
  const modules = new Map();
  const load = (path) => {
    const source = modules.has(path) ? undefined : read(path);
    if (source !== undefined) modules.set(path, parseModule(path, source));
    return modules.get(path);
  };
  const find = (path, name) => {
    const module = load(path);
    if (!module) return undefined;
    const linked = module.links.get(name);
    if (module.types.has(name)) return module.types.get(name);
    const from = linked?.from?.startsWith(".")
      ? join(dirname(path), linked.from)
      : linked?.from && resolve(linked.from);
    if (from) return find(from, linked.name);
    if (linked && linked.from === undefined && linked.name !== name) return find(path, linked.name);
    for (const star of module.stars) {
      const found = star.startsWith(".") && find(join(dirname(path), star), name);
      if (found) return found;
    }
    return undefined;
  };
  /** Names that a file exports, those behind `export *` included. */
  const exportsOf = (path) => {
    const module = load(path);
    if (!module) return [];
    const own = [...module.source.matchAll(/^export (?:interface|type) (\w+)/gm)].map(([, n]) => n);
    const linked = [...module.links.keys()].filter((name) =>
      new RegExp(`^export [^;]*\\b${name}\\b`, "m").test(module.source),
    );
    const behind = module.stars.flatMap((from) => exportsOf(join(dirname(path), from)));
    return [...new Set([...own, ...linked, ...behind])];
  };
  return { find, exportsOf };
}

/** The docstring that ends right before a position, as paragraphs of Markdown. */
function docBefore({ comments, source }, start) {
  const doc = comments.findLast(
    ({ value, end }) =>
      value.startsWith("*") && end <= start && /^\s*$/.test(source.slice(end, start)),
  );
  if (!doc) return "";
  return doc.value
    .slice(1)
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .replaceAll(/\{@link (\w+)\}/g, "`$1`")
    .trim();
}

/** One member of an interface as a list item. */
function memberOf(module, node) {
  const name = module.source.slice(node.key.start, node.key.end);
  const text = (at) => module.source.slice(at.start, at.end).replaceAll(/\s+/g, " ");
  const type =
    node.type === "TSMethodSignature"
      ? `(${node.params.map(text).join(", ")}) => ${text(node.returnType.typeAnnotation)}`
      : text(node.typeAnnotation.typeAnnotation).replace(/ \| undefined$/, "");
  return { name, type, isOptional: node.optional, doc: docBefore(module, node.start) };
}

/** Types that a type is put together from. In a union none of them is needed. */
function partsOf(type, isAlternative = false) {
  if (type.type === "TSParenthesizedType") return partsOf(type.typeAnnotation, isAlternative);
  if (!/^TS(Intersection|Union)Type$/.test(type.type)) return [{ part: type, isAlternative }];
  return type.types.flatMap((part) => partsOf(part, isAlternative || type.type === "TSUnionType"));
}

/** Members of an interface, those that it inherits included. */
function membersOf(found, find) {
  const { module, node } = found;
  const inherited = (node.extends ?? []).flatMap(({ expression }) => {
    const parent = expression.name && find(module.path, expression.name);
    return parent ? membersOf(parent, find) : [];
  });
  const parts = node.typeAnnotation ? partsOf(node.typeAnnotation) : [];
  const aliased = parts.flatMap(({ part, isAlternative }) => {
    if (part.type === "TSTypeLiteral")
      return part.members
        .map((member) => memberOf(module, member))
        .filter(({ type }) => type !== "never")
        .map((member) => ({ ...member, isOptional: member.isOptional || isAlternative }));
    const parent = part.typeName?.name && find(module.path, part.typeName.name);
    if (!parent) return [];
    return membersOf(parent, find).map((member) => ({
      ...member,
      isOptional: member.isOptional || isAlternative,
    }));
  });
  const own = (node.body?.body ?? [])
    .filter(({ type }) => type === "TSPropertySignature" || type === "TSMethodSignature")
    .map((member) => memberOf(module, member));
  const merged = oneOfEach(aliased);
  const others = oneOfEach(inherited).filter(({ name }) => !own.some((o) => o.name === name));
  return [...own, ...merged, ...others];
}

/** Each member once: alternatives repeat a member, and the first that describes it says what it is. */
function oneOfEach(members) {
  const byName = new Map();
  for (const member of members) {
    const known = byName.get(member.name);
    if (!known || (!known.doc && member.doc)) byName.set(member.name, member);
  }
  return [...byName.values()];
}

/** Text in lines of at most `width` characters; list items and paragraphs of the docstring stay. */
function wrap(text, indent) {
  const blocks = text.split(/\n(?=\s*[-*] )|\n\s*\n/);
  return blocks
    .flatMap((block) => {
      const lines = [];
      let line = "";
      for (const word of block.trim().split(/\s+/)) {
        if (line && indent.length + line.length + 1 + word.length > width) {
          lines.push(indent + line);
          line = "";
        }
        line = line ? `${line} ${word}` : word;
      }
      return [...lines, indent + line];
    })
    .join("\n");
}

function toSection({ name, entry, found }, find) {
  const members = membersOf(found, find).toSorted((a, b) => a.isOptional - b.isOptional);
  const doc = docBefore(found.module, found.start);
  // what options take of timeouts is a `Partial`
  const areOptional = name.endsWith("Timeouts");
  const items = members.map(({ name: member, type, isOptional, doc: about }) => {
    const head = `- \`${member}\`${isOptional || areOptional ? "" : " (required)"}: \`${type}\``;
    return about ? `${head}\n${wrap(about, "  ")}` : head;
  });
  return [
    `### ${name}`,
    "",
    ...(doc ? [wrap(doc, ""), ""] : []),
    `From \`${entry}\`.`,
    "",
    ...items,
    "",
  ];
}

/** The page for packages, each with its entries `{ entry, path }`. */
export function toPage(packages, read, resolve) {
  const { find, exportsOf } = createTypes(read, resolve);
  const lines = [
    "# Options",
    "",
    "<!-- written by `node tools/options-reference.mjs`; change the docstrings instead -->",
    "",
    "Every exported interface of options or timeouts, with the docstrings of its members. Times are in milliseconds and",
    "sizes in bytes where the name of an option ends in `Ms` or `Bytes`.",
    "",
  ];
  for (const { name, entries } of packages) {
    const seen = new Map();
    for (const { entry, path } of entries)
      for (const exported of exportsOf(path)) {
        const found = /(?:Options|Timeouts)$/.test(exported) && find(path, exported);
        if (found && !seen.has(found.node)) seen.set(found.node, { name: exported, entry, found });
      }
    if (seen.size === 0) continue;
    const sections = [...seen.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    lines.push(`## ${name}`, "", ...sections.flatMap((section) => toSection(section, find)));
  }
  return lines.join("\n");
}

/** The sources of an entry, one for each of its conditions. */
function sourcesOf(conditions) {
  if (typeof conditions !== "object") return [];
  const { "@sluice/source": source, ...nested } = conditions;
  return source === undefined ? Object.values(nested).flatMap(sourcesOf) : [source];
}

/** Whether a specifier is of an entry outside of the promise of versions. */
export function isInternal(specifier) {
  return /^(?:@sluice\/[^/]+|sluice|\.)\/internal(?:\/|$)/.test(specifier);
}

/** The published packages of the repository with their public entries. */
export function packagesOf(root) {
  const folder = join(root, "packages");
  return readdirSync(folder).flatMap((name) => {
    const manifest = JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8"));
    if (manifest.private) return [];
    const promised = Object.entries(manifest.exports ?? {}).filter(([key]) => !isInternal(key));
    const entries = promised.flatMap(([key, conditions]) =>
      sourcesOf(conditions).map((file) => ({
        entry: join(manifest.name, key),
        path: join("packages", name, file),
      })),
    );
    return [{ name: manifest.name, entries }];
  });
}

/** Gives the source of an entry of our packages, which other entries import; `undefined` for any other specifier. */
function createResolver(root) {
  const folders = readdirSync(join(root, "packages"));
  const sources = new Map(
    folders.flatMap((folder) => {
      const manifest = JSON.parse(
        readFileSync(join(root, "packages", folder, "package.json"), "utf8"),
      );
      return Object.entries(manifest.exports ?? {}).map(([key, conditions]) => [
        join(manifest.name, key),
        sourcesOf(conditions).map((file) => join("packages", folder, file))[0],
      ]);
    }),
  );
  return (specifier) => sources.get(specifier);
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const read = (path) => {
    try {
      return readFileSync(join(root, path), "utf8");
    } catch {
      return undefined;
    }
  };
  const page = join(root, "docs/reference/options.md");
  const text = toPage(packagesOf(root), read, createResolver(root));
  if (!process.argv.includes("--check")) writeFileSync(page, text);
  else if (read("docs/reference/options.md") !== text) {
    console.error("docs/reference/options.md is stale: node tools/options-reference.mjs");
    process.exit(1);
  } else console.log("options: the page has every docstring");
}
