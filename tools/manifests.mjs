// Writes what the manifests of all packages share: repository, homepage, bugs, author, keywords, and the name in the MCP
// registry. The one source is the package.json of this repository; after its `repository` changes, every link to the old one
// in a tracked file follows.
//   node tools/manifests.mjs [--check]     --check writes nothing and fails for a file that differs
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

/** The package that the MCP registry names. */
const registryPackage = "sluice";

/** `owner/name` of a repository field on GitHub. Throws for any other. */
export function slugOf({ repository }) {
  const [, slug] =
    /^git\+https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\.git$/.exec(repository?.url) ?? [];
  if (slug === undefined)
    throw new Error("package.json: write repository.url as git+https://github.com/OWNER/NAME.git");
  return slug;
}

/** What the package in a folder takes from the manifest of the repository; keywords of its own stay. */
export function sharedFields(root, folder, { name, keywords = [] }) {
  const slug = slugOf(root);
  const home = `https://github.com/${slug}`;
  return {
    keywords: [...new Set([...root.keywords, ...keywords])].toSorted((a, b) => (a < b ? -1 : 1)),
    homepage: `${home}/tree/main/${folder}#readme`,
    bugs: `${home}/issues`,
    license: root.license,
    author: root.author,
    repository: { ...root.repository, directory: folder },
    ...(name === registryPackage && { mcpName: `io.github.${slug}` }),
  };
}

/** A manifest with shared fields, in the order that the formatter gives them. */
function withShared({ name, version, description, ...own }, { mcpName, ...shared }) {
  const rest = Object.entries(own).filter(([key]) => key !== "mcpName" && !(key in shared));
  return { name, version, description, ...shared, ...Object.fromEntries(rest), mcpName };
}

/** A text whose links, registry names, images and code owners of one repository are those of another. */
export function moveLinks(text, from, to) {
  const [owner, newOwner] = [from, to].map((slug) => slug.split("/")[0]);
  const prefixes = ["github.com/", "io.github.", "ghcr.io/"];
  const moved = prefixes.reduce(
    (moving, prefix) =>
      moving.split(prefix + from).reduce((before, after) => {
        const isWhole = !/^[\w-]/.test(after);
        return before + prefix + (isWhole ? to : from) + after;
      }),
    text,
  );
  return moved.replaceAll(`@${owner}/`, `@${newOwner}/`);
}

const isText = /(?:\.(?:md|json|ya?ml|mjs|ts|html|txt)|CODEOWNERS|Dockerfile)$/;

/** Every file of `{ path: text }` that differs, by its path, with the text that it should have. */
export function staleFiles(files) {
  const root = JSON.parse(files["package.json"]);
  const to = slugOf(root);
  // the manifests were written for the repository that the other files still name
  const from = slugOf(JSON.parse(files[`packages/${registryPackage}/package.json`]));
  const wanted = (path, text) => {
    const [, folder] = /^(packages\/[^/]+)\/package\.json$/.exec(path) ?? [];
    if (folder === undefined) return path === "package.json" ? text : moveLinks(text, from, to);
    const manifest = JSON.parse(text);
    const written = withShared(manifest, sharedFields(root, folder, manifest));
    return `${JSON.stringify(written, undefined, 2)}\n`;
  };
  return Object.fromEntries(
    Object.entries(files)
      .map(([path, text]) => [path, wanted(path, text)])
      .filter(([path, text]) => text !== files[path]),
  );
}

if (isMain(import.meta.url)) {
  const folder = dirname(dirname(fileURLToPath(import.meta.url)));
  const tracked = execFileSync("git", ["ls-files"], { cwd: folder, encoding: "utf8" });
  const paths = tracked.split("\n").filter((path) => isText.test(path));
  const files = Object.fromEntries(
    paths.map((path) => [path, readFileSync(join(folder, path), "utf8")]),
  );
  const stale = staleFiles(files);
  if (process.argv[2] !== "--check") {
    for (const [path, text] of Object.entries(stale)) writeFileSync(join(folder, path), text);
  } else if (Object.keys(stale).length > 0) {
    for (const path of Object.keys(stale)) console.error(`${path}: run node tools/manifests.mjs`);
    process.exit(1);
  }
  console.log(`manifests: ${Object.keys(stale).length} files differed`);
}
