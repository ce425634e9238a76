// Bundles the script and the style of the upload page, and writes them to src/page/browser-files.ts:
//   node packages/uploads/page/build.mjs
import { fileURLToPath } from "node:url";
import { bundlePage, writeBrowserFiles } from "../../../tools/browser-files.mjs";
import { isMain } from "../../../tools/is-main.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Script and style as they are served. */
export const bundle = () =>
  bundlePage({
    entry: here("main.ts"),
    styles: ["../../transport-http/page/base.css", "style.css"].map(here),
  });

if (isMain(import.meta.url))
  await writeBrowserFiles(here("../src/page/browser-files.ts"), await bundle());
