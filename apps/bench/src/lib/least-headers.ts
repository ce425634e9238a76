import { basename } from "node:path";

/** As many headers as an answer of Sluice has, with values as long: names and values in turn. */
export function leastHeaders(path: string, bytes: number): string[] {
  const name = basename(path);
  return [
    "Content-Type",
    "application/octet-stream",
    "Content-Disposition",
    `attachment; filename="${name}"`,
    "MCP-Resource-Uri",
    `files://bench/${name}`,
    "Accept-Ranges",
    "bytes",
    "Content-Length",
    String(bytes),
    "ETag",
    '"0123456789abcdefghijklmnopq"',
    "Last-Modified",
    new Date(0).toUTCString(),
    "Cache-Control",
    "private, no-store, no-transform",
    "X-Content-Type-Options",
    "nosniff",
    "Content-Security-Policy",
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy",
    "same-origin",
    "Referrer-Policy",
    "no-referrer",
    "X-Robots-Tag",
    "noindex, nofollow",
    "Vary",
    "Origin",
  ];
}
