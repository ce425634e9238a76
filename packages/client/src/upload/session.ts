import type { FetchLike } from "@sluice/core";
import type { SessionCredentials } from "../net/hop-headers.ts";

/** The server that a client is connected to, with the credentials that its transport uses. */
export interface ClientSession {
  /** The MCP endpoint. */
  readonly endpoint: URL;
  /** The credentials as they are now. */
  credentials(): Promise<SessionCredentials>;
  /** Gives every request to `fetch` as it is, and remembers the credentials of those to the endpoint. */
  watch(fetch: FetchLike): FetchLike;
}

/** Watches one connection. `authorization` is asked before what the requests carried. */
export function createSession(
  endpoint: URL,
  authorization?: () => string | undefined | Promise<string | undefined>,
): ClientSession {
  let seen: SessionCredentials = { endpoint };
  return {
    endpoint,
    async credentials() {
      const now = await authorization?.();
      return now === undefined ? seen : { ...seen, authorization: now };
    },
    watch: (fetch) => (input, init) => {
      // discovery and sign-in go through the same fetch, to other addresses
      if (new URL(input).href === endpoint.href) {
        const headers = new Headers(init?.headers);
        seen = {
          endpoint,
          authorization: headers.get("authorization") ?? undefined,
          sessionId: headers.get("mcp-session-id") ?? undefined,
        };
      }
      return fetch(input, init);
    },
  };
}
