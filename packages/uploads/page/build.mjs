// Bundles the script of the upload page and writes it, with its style, to src/page/browser-files.ts:
//   node packages/uploads/page/build.mjs
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Script and style as they are served. */
export async function bundle() {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", "module", "browser"] },
    build: {
      write: false,
      minify: true,
      target: "es2022",
      lib: { entry: here("main.ts"), formats: ["iife"], name: "page", fileName: "page" },
    },
  });
  const [{ output }] = [built].flat();
  const style = await readFile(here("style.css"), "utf8");
  return { script: output[0].code, style: withoutComments(style) };
}

function withoutComments(style) {
  return style.replace(/\/\*.*?\*\//gs, "").replace(/^\s+/gm, "");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lines = Object.entries(await bundle()).map(
    ([name, text]) => `export const ${name}: string = ${JSON.stringify(text)};`,
  );
  const head = "// Made by page/build.mjs from the files beside it.";
  await writeFile(here("../src/page/browser-files.ts"), [head, ...lines, ""].join("\n"));
}
