import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SHARED_REQUEST_HEADER } from "@sluice/server/transport";
import {
  admit,
  withHeaders,
  withRoutes,
  type Admission,
  type EndpointRouter,
  type Route,
  type Routes,
} from "./router.ts";
import type { McpFetchHandler, SluiceHandler } from "./sluice-handler.ts";
import { factsOf, plainOf } from "./web-request.ts";
import { replyOf, toResponse } from "./web-response.ts";

/** Requests that a router has let in. The layers inside of it take its word. */
const admitted = new WeakMap<Request, Route>();

/** Tells the layers of a handler what a request names, so that none of them looks again. */
export function passOn(request: Request, route: Route): void {
  admitted.set(request, route);
}

/** Puts a router before `fetch`, which answers the endpoint itself. Only the outermost of several layers looks at a request. */
export function createRoutedHandler(
  router: EndpointRouter,
  fetch: McpFetchHandler["fetch"],
): SluiceHandler {
  const admissions = new WeakMap<Request, Admission>();

  function admissionOf(request: Request): Admission {
    let admission = admissions.get(request);
    if (!admission) admissions.set(request, (admission = admit(router, factsOf(request))));
    return admission;
  }

  async function serve(
    request: Request,
    mcpOptions: McpHandlerRequestOptions | undefined,
    route: Route,
  ): Promise<Response> {
    return route.fetch ? route.fetch(request, mcpOptions) : fetch(request, mcpOptions);
  }

  return {
    router,
    needsBearer(request) {
      const admission = admissionOf(request);
      return !admission.refusal && admission.route.credential === "bearer";
    },
    async fetch(request, mcpOptions) {
      const known = admitted.get(request);
      if (known) return serve(request, mcpOptions, known);
      const admission = admissionOf(request);
      if (admission.refusal) return toResponse(admission.refusal);
      const { route, cors } = admission;
      if (route.answer) {
        const reply = await route.answer(plainOf(request, mcpOptions?.authInfo));
        return toResponse(withHeaders(reply, cors));
      }
      dropRequestId(request);
      passOn(request, route);
      return withCors(await serve(request, mcpOptions, route), cors);
    },
  };
}

/** Adds routes below the endpoint of a handler, behind the same router. */
export function addRoutes(handler: SluiceHandler, routes: Routes): SluiceHandler {
  const router = withRoutes(handler.router, routes);
  const routed = createRoutedHandler(router, (...asked) => handler.fetch(...asked));
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
