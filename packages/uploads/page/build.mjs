// Bundles the scripts and the styles of the upload page and of its App, and writes them to src/page/browser-files.ts:
//   node packages/uploads/page/build.mjs
import { fileURLToPath } from "node:url";
import { bundleApp, bundlePage, writeBrowserFiles } from "../../../tools/browser-files.mjs";
import { isMain } from "../../../tools/is-main.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const styles = ["../../transport-http/page/base.css", "style.css"];

/** Scripts and styles as they are served. */
export async function bundle() {
  const page = await bundlePage({ entry: here("main.ts"), styles: styles.map(here) });
  const appStyles = [...styles, "../../transport-http/page/app.css"];
  const app = await bundleApp({ entry: here("app.ts"), styles: appStyles.map(here) });
  return { ...page, appScript: app.script, appStyle: app.style };
}

if (isMain(import.meta.url))
  await writeBrowserFiles(here("../src/page/browser-files.ts"), await bundle());
