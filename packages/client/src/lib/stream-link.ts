/** The first `rel="stream"` link of a `Link` header (RFC 8288). */
export function streamLink(headers: Headers): string | undefined {
  for (const [, target, parameters] of (headers.get("link") ?? "").matchAll(link))
    if (/;\s*rel\s*=\s*(?:"stream"|stream)\s*(?:;|$)/i.test(parameters ?? "")) return target;
  return undefined;
}

const link = /<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)/g;
