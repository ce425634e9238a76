import { createSha256 } from "@sluice/core";
import { script, style } from "./browser-files.ts";
import { assetHeaders } from "./page-headers.ts";

/** A file that the page loads. */
interface Asset {
  /** Relative to the page. It holds the hash of the content. */
  readonly path: string;
  readonly text: string;
  readonly headers: readonly string[];
}

/** The files that the page loads. */
export interface PageAssets {
  readonly script: Asset;
  readonly style: Asset;
}

/** Below it, relative to a page, lie the files that it loads. */
const assetsPath = "assets/";

export const pageAssets: PageAssets = {
  script: assetOf("page", "js", "text/javascript", script),
  style: assetOf("page", "css", "text/css", style),
};

function assetOf(name: string, extension: string, type: string, text: string): Asset {
  const bytes = new TextEncoder().encode(text);
  const hash = createSha256();
  hash.update(bytes);
  const path = `${assetsPath}${name}-${hash.digest().slice(0, 16)}.${extension}`;
  return { path, text, headers: assetHeaders(type, bytes.length) };
}
