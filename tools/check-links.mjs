// Fails on a relative link in our Markdown that leads to no file, or to no heading of its page.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

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

/** Findings for one page; `read` gives a file's text, "" for a folder, or `undefined`. */
export function checkLinks(file, markdown, read) {
  const links = [...withoutFences(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(
    ([, target]) => target,
  );
  return links.flatMap((target) => {
    if (/^[a-z]+:/.test(target)) return [];
    const [path, anchor] = target.split("#");
    const to = path ? normalize(join(dirname(file), path)) : file;
    const text = to === file ? markdown : read(to);
    if (text === undefined) return [`${file}: ${target} leads nowhere`];
    if (!anchor || anchorsOf(text).has(anchor)) return [];
    return [`${file}: ${target} names no heading`];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const read = (path) => {
    const full = join(root, path);
    if (!existsSync(full)) return undefined;
    return statSync(full).isDirectory() ? "" : readFileSync(full, "utf8");
  };
  const listed = ["ls-files", "*.md", "--cached", "--others", "--exclude-standard"];
  const files = execFileSync("git", listed, { cwd: root, encoding: "utf8" }).split("\n");
  const findings = [...new Set(files)]
    .filter((file) => file && !file.startsWith(".changeset/") && existsSync(join(root, file)))
    .flatMap((file) => checkLinks(file, read(file), read));
  findings.forEach((finding) => console.error(finding));
  if (findings.length > 0) process.exit(1);
  console.log("links: every one leads to a file and a heading");
}
