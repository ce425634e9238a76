// Writes llms.txt (https://llmstxt.org): every page of the documentation for programs, in the order of docs/README.md.
// `--check` writes nothing, and fails if the file differs.
//   node tools/llms-text.mjs [--check]
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";
import { slugOf } from "./manifests.mjs";

const contents = "docs/README.md";
/** The section that a program without room may leave out. */
const optional = "Contributing";

/** The pages that a text in `folder` links to, in order: `{ text, path }`. Those of a list in a folder of its own follow it. */
function pagesOf(markdown, folder, read) {
  const links = [...markdown.matchAll(/\[([^\]]+)\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g)];
  return links.flatMap(([, text, target]) => {
    const path = normalize(join(folder, target));
    const isList = /^docs\/\w+\/README\.md$/.test(path) && folder === dirname(contents);
    const below = isList ? pagesOf(read(path), dirname(path), read) : [];
    return [{ text, path }, ...below.filter((page) => dirname(page.path) === dirname(path))];
  });
}

/** The text of llms.txt; `read` gives the text of a page. */
export function llmsText(read, base) {
  const listed = new Set();
  const lines = read(contents)
    .split(/^## /m)
    .slice(1)
    .flatMap((section) => {
      const heading = section.split("\n", 1)[0];
      const pages = pagesOf(section, dirname(contents), read);
      const news = pages.filter(({ path }) => !listed.has(path) && listed.add(path));
      const links = news.map(({ text, path }) => {
        const name = text.charAt(0).toUpperCase() + text.slice(1);
        return `- [${name}](${base}${path})`;
      });
      return [`## ${heading === optional ? "Optional" : heading}`, "", ...links, ""];
    });
  return [
    "# Sluice",
    "",
    "> Files over the Model Context Protocol without base64: links, streams and uploads over plain HTTP, for any host.",
    "",
    `The [agent skill](${base}skills/sluice/SKILL.md) is the shortest way to a result.`,
    "",
    ...lines,
  ].join("\n");
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const read = (path) => readFileSync(join(root, path), "utf8");
  const base = `https://github.com/${slugOf(JSON.parse(read("package.json")))}/raw/main/`;
  const text = llmsText(read, base);
  if (process.argv[2] !== "--check") writeFileSync(join(root, "llms.txt"), text);
  else if (read("llms.txt") !== text) {
    console.error("llms.txt: run node tools/llms-text.mjs");
    process.exit(1);
  }
  console.log(`llms.txt: ${text.split("\n").filter((line) => line.startsWith("- ")).length} pages`);
}
