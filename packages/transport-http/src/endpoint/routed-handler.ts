import type { AuthInfo, McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { notesOf, SHARED_REQUEST_HEADER } from "@sluice/server/transport";
import {
  admit,
  withHeaders,
  type Admission,
  type EndpointRouter,
  type Route,
  type Routes,
} from "./router.ts";
import type { PlainRequest } from "./plain-route.ts";
import { targetOf } from "./request-target.ts";
import { webBody } from "./web-body.ts";
import { headerReader } from "./web-request.ts";
import { replyOf, toResponse } from "./web-response.ts";
import type { SluiceHandler } from "./sluice-handler.ts";

/** Answers what its route leaves to `fetch`. */
export type EndpointFetch = (
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
  route: Route,
) => Promise<Response>;

/** Requests that a router has let in. The layers inside of it take its word. */
const admitted = new WeakMap<Request, Route>();

/** Tells the layers of a handler what a request names, so that none of them looks again. */
export function passOn(request: Request, route: Route): void {
  admitted.set(request, route);
}

/** Puts a router before `fetch`. Only the outermost of several layers looks at a request. */
export function createRoutedHandler(router: EndpointRouter, fetch: EndpointFetch): SluiceHandler {
  const admissions = new WeakMap<Request, Admission>();

  function admissionOf(request: Request): Admission {
    let admission = admissions.get(request);
    if (!admission) admissions.set(request, (admission = admit(router, factsOf(request))));
    return admission;
  }

  return {
    router,
    needsBearer(request) {
      const admission = admissionOf(request);
      return !admission.refusal && admission.route.credential === "bearer";
    },
    async fetch(request, mcpOptions) {
      const known = admitted.get(request);
      if (known) return fetch(request, mcpOptions, known);
      const admission = admissionOf(request);
      if (admission.refusal) return toResponse(admission.refusal);
      const { route, cors } = admission;
      if (route.answer) {
        const reply = await route.answer(plainOf(request, mcpOptions?.authInfo));
        return toResponse(withHeaders(reply, cors));
      }
      dropRequestId(request);
      passOn(request, route);
      return withCors(await fetch(request, mcpOptions, route), cors);
    },
  };
}

/** Adds routes below the endpoint of a handler, behind the same router. */
export function addRoutes(handler: SluiceHandler, routes: Routes): SluiceHandler {
  const { router } = handler;
  const routed = createRoutedHandler(
    { ...router, routes: (path) => router.routes(path) ?? routes(path) },
    (request, mcpOptions) => handler.fetch(request, mcpOptions),
  );
  return { ...handler, ...routed };
}

/** Headers that cannot be changed lead nowhere: where they are, no request is shared. */
function dropRequestId({ headers }: Request): void {
  try {
    headers.delete(SHARED_REQUEST_HEADER);
  } catch {}
}

/** A response that the page may read which asked for it. */
export function withCors(response: Response, cors: readonly string[]): Response {
  if (cors.length === 0) return response;
  const reply = replyOf(response);
  if (reply) return toResponse(withHeaders(reply, cors));
  const { body, status, statusText } = response;
  const headers = new Headers(response.headers);
  for (let at = 0; at < cors.length; at += 2) headers.set(cors[at]!, cors[at + 1]!);
  return new Response(body, { status, statusText, headers });
}

function factsOf(request: Request): Pick<PlainRequest, "method" | "target" | "header"> {
  return {
    method: request.method,
    target: targetOf(request),
    header: headerReader(request),
  };
}

function plainOf(request: Request, authInfo: AuthInfo | undefined): PlainRequest {
  return {
    ...factsOf(request),
    address: notesOf(request).address,
    authInfo,
    signal: request.signal,
    body: webBody(request),
  };
}
