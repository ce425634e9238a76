import { linkWith, STREAM_RELATION } from "@sluice/core/internal";

/** `Link` header of a response whose stream continues at a URL. */
export function formatStreamLink(url: string): string {
  return `<${url}>; rel="${STREAM_RELATION}"`;
}

/** The link of a response. One to another origin than the endpoint's is ignored: credentials stay there (SEP-1335). */
export function streamLinkOf(headers: Headers, endpoint: URL): URL | undefined {
  const target = linkWith(headers, STREAM_RELATION);
  if (target === undefined || !URL.canParse(target, endpoint.href)) return undefined;
  const link = new URL(target, endpoint);
  const isSafe = link.origin === endpoint.origin && link.username === "" && link.password === "";
  return isSafe ? link : undefined;
}
