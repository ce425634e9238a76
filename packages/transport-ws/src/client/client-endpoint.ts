import { isClearUrl } from "@sluice/core/internal";

/** The facts of a server before anything is sent to it. */
interface ClientEndpoint {
  readonly url: URL;
  /** Origin of its HTTP side. */
  readonly downloads: URL;
}

/**
 * Reads the address of a server and of its downloads. A `TypeError` for an invalid WebSocket URL,
 * and for secrets that would go over a network in the clear.
 */
export function readClientEndpoint(
  url: string | URL,
  { downloads, hasSecret }: { downloads: string | URL | undefined; hasSecret: boolean },
): ClientEndpoint {
  const socketUrl = new URL(url);
  if (!/^wss?:$/.test(socketUrl.protocol) || socketUrl.hash)
    throw new TypeError("ws: url must begin with wss: or ws:, and have no fragment");
  const httpUrl = new URL(downloads ?? socketUrl.href.replace(/^ws/, "http"));
  for (const each of [socketUrl, httpUrl])
    if (hasSecret && isClearUrl(each))
      throw new TypeError(
        `ws: credentials do not go to ${each.hostname} in the clear; use wss: and https:`,
      );
  return { url: socketUrl, downloads: new URL(httpUrl.origin) };
}
