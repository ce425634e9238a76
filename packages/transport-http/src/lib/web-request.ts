import type { AuthInfo } from "@modelcontextprotocol/server";
import type { PlainRoute } from "./plain-route.ts";
import { webBody } from "./web-body.ts";
import { toResponse } from "./web-response.ts";

/** Answers a web request through a route on plain values; `undefined` where that is not for it. */
export function answerPlainly(
  route: PlainRoute,
  request: Request,
  authInfo: AuthInfo | undefined,
): Promise<Response> | undefined {
  const { pathname, search } = new URL(request.url);
  const reply = route({
    method: request.method,
    target: pathname + search,
    header: headerReader(request),
    authInfo,
    signal: request.signal,
    body: webBody(request),
  });
  return reply?.then(toResponse);
}

/** Reads headers; a request made by hand has no `Host`, and its URL says the same. */
export function headerReader(request: Request): (name: string) => string | undefined {
  return (name) =>
    request.headers.get(name) ?? (name === "host" ? new URL(request.url).host : undefined);
}
