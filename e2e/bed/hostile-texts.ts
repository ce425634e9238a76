/** Sets `globalThis.hit`, if it ever runs, and asks another origin for something. */
const run = "globalThis.hit=1;fetch('https://evil.example/')";

/** Texts that would run where text becomes markup, a URL or a style. */
export const hostileTexts: readonly string[] = [
  `<script>${run}</script>`,
  `"><script>${run}</script>`,
  `</script><script>${run}</script>`,
  `<img src=x onerror="${run}">`,
  `'"><img src=https://evil.example/a.png>`,
  `<svg onload="${run}">`,
  `<iframe src="javascript:${run}"></iframe>`,
  `<iframe srcdoc="<script>parent.hit=1</script>"></iframe>`,
  `<a href="javascript:${run}" autofocus onfocus="${run}">x</a>`,
  `</title><script>${run}</script>`,
  `</style><script>${run}</script>`,
  `<!--><script>${run}</script>`,
  `<style>@import "https://evil.example/a.css"</style>`,
  `<meta http-equiv="refresh" content="0;url=https://evil.example/">`,
  `<base href="https://evil.example/">`,
  `<form action="https://evil.example/"><input name=q></form>`,
  `{{constructor.constructor("${run}")()}}`,
  `javascript:${run}`,
  `\u202Etxt.exe\u2066`,
  `a\u0000b\r\nSet-Cookie: x=1`,
];

/** What may stand where an App looks for a URL of its endpoint. */
export function hostileUrls(endpoint: string): readonly unknown[] {
  const { host, origin } = new URL(endpoint);
  return [
    "https://evil.example/",
    `https://evil.example/${endpoint}/`,
    `//evil.example/mcp/`,
    `${origin}.evil.example/mcp/`,
    `${origin}@evil.example/mcp/`,
    `https://${host}@evil.example/mcp/`,
    `${endpoint}.evil.example/`,
    `${endpoint}@evil.example/`,
    `${endpoint}?/upload-page/app/x`,
    `${endpoint}#/upload-page/app/x`,
    endpoint,
    origin,
    `javascript:${run}`,
    `data:text/html,<script>${run}</script>`,
    "blob:https://evil.example/1",
    "",
    null,
    7,
    [`${endpoint}/upload-page/app/x`],
    { toString: "x", url: endpoint },
  ];
}

/** Messages of the window around an App that nothing must come of. */
export const hostileMessages: readonly unknown[] = [
  null,
  7,
  "",
  `<script>${run}</script>`,
  [],
  {},
  { jsonrpc: "2.0" },
  { jsonrpc: "2.0", id: 1, result: null },
  { jsonrpc: "2.0", id: { a: 1 }, method: "ping" },
  { jsonrpc: "2.0", id: 9, method: "eval", params: { code: run } },
  { jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: run } },
  { jsonrpc: "2.0", method: "ui/notifications/tool-result" },
  { jsonrpc: "2.0", method: "ui/notifications/tool-result", params: { _meta: "x" } },
  { jsonrpc: "2.0", method: "ui/notifications/host-context-changed", params: null },
  ...[
    { theme: `dark"><script>${run}</script>` },
    { theme: { toString: run } },
    { styles: { variables: { "--color-text-primary": "url(https://evil.example/a.png)" } } },
    { styles: { variables: { "--font-sans": "x;background:url(https://evil.example/b.png)" } } },
    { styles: { css: { fonts: '@import "https://evil.example/a.css"' } } },
    { safeAreaInsets: { top: "1px;background:url(https://evil.example/c.png)" } },
  ].map((params) => ({
    jsonrpc: "2.0",
    method: "ui/notifications/host-context-changed",
    params,
  })),
];
