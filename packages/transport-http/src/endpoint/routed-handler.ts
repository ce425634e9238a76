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
import { isReply, replyOf, toResponse, type LayerAnswer } from "./web-response.ts";

/** Requests that a router has let in. The layers inside of it take its word. */
const admitted = new WeakMap<Request, Route>();

/** Tells the layers of a handler what a request names, so that none of them looks again. */
export function passOn(request: Request, route: Route): void {
  admitted.set(request, route);
}

/** Does what `fetch` of a handler does, and leaves a reply as it is. */
type AnswerRequest = (
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
) => Promise<LayerAnswer>;

const answering = new WeakMap<McpFetchHandler["fetch"], AnswerRequest>();

/**
 * Asks a handler as its `fetch` does, without a web response around a reply: an adapter that sends replies needs none. Where
 * another layer put a `fetch` of its own in the place of ours, that one is called.
 */
export function askHandler(
  handler: McpFetchHandler,
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
): Promise<LayerAnswer> {
  // oxlint-disable-next-line typescript/unbound-method -- it is looked up, and called on its handler
  const answer = answering.get(handler.fetch);
  return answer ? answer(request, mcpOptions) : handler.fetch(request, mcpOptions);
}

/** Puts a router before `answer`, which answers the endpoint itself. Only the outermost of several layers looks at a request. */
export function createRoutedHandler(router: EndpointRouter, answer: AnswerRequest): SluiceHandler {
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
  ): Promise<LayerAnswer> {
    return route.fetch ? route.fetch(request, mcpOptions) : answer(request, mcpOptions);
  }

  const answerRouted: AnswerRequest = async (request, mcpOptions) => {
    const known = admitted.get(request);
    if (known) return serve(request, mcpOptions, known);
    const admission = admissionOf(request);
    if (admission.refusal) return admission.refusal;
    const { route, cors } = admission;
    if (route.answer)
      return withHeaders(await route.answer(plainOf(request, mcpOptions?.authInfo)), cors);
    dropRequestId(request);
    passOn(request, route);
    return withCors(await serve(request, mcpOptions, route), cors);
  };

  const fetch: McpFetchHandler["fetch"] = async (request, mcpOptions) => {
    const answered = await answerRouted(request, mcpOptions);
    return isReply(answered) ? toResponse(answered) : answered;
  };
  answering.set(fetch, answerRouted);

  return {
    router,
    needsBearer(request) {
      const admission = admissionOf(request);
      return !admission.refusal && admission.route.credential === "bearer";
    },
    fetch,
  };
}

/** Adds routes below the endpoint of a handler, behind the same router. */
export function addRoutes(handler: SluiceHandler, routes: Routes): SluiceHandler {
  const router = withRoutes(handler.router, routes);
  const routed = createRoutedHandler(router, (request, mcpOptions) =>
    askHandler(handler, request, mcpOptions),
  );
  return { ...handler, ...routed };
}

/** Headers that cannot be changed lead nowhere: where they are, no request is shared. */
function dropRequestId({ headers }: Request): void {
  try {
    headers.delete(SHARED_REQUEST_HEADER);
  } catch {}
}

/** An answer that the page may read which asked for it. */
export function withCors(answer: LayerAnswer, cors: readonly string[]): LayerAnswer {
  if (cors.length === 0) return answer;
  if (isReply(answer)) return withHeaders(answer, cors);
  const reply = replyOf(answer);
  if (reply) return withHeaders(reply, cors);
  const { body, status, statusText } = answer;
  const headers = new Headers(answer.headers);
  for (let at = 0; at < cors.length; at += 2) headers.set(cors[at]!, cors[at + 1]!);
  return new Response(body, { status, statusText, headers });
}
