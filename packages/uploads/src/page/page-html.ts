import { html, pageAsset, type Html, type PageAsset } from "@sluice/server/internal";
import { codeOf } from "../slots/upload-error.ts";
import { script, style } from "./browser-files.ts";
import { fieldHtml } from "./field-html.ts";
import { endings } from "./page-endings.ts";
import type { OpenPage, UnansweredPage, SettledPage } from "./upload-pages.ts";

/** Where the files go, for people. */
export interface PageSite {
  /** Of the server; absent if it has none. */
  readonly name: string | undefined;
  /** Host and port of its endpoint. */
  readonly host: string;
}

/** The page of a question, or what became of it. */
export function pageOf(page: OpenPage, site: PageSite): string {
  return page.phase === "open" ? questionPage(page, site) : settledPage(page);
}

function questionPage({ question, expiresAt }: UnansweredPage, site: PageSite): string {
  const { message, requestedSchema } = question;
  const required = new Set(requestedSchema.required);
  const fields = Object.entries(requestedSchema.properties).map(([name, schema], n) =>
    fieldHtml({
      id: `field-${n}`,
      name,
      schema,
      isRequired: required.has(name),
      endpoint: question.uploadEndpoints[name],
    }),
  );
  return documentOf(
    `Send files to ${site.name ?? site.host}`,
    html`<form class="card" id="question" novalidate data-expires-at="${expiresAt}">
        <header>
          <p class="host">
            <span class="dot" aria-hidden="true"></span
            >${site.name !== undefined && html`<bdi class="site">${site.name}</bdi> `}${site.host}
          </p>
          <h1>Send files</h1>
          <p class="message" id="message"><bdi>${message}</bdi></p>
        </header>
        <noscript
          ><p class="notice">
            This page needs JavaScript to send files. Please switch it on and load the page again.
          </p></noscript
        >
        ${fields}
        <div class="banner" id="banner" role="alert" tabindex="-1" hidden></div>
        <footer>
          <p class="fine" id="fine">
            Only go on if you asked for this yourself. <span id="expiry"></span>
          </p>
          <div class="actions">
            <button type="button" class="quiet" id="decline">Don’t send</button>
            <button type="submit" class="primary" id="done">Done</button>
          </div>
        </footer>
      </form>
      <p class="unseen" id="status" role="status"></p>`,
  );
}

/** The script goes on with it while the tool has not said how it ended. */
export function settledPage({ phase }: SettledPage): string {
  const { heading, sentence } = endings[phase];
  return documentOf(
    heading,
    html`<div class="notice-page" id="ending" data-phase="${phase}">
        <h1 tabindex="-1">${heading}</h1>
        <p>${sentence}</p>
      </div>
      <p class="unseen" id="status" role="status"></p>`,
  );
}

/** What stands in place of a page that cannot be shown. */
export function failurePage(error: unknown): { status: number; text: string } {
  const [status, heading, sentence] = failures[codeOf(error)] ?? [
    503,
    "Not available right now",
    "The server could not show this page. Please wait a moment and load it again.",
  ];
  return { status, text: noticePage(heading, sentence) };
}

const failures: Readonly<Record<string, readonly [number, string, string]>> = {
  throttled: [
    429,
    "Too many tries",
    "Links that do not work were opened too often. Please wait a minute and open yours again.",
  ],
  not_found: [
    404,
    "This link does not work",
    "Check that you opened the whole link, or go back to where you got it and ask for a new one.",
  ],
  expired: [
    410,
    "This link has expired",
    "Links to send files are good for a short time. Go back to where you got it and ask for a new one.",
  ],
};

function noticePage(heading: string, sentence: string): string {
  return documentOf(
    heading,
    html`<div class="notice-page">
      <h1>${heading}</h1>
      <p>${sentence}</p>
    </div>`,
  );
}

function documentOf(title: string, content: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex, nofollow" />
        <title>${title}</title>
        <link rel="icon" type="image/svg+xml" href="${pageAssets.icon.path}" />
        <link rel="stylesheet" href="${pageAssets.style.path}" />
        <script type="module" src="${pageAssets.script.path}"></script>
      </head>
      <body>
        <main>${content}</main>
      </body>
    </html> `.text;
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  // the files page, which hands it files
  "frame-ancestors 'self'",
  "base-uri 'none'",
].join("; ");

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
  "X-Content-Type-Options",
  "nosniff",
  "Referrer-Policy",
  "no-referrer",
  "Cross-Origin-Resource-Policy",
  "same-origin",
];

/** Below it, relative to a page, lie the files that it loads. */
const assetsPath = "assets/";

interface Asset extends PageAsset {
  /** Relative to the page. */
  readonly path: string;
}

/** An arrow into a tray. */
const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2550d6"/><path d="M8 10V3.8M5.2 6.4 8 3.6l2.8 2.8M4 9.5v2A1.5 1.5 0 0 0 5.5 13h5a1.5 1.5 0 0 0 1.5-1.5v-2" fill="none" stroke="#fff" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/></svg>';

/** The files that the page loads. */
export const pageAssets: Readonly<Record<"script" | "style" | "icon", Asset>> = {
  script: assetOf(pageAsset("js", script)),
  style: assetOf(pageAsset("css", style)),
  icon: assetOf(pageAsset("svg", icon)),
};

function assetOf(asset: PageAsset): Asset {
  return { ...asset, path: assetsPath + asset.name };
}
