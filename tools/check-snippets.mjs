// Every TypeScript fence in our Markdown is a copy of a file, or of a region of one, that is compiled
// and executed elsewhere:   ```ts source=e2e/examples/server.ts#attach
// Fails on a fence that names no source, differs from it, or has nothing but imports, and on two regions
// of one name. `--fix` copies the sources in, and follows a source that has moved.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

const fence = /^```ts([^\n]*)\n([\s\S]*?)^```$/gm;

/**
 * The text between `// #region name` and its `// #endregion`, without the indentation they share.
 * Throws a `RangeError` when the source has a second region of that name.
 */
export function region(source, name) {
  const lines = source.split("\n");
  const isStart = (line) => line.trim() === `// #region ${name}`;
  const start = lines.findIndex(isStart);
  if (start < 0) return undefined;
  if (lines.findLastIndex(isStart) !== start) throw new RangeError(`two regions "${name}"`);
  const end = lines.findIndex((line, i) => i > start && line.trim().startsWith("// #endregion"));
  const body = lines.slice(start + 1, end);
  const indents = body.filter((line) => line.trim()).map((line) => line.search(/\S/));
  return body.map((line) => line.slice(Math.min(...indents))).join("\n") + "\n";
}

/** Whether a fence shows no call and no declaration: imports alone. */
export function isImportsOnly(code) {
  const rest = code
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")
    .replaceAll(/^\s*import\b[^;]*;/gm, "")
    .replaceAll(/^\s*const \{[^}]*\} = await import\([^)]*\);/gm, "");
  return rest.trim() === "";
}

/** The source of a fence. Throws a `RangeError` that says why there is none. */
function sourceOf(path, name, read) {
  const source = read(path);
  if (source === undefined) throw new RangeError(`${path} is not there`);
  if (name === undefined) return source;
  try {
    const body = region(source, name);
    if (body !== undefined) return body;
  } catch (error) {
    throw new RangeError(`${path} has ${error.message}`);
  }
  throw new RangeError(`${path} has no region "${name}"`);
}

/**
 * Findings for one Markdown text, and that text with every fence brought up to date. `find(path, name, code)`
 * gives the path to which a source has moved, if there is exactly one.
 */
export function checkSnippets(file, markdown, read, find = () => undefined) {
  const findings = [];
  const text = markdown.replace(fence, (whole, info, code, offset) => {
    const line = markdown.slice(0, offset).split("\n").length;
    const say = (message) => findings.push(`${file}:${line}: ${message}`);
    const [, path, , name] = /^ source=([^#\s]+)(#(\S+))?$/.exec(info) ?? [];
    if (path === undefined) {
      say("a ts fence without source=FILE#region; nothing runs it");
      return whole;
    }
    let from = path;
    let want;
    try {
      want = sourceOf(path, name, read);
    } catch (error) {
      say(error.message);
      from = find(path, name, code);
      if (from === undefined) return whole;
      want = sourceOf(from, name, read);
    }
    if (from === path && want !== code) say(`differs from ${path}${name ? `#${name}` : ""}`);
    if (isImportsOnly(want)) say("a fence of imports only shows nothing");
    return `\`\`\`ts source=${from}${name ? `#${name}` : ""}\n${want}\`\`\``;
  });
  return { findings, text };
}

/** A search for moved sources among `files`: the same file name and region, else the same region and code. */
export function createFinder(files, read) {
  const hasRegion = (file, name) => {
    try {
      return name === undefined || region(read(file) ?? "", name) !== undefined;
    } catch {
      return false;
    }
  };
  return (path, name, code) => {
    const named = files.filter(
      (file) => basename(file) === basename(path) && hasRegion(file, name),
    );
    if (named.length === 1) return named[0];
    if (named.length > 1 || name === undefined) return undefined;
    const others = files.filter(
      (file) => hasRegion(file, name) && region(read(file), name) === code,
    );
    return others.length === 1 ? others[0] : undefined;
  };
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const isFixing = process.argv.includes("--fix");
  const read = (path) => {
    try {
      return readFileSync(join(root, path), "utf8");
    } catch {
      return undefined;
    }
  };
  const filesLike = (pattern) =>
    execFileSync("git", ["ls-files", pattern, "--cached", "--others", "--exclude-standard"], {
      cwd: root,
      encoding: "utf8",
    })
      .split("\n")
      .filter(Boolean);
  const pages = filesLike("*.md").filter(
    (file) => !file.endsWith("CHANGELOG.md") && !file.startsWith(".changeset/"),
  );
  const find = createFinder(isFixing ? [...new Set(filesLike("*.ts"))] : [], read);
  let broken = 0;
  for (const file of new Set(pages)) {
    let markdown = read(file);
    if (markdown === undefined) continue;
    let { findings, text } = checkSnippets(file, markdown, read, find);
    if (isFixing && text !== markdown) {
      writeFileSync(join(root, file), text);
      markdown = text;
      ({ findings } = checkSnippets(file, markdown, read));
    }
    findings.forEach((finding) => console.error(finding));
    broken += findings.length;
  }
  if (broken > 0) process.exit(1);
  console.log("snippets: every fence is the file it names");
}
