import type { ServerResponse } from "node:http";
import { readTarget } from "@sluice/core/internal";
import { SHARED_REQUEST_HEADER } from "@sluice/server/internal";
import { captureAnswer } from "./captured-answer.ts";
import type { EndpointRouter } from "../endpoint/router.ts";
import type { HttpExchange } from "../endpoint/http-exchange.ts";
import { NodeExchange } from "./node-exchange.ts";
import type { NodeRequest } from "./incoming-request.ts";

/**
 * True if the target names no route, and no framework could take it for the endpoint or for a path below it, however it
 * is spelled.
 */
export function isOutsideEndpoint(target: string, { base, routes }: EndpointRouter): boolean {
  const path = readTarget(target);
  if (path !== undefined && routes(path)) return false;
  if (!target.startsWith("/")) return URL.canParse(target) && !isWithin(new URL(target), base);
  // `//host/path` is a path to one router, and names a host to another
  return [origin + target, target].every(
    (spelled) => URL.canParse(spelled, origin) && !isWithin(new URL(spelled, origin), base),
  );
}

const origin = "http://localhost";

function isWithin({ pathname }: URL, base: string): boolean {
  const plain = decoded(pathname).toLowerCase().replaceAll(/\/+/g, "/").replace(/\/$/, "");
  const basePath = base.toLowerCase();
  return plain === basePath || (basePath !== "" && plain.startsWith(`${basePath}/`));
}

/** Sets `exchange.next`, which passes the request on to the app's handlers and captures their response. */
export function offerNext(
  exchange: HttpExchange,
  { req, res, next }: { req: NodeRequest; res: ServerResponse; next: () => void },
): void {
  const isKnown = req.auth !== undefined;
  exchange.next = async ({ headers }, options) => {
    // adapters of the SDKs make their own request, of these headers
    for (const name of [SHARED_REQUEST_HEADER, "accept"]) setHeader(req, name, headers.get(name));
    NodeExchange.of(req).isShared = true;
    if (options?.parsedBody !== undefined && req.body === undefined)
      giveBody(req, options.parsedBody);
    const { response } = captureAnswer(res);
    next();
    const answer = await response;
    if (!isKnown && req.auth)
      throw new TypeError(
        "createHandler: access tokens are verified after this handler, so it cannot know the owner of a session; pass the middleware to toNodeHandler as `authenticate`",
      );
    return answer;
  };
}

/** Takes the header that leads to a request off what a client sent: it could lead to the request of another client. */
export function dropSharedRequestHeader(req: NodeRequest): void {
  if (req.headers[SHARED_REQUEST_HEADER] !== undefined && !NodeExchange.find(req)?.isShared)
    setHeader(req, SHARED_REQUEST_HEADER, null);
}

function setHeader({ headers, rawHeaders }: NodeRequest, name: string, value: string | null): void {
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2)
    if (rawHeaders[at]!.toLowerCase() === name) rawHeaders.splice(at, 2);
  delete headers[name];
  if (value === null) return;
  rawHeaders.push(name, value);
  headers[name] = value;
}

/**
 * Puts the parsed body where body parsers put it, and as `rawBody`, which the SDKs' adapters read in place of the
 * stream.
 */
function giveBody(req: NodeRequest, body: unknown): void {
  Object.assign(req, { body, _body: true, rawBody: Buffer.from(JSON.stringify(body)) });
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
