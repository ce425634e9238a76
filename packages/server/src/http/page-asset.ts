import { createSha256 } from "@sluice/core/internal";

/** A script, a style or an icon that a page loads, under a name that holds the hash of its content. */
export interface PageAsset {
  readonly name: string;
  readonly text: string;
  readonly headers: readonly string[];
}

const types = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" } as const;

/** Its name is its content, so it is kept for ever. */
export function pageAsset(extension: keyof typeof types, text: string): PageAsset {
  const bytes = new TextEncoder().encode(text);
  const hash = createSha256();
  hash.update(bytes);
  return {
    name: `page-${hash.digest().slice(0, 16)}.${extension}`,
    text,
    headers: [
      "Content-Type",
      `${types[extension]}; charset=utf-8`,
      "Content-Length",
      String(bytes.length),
      "Cache-Control",
      "public, max-age=31536000, immutable",
      "X-Content-Type-Options",
      "nosniff",
      "Referrer-Policy",
      "no-referrer",
      "Cross-Origin-Resource-Policy",
      "same-origin",
    ],
  };
}
