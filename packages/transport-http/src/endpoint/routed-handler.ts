import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SHARED_REQUEST_HEADER } from "@sluice/server/internal";
import { HttpExchange } from "./http-exchange.ts";
import {
  admit,
  withHeaders,
  withRoutes,
  type Admission,
  type EndpointRouter,
  type Routes,
} from "./router.ts";
import type { McpFetchHandler, SluiceHandler } from "./sluice-handler.ts";
import { factsOf, plainOf } from "./web-request.ts";
import { isReply, replyOf, toResponse, type LayerAnswer } from "./web-response.ts";

/** Answers a request, which is that of its exchange or a copy, and leaves a reply as it is. */
type AnswerRequest = (
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
  exchange: HttpExchange,
) => Promise<LayerAnswer>;

const answerKey: unique symbol = Symbol("sluice.answer");

/** The `fetch` of a handler that was made here. */
type RoutedFetch = McpFetchHandler["fetch"] & { readonly [answerKey]?: AnswerRequest };

/**
 * Calls a handler as its `fetch` does, but leaves a reply unwrapped. If another layer has replaced our `fetch`, calls that
 * one, which finds the exchange again by its request.
 */
export function askHandler(
  handler: McpFetchHandler,
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
  exchange: HttpExchange,
): Promise<LayerAnswer> {
  // oxlint-disable-next-line typescript/unbound-method -- only a member of it is read
  const { [answerKey]: answer } = handler.fetch as RoutedFetch;
  return answer ? answer(request, mcpOptions, exchange) : handler.fetch(request, mcpOptions);
}

/** Puts a router before `answer`, which answers the endpoint itself. Only the outermost of several layers looks at a request. */
export function createRoutedHandler(router: EndpointRouter, answer: AnswerRequest): SluiceHandler {
  function admissionOf(exchange: HttpExchange, request: Request): Admission {
    const { lastAdmission: last } = exchange;
    if (last?.router === router && last.request === request) return last.admission;
    const admission = admit(router, factsOf(request));
    exchange.lastAdmission = { router, request, admission };
    return admission;
  }

  const answerRouted: AnswerRequest = async (request, mcpOptions, exchange) => {
    const { route: known } = exchange;
    if (known?.fetch) return known.fetch(request, mcpOptions);
    if (known) return answer(request, mcpOptions, exchange);
    const admission = admissionOf(exchange, request);
    if (admission.reply) return admission.reply;
    const { route, cors } = admission;
    if (route.answer)
      return withHeaders(
        await route.answer(plainOf(request, mcpOptions?.authInfo, exchange)),
        cors,
      );
    dropFetchRequestHeader(request);
    exchange.route = route;
    // a second pass, which finds the route
    return withCors(await answerRouted(request, mcpOptions, exchange), cors);
  };

  const fetch: McpFetchHandler["fetch"] = async (request, mcpOptions) => {
    const answered = await answerRouted(request, mcpOptions, HttpExchange.of(request));
    return isReply(answered) ? toResponse(answered) : answered;
  };

  return {
    router,
    needsBearer(request) {
      const admission = admissionOf(HttpExchange.of(request), request);
      return !admission.reply && admission.route.credential === "bearer";
    },
    fetch: Object.assign(fetch, { [answerKey]: answerRouted }),
  };
}

/** Adds routes below the endpoint of a handler, behind the same router. */
export function addRoutes(handler: SluiceHandler, routes: Routes): SluiceHandler {
  const router = withRoutes(handler.router, routes);
  const routed = createRoutedHandler(router, (request, mcpOptions, exchange) =>
    askHandler(handler, request, mcpOptions, exchange),
  );
  return { ...handler, ...routed };
}

/** Takes off the header that leads to a shared request. Where headers are immutable, no request is shared. */
function dropFetchRequestHeader({ headers }: Request): void {
  try {
    headers.delete(SHARED_REQUEST_HEADER);
  } catch {}
}

/** The response with CORS headers, which let the page that asked for it read it. */
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
