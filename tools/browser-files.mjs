// Bundles the script and the style of a page, and writes them as the constants of a module, as the server sends them.
import { readFile, writeFile } from "node:fs/promises";
import { build } from "vite";

/** Script and style as they are served. `entry` and `styles` are paths. */
export async function bundlePage({ entry, styles }) {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", "module", "browser"] },
    build: {
      write: false,
      minify: true,
      target: "es2022",
      lib: { entry, formats: ["iife"], name: "page", fileName: "page" },
    },
  });
  const [{ output }] = [built].flat();
  const texts = await Promise.all(styles.map((path) => readFile(path, "utf8")));
  return { script: output[0].code, style: texts.map(compact).join("") };
}

/** The same for an App, which is one document: its host names the theme, not the browser. */
export async function bundleApp(parts) {
  const { script, style } = await bundlePage(parts);
  const themed = style.replace(
    /@media \(prefers-color-scheme: dark\) \{\s*:root (\{[^{}]*\})\s*\}/g,
    ':root[data-theme="dark"] $1',
  );
  if (themed.includes("prefers-color-scheme"))
    throw new Error("a style for dark themes is not a block of :root alone");
  if (/<\/style|<\/script|<!--/i.test(script + themed))
    throw new Error("the script or the style would end its element");
  return { script, style: themed };
}

/** Without comments and indentation. */
function compact(style) {
  return style.replace(/\/\*.*?\*\//gs, "").replace(/^\s+/gm, "");
}

/** Writes them to a module. */
export async function writeBrowserFiles(path, files) {
  const lines = Object.entries(files).map(
    ([name, text]) => `export const ${name}: string = ${JSON.stringify(text)};`,
  );
  const head = "// Made by page/build.mjs from the files beside it.";
  await writeFile(path, [head, ...lines, ""].join("\n"));
}
