import type { FetchLike } from "../net/fetch-exchange.ts";

/** Whom a client is connected to, and as whom. */
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
  let seen: { authorization?: string; sessionId?: string } = {};
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
          ...optional("authorization", headers.get("authorization")),
          ...optional("sessionId", headers.get("mcp-session-id")),
        };
      }
      return fetch(input, init);
    },
  };
}

function optional<Name extends string>(name: Name, value: string | null): { [N in Name]?: string } {
  return (value === null ? {} : { [name]: value }) as { [N in Name]?: string };
}
