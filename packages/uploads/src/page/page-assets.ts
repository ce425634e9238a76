import { createSha256 } from "@sluice/core";
import { script, style } from "./browser-files.ts";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join("; ");

const shield = [
  "X-Content-Type-Options",
  "nosniff",
  "Referrer-Policy",
  "no-referrer",
  "Cross-Origin-Resource-Policy",
  "same-origin",
] as const;

/** Headers of the page. It holds secrets: no cache keeps it, no site frames it, no referrer names it. */
export const pageHeaders: readonly string[] = [
  "Content-Type",
  "text/html; charset=utf-8",
  "Cache-Control",
  "private, no-store, no-transform",
  "Content-Security-Policy",
  policy,
  "Cross-Origin-Opener-Policy",
  "same-origin",
  "X-Robots-Tag",
  "noindex, nofollow",
  ...shield,
];

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

/** Headers of what the page loads: its name is its content, so it is kept for ever. */
function assetHeaders(type: string, bytes: number): readonly string[] {
  return [
    "Content-Type",
    `${type}; charset=utf-8`,
    "Content-Length",
    String(bytes),
    "Cache-Control",
    "public, max-age=31536000, immutable",
    ...shield,
  ];
}
