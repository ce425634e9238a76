import type { ServerResponse } from "node:http";
import { SHARED_REQUEST_HEADER } from "@sluice/server";
import { captureAnswer } from "./captured-answer.ts";
import type { Door } from "./door.ts";
import { setContinuation } from "./front-handler.ts";
import type { NodeRequest } from "./node-handler.ts";
import { readTarget } from "./request-target.ts";

/** What is wrong when a front handler is called without `next`. */
export const nothingBehind =
  "createFrontHandler: nothing is behind it; use it as app.use(toNodeHandler(handler)), before the routes of the endpoint";

/** True for a target that names neither a route of the door nor the endpoint in any spelling that a router may understand. */
export function isElsewhere(target: string, { base, routes }: Door): boolean {
  const path = readTarget(target);
  if (path !== undefined && routes(path)) return false;
  const spelled = target.startsWith("/") ? `http://localhost${target}` : target;
  if (!URL.canParse(spelled)) return false;
  const { pathname } = new URL(spelled);
  const plain = decoded(pathname).toLowerCase().replaceAll(/\/+/g, "/").replace(/\/$/, "");
  return plain !== base.toLowerCase();
}

/** Lets a request go on to the handlers behind when its `fetch` comes to that, and takes their answer. */
export function letThrough(
  request: Request,
  { req, res, next }: { req: NodeRequest; res: ServerResponse; next: () => void },
): void {
  const isKnown = req.auth !== undefined;
  setContinuation(request, async (options) => {
    share(req, request.headers.get(SHARED_REQUEST_HEADER));
    if (options?.parsedBody !== undefined && req.body === undefined)
      giveBody(req, options.parsedBody);
    const { response } = captureAnswer(res);
    next();
    const answer = await response;
    if (!isKnown && req.auth)
      throw new TypeError(
        "createFrontHandler: access tokens are verified behind it, so that it cannot tell whose a session is: give the middleware to toNodeHandler as `authenticate`",
      );
    return answer;
  });
}

/** Adapters of the SDKs make their own request, of these headers. */
function share(req: NodeRequest, id: string | null): void {
  if (id === null) return;
  const { headers, rawHeaders } = req;
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2)
    if (rawHeaders[at]!.toLowerCase() === SHARED_REQUEST_HEADER) rawHeaders.splice(at, 2);
  rawHeaders.push(SHARED_REQUEST_HEADER, id);
  headers[SHARED_REQUEST_HEADER] = id;
}

/** A body that was read here: as a parser leaves it, and in the form that adapters of the SDKs take instead of the stream. */
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
