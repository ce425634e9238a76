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

/** Headers of what the page loads: its name is its content, so it is kept for ever. */
export function assetHeaders(type: string, bytes: number): readonly string[] {
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
