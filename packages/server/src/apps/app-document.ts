import { bytesOfHex, createSha256, encodeBase64 } from "@sluice/core/internal";
import { html } from "../http/html.ts";

/** The script and the style of an App, and the endpoint that it connects to. */
interface AppParts {
  readonly title: string;
  /** Neither has the end tag of its element in it. */
  readonly script: string;
  readonly style: string;
  readonly endpointUrl: string;
}

/**
 * The document of an App: hosts take one file, so script and style are inside, let in by their hashes. Whatever the host
 * allows, nothing else runs, and nothing is loaded from elsewhere than the endpoint's origin.
 */
export function appDocument({ title, script, style, endpointUrl }: AppParts): string {
  const policy = [
    "default-src 'none'",
    `script-src '${sourceHash(script)}'`,
    `style-src '${sourceHash(style)}'`,
    `connect-src ${new URL(endpointUrl).origin}`,
    "form-action 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8" />',
    html`<meta http-equiv="Content-Security-Policy" content="${policy}" />`.text,
    '<meta name="viewport" content="width=device-width, initial-scale=1" />',
    html`<title>${title}</title>`.text,
    // as they were hashed: a space more would keep them out
    `<style>${style}</style></head><body>`,
    html`<main data-endpoint="${endpointUrl}"></main>`.text,
    '<p class="unseen" id="status" role="status"></p>',
    `<script>${script}</script></body></html>`,
  ].join("");
}

function sourceHash(text: string): string {
  const hash = createSha256();
  hash.update(new TextEncoder().encode(text));
  return `sha256-${encodeBase64(bytesOfHex(hash.digest()))}`;
}
