import type { Members } from "../relay/messages.ts";

/**
 * Origins on this machine that a process named in its answers. They count as its own: it runs here as this user, and could
 * ask them itself.
 */
export interface NamedLoopback {
  /** Remembers the origins in a result. */
  learn(result: Members): void;
  /** What stands for the endpoint of a server that has none; undefined where the user has to trust the link's origin. */
  endpointFor(link: string): URL | undefined;
}

/** Remembers at most 64 origins. Of `trustedOrigins`, those on this machine may be asked over plain HTTP. */
export function createNamedLoopback(trustedOrigins: readonly string[]): NamedLoopback {
  const named = new Set<string>();
  return {
    learn(result) {
      for (const [origin] of JSON.stringify(result).matchAll(loopbackOrigin)) {
        named.add(origin);
        for (const oldest of named) if (named.size > mostNamed) named.delete(oldest);
      }
    },
    endpointFor(link) {
      const { origin } = URL.canParse(link) ? new URL(link) : { origin: "" };
      const trusted = trustedOrigins.find((trustedOrigin) => trustedOrigin.startsWith("http:"));
      const endpoint = named.has(origin) ? origin : trusted;
      return endpoint === undefined ? undefined : new URL(endpoint);
    },
  };
}

const mostNamed = 64;
const loopbackOrigin = /http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):\d{1,5}(?!\d)/g;
