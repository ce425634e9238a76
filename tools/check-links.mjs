// Fails on a relative link in our Markdown that leads to no file, or to no heading of its page, and on a path of
// the repository between backticks that is not there. `--fix` follows a file that has moved, where one tracked
// file alone has its name.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

const withoutFences = (markdown) => markdown.replaceAll(/^```[\s\S]*?^```$/gm, "");

/** The anchors of a page, as GitHub makes them of its headings. */
export function anchorsOf(markdown) {
  return new Set(
    [...withoutFences(markdown).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
      heading
        .trim()
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_\- ]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** Paths between backticks, from the root of the repository. `tools/call` is a method of MCP. */
const paths = /`((?:apps|docs|e2e|packages)\/[\w./-]+|(?:templates|tools)\/[\w./-]+\.\w+)`/g;

/** Findings for one page; `read` gives a file's text, "" for a folder, or `undefined`. */
export function checkLinks(file, markdown, read) {
  const links = [...withoutFences(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(
    ([, target]) => target,
  );
  const wrong = links.flatMap((target) => {
    if (/^[a-z]+:/.test(target)) return [];
    const [path, anchor] = target.split("#");
    const to = path ? normalize(join(dirname(file), path)) : file;
    const text = to === file ? markdown : read(to);
    if (text === undefined) return [`${file}: ${target} leads nowhere`];
    if (!anchor || anchorsOf(text).has(anchor)) return [];
    return [`${file}: ${target} names no heading`];
  });
  const lost = [...withoutFences(markdown).matchAll(paths)]
    .filter(([, path]) => read(normalize(path)) === undefined)
    .map(([, path]) => `${file}: there is no ${path}`);
  return [...wrong, ...lost];
}

/** The page with links to moved files mended; `files` are the tracked ones. */
export function followMoves(file, markdown, read, files) {
  return markdown.replaceAll(/\]\(([^)\s#]+)(#[^)\s]*)?\)/g, (whole, path, anchor = "") => {
    const to = normalize(join(dirname(file), path));
    if (/^[a-z]+:/.test(path) || read(to) !== undefined) return whole;
    const found = files.filter((name) => basename(name) === basename(path));
    return found.length === 1 ? `](${relative(dirname(file), found[0])}${anchor})` : whole;
  });
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const read = (path) => {
    const full = join(root, path);
    if (!existsSync(full)) return undefined;
    return statSync(full).isDirectory() ? "" : readFileSync(full, "utf8");
  };
  const listed = (...patterns) =>
    execFileSync("git", ["ls-files", ...patterns, "--cached", "--others", "--exclude-standard"], {
      cwd: root,
      encoding: "utf8",
    })
      .split("\n")
      .filter((file) => file && existsSync(join(root, file)));
  const pages = [...new Set(listed("*.md"))].filter((file) => !file.startsWith(".changeset/"));
  const files = process.argv.includes("--fix") ? [...new Set(listed())] : [];
  const findings = pages.flatMap((file) => {
    const text = read(file);
    const mended = followMoves(file, text, read, files);
    if (mended !== text) writeFileSync(join(root, file), mended);
    return checkLinks(file, mended, read);
  });
  findings.forEach((finding) => console.error(finding));
  if (findings.length > 0) process.exit(1);
  console.log("links: every one leads to a file and a heading");
}
