// Builds a static, searchable site of README.md, docs/ and the READMEs of packages, with VitePress: the pages are the same files,
// and links to anything else lead to the repository.
//   node tools/build-site.mjs FOLDER [BASE]     BASE: path below which it is served; default: /
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";
import { slugOf } from "./manifests.mjs";
import { plainSettings, run, stopAll } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const generator = "vitepress@1.6.4";
const isPage =
  /^(?:README|SECURITY|CONTRIBUTING|CODE_OF_CONDUCT)\.md$|^docs\/.*\.md$|^packages\/[^/]+\/README\.md$|^apps\/cluster\/README\.md$|^e2e\/README\.md$/;

/** Where a page stands in the site: a README is the index of its folder. */
export const placeOf = (path) => path.replace(/(^|\/)README\.md$/, "$1index.md");

/** A page for the site: links to `pages` lead to their places, those to other files to the repository; comments are left out. */
export function pageText(path, markdown, pages, repository) {
  const parts = markdown.split(/^(```[\s\S]*?^```)$/m);
  return parts
    .map((part) =>
      part.startsWith("```")
        ? part
        : part.replaceAll(/<!--[\s\S]*?-->/g, "").replaceAll(/\]\(([^)\s#]+)(#[^)\s]*)?\)/g, link),
    )
    .join("");

  function link(whole, target, anchor = "") {
    if (/^[a-z]+:/.test(target)) return whole;
    const to = normalize(join(dirname(path), target)).replace(/\/$/, "");
    const page = pages.has(to) ? to : pages.has(`${to}/README.md`) ? `${to}/README.md` : undefined;
    if (page) return `](/${placeOf(page)}${anchor})`;
    if (to.endsWith(".svg")) return whole;
    return `](${repository}/${/\.\w+$/.test(to) ? "blob" : "tree"}/main/${to}${anchor})`;
  }
}

/** The groups of the sidebar, from the sections of the table of contents. */
export function sidebarOf(contents) {
  return contents
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      text: section.split("\n", 1)[0],
      collapsed: true,
      items: [...section.matchAll(/\[([^\]]+)\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g)].map(
        ([, text, target]) => ({
          text: text.charAt(0).toUpperCase() + text.slice(1),
          link: `/${placeOf(normalize(join("docs", target)))}`,
        }),
      ),
    }));
}

async function build(folder, output, base) {
  const tracked = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" }).split("\n");
  const pages = new Set(tracked.filter((path) => isPage.test(path)));
  const slug = slugOf(JSON.parse(readFileSync(join(root, "package.json"), "utf8")));
  const repository = `https://github.com/${slug}`;
  const source = join(folder, "pages");
  for (const path of pages) {
    const to = join(source, placeOf(path));
    mkdirSync(dirname(to), { recursive: true });
    const markdown = readFileSync(join(root, path), "utf8");
    writeFileSync(to, pageText(path, markdown, pages, repository));
  }
  for (const path of tracked.filter((each) => /^docs\/.*\.svg$/.test(each)))
    cpSync(join(root, path), join(source, path));
  const settings = {
    title: "Sluice",
    description: "Files over MCP without base64",
    base,
    cleanUrls: true,
    themeConfig: {
      search: { provider: "local" },
      sidebar: sidebarOf(readFileSync(join(root, "docs/README.md"), "utf8")),
      socialLinks: [{ icon: "github", link: repository }],
      outline: "deep",
    },
  };
  mkdirSync(join(source, ".vitepress"), { recursive: true });
  const reading = join(root, "tools/site-markdown.mjs");
  writeFileSync(
    join(source, ".vitepress/config.mjs"),
    [
      `import { markdown } from ${JSON.stringify(reading)};`,
      `export default { ...${JSON.stringify({ ...settings, outDir: output })}, markdown };`,
    ].join("\n"),
  );
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const env = plainSettings();
  await run(`npm install --no-audit --no-fund --loglevel=error ${generator}`, folder, env);
  // a link to a page that is not there ends it
  await run("npx vitepress build pages", folder, env);
  return pages.size;
}

if (isMain(import.meta.url)) {
  const [, , output = "site", base = "/"] = process.argv;
  const folder = mkdtempSync(join(tmpdir(), "sluice-site-"));
  try {
    console.log(`${output}: ${await build(folder, resolve(output), base)} pages`);
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}
