import type { FetchLike } from "@sluice/core";

/** The server that a client is connected to, and the credentials that it uses. */
export interface UploadSession {
  /** The MCP endpoint: nothing of this ever leaves its origin. */
  readonly endpoint: URL;
  /** `Authorization` as it is now. */
  authorization(): Promise<string | undefined>;
  /** `Mcp-Session-Id`; only the legacy era has one. */
  sessionId(): string | undefined;
}

/** A session that learns its credentials from the requests of the transport. */
export interface WatchedSession extends UploadSession {
  /** Gives every request to `fetch` as it is, and remembers the credentials of those to the endpoint. */
  readonly watch: (fetch: FetchLike) => FetchLike;
}

/** Watches one connection. `authorization` is asked before what the requests carried. */
export function createSession(
  endpoint: URL,
  authorization?: () => string | undefined | Promise<string | undefined>,
): WatchedSession {
  let seen: { authorization?: string | undefined; sessionId?: string | undefined } = {};
  return {
    endpoint,
    async authorization() {
      return (await authorization?.()) ?? seen.authorization;
    },
    sessionId: () => seen.sessionId,
    watch: (fetch) => (input, init) => {
      // discovery and sign-in go through the same fetch, to other addresses
      if (new URL(input).href === endpoint.href) {
        const headers = new Headers(init?.headers);
        seen = {
          authorization: headers.get("authorization") ?? undefined,
          sessionId: headers.get("mcp-session-id") ?? undefined,
        };
      }
      return fetch(input, init);
    },
  };
}
