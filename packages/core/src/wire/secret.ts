import type { FetchLike } from "./mcp.ts";

/** A credential, or what gets one: it is asked each time that one is needed. */
export type Secret = string | (() => string | Promise<string>);

/** The secret of the moment. */
export async function valueOf(secret: Secret): Promise<string> {
  return typeof secret === "function" ? secret() : secret;
}

/** A bearer token as an `Authorization` header; `undefined` if there is none. */
export async function bearerOf(token: Secret | undefined): Promise<string | undefined> {
  return token === undefined ? undefined : `Bearer ${await valueOf(token)}`;
}

/** Adds the bearer token of the moment to requests to the endpoint's origin. */
export function withBearer(fetch: FetchLike, endpoint: URL, token: Secret | undefined): FetchLike {
  if (token === undefined) return fetch;
  return async (input, init) => {
    if (new URL(input).origin !== endpoint.origin) return fetch(input, init);
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${await valueOf(token)}`);
    return fetch(input, { ...init, headers });
  };
}
