// Every TypeScript fence in our Markdown is a copy of a file, or of a region of one, that is compiled
// and executed elsewhere:   ```ts source=e2e/examples/server.ts#attach
// Fails on a fence that names no source or differs from it; `--write` copies the sources in.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const fence = /^```ts([^\n]*)\n([\s\S]*?)^```$/gm;

/** The text between `// #region name` and its `// #endregion`, without the indentation they share. */
export function region(source, name) {
  const lines = source.split("\n");
  const start = lines.findIndex((line) => line.trim() === `// #region ${name}`);
  if (start < 0) return undefined;
  const end = lines.findIndex((line, i) => i > start && line.trim().startsWith("// #endregion"));
  const body = lines.slice(start + 1, end);
  const indents = body.filter((line) => line.trim()).map((line) => line.search(/\S/));
  return body.map((line) => line.slice(Math.min(...indents))).join("\n") + "\n";
}

/** Findings for one Markdown text, and that text with every fence brought up to date. */
export function checkSnippets(file, markdown, read) {
  const findings = [];
  const text = markdown.replace(fence, (whole, info, code, offset) => {
    const line = markdown.slice(0, offset).split("\n").length;
    const [, path, , name] = /^ source=([^#\s]+)(#(\S+))?$/.exec(info) ?? [];
    if (path === undefined) {
      findings.push(`${file}:${line}: a ts fence without source=FILE#region; nothing runs it`);
      return whole;
    }
    const source = read(path);
    const want = source === undefined || name === undefined ? source : region(source, name);
    if (want === undefined) {
      findings.push(
        `${file}:${line}: ${path}${name ? ` has no region "${name}"` : " is not there"}`,
      );
      return whole;
    }
    if (want !== code)
      findings.push(`${file}:${line}: differs from ${path}${name ? `#${name}` : ""}`);
    return "```ts" + info + "\n" + want + "```";
  });
  return { findings, text };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const read = (path) => {
    try {
      return readFileSync(join(root, path), "utf8");
    } catch {
      return undefined;
    }
  };
  const files = execFileSync(
    "git",
    ["ls-files", "*.md", "--cached", "--others", "--exclude-standard"],
    { cwd: root, encoding: "utf8" },
  )
    .split("\n")
    .filter((file) => file && !file.endsWith("CHANGELOG.md") && !file.startsWith(".changeset/"));
  let broken = 0;
  for (const file of new Set(files)) {
    const markdown = read(file);
    if (markdown === undefined) continue;
    const { findings, text } = checkSnippets(file, markdown, read);
    if (process.argv.includes("--write") && text !== markdown)
      writeFileSync(join(root, file), text);
    else findings.forEach((finding) => console.error(finding));
    broken += findings.length;
  }
  if (broken > 0 && !process.argv.includes("--write")) process.exit(1);
  if (broken === 0) console.log("snippets: every fence is the file it names");
}
