import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { Exchange, exchangeTiedTo } from "@sluice/server/internal";
import type { Admission, EndpointRouter, Route } from "./router.ts";

/** Lets the handlers behind answer a request, with the headers that it has by now. */
export type Continue = (
  request: Request,
  options: McpHandlerRequestOptions | undefined,
) => Promise<Response>;

interface RoutedRequest {
  readonly router: EndpointRouter;
  readonly request: Request;
  readonly admission: Admission;
}

/** The exchange of a request as the layers of an endpoint pass it on. */
export class HttpExchange extends Exchange {
  /** The body, if the transport has collected it, until the first layer takes it. */
  body: Uint8Array | undefined = undefined;
  /** The route, set by the outermost layer. The layers inside do not route again. */
  route: Route | undefined = undefined;
  /** The verdict of the last router, so that it is not asked twice. */
  lastAdmission: RoutedRequest | undefined = undefined;
  /** Set only for middleware: calls the app's handlers. */
  next: Continue | undefined = undefined;
  /** If this request opens a session: the owner that layers count their memory of it under. Empty if unknown. */
  sessionOwner = "";

  /** The exchange of a request: found again behind layers of others, else a new one. */
  static of(request: Request): HttpExchange {
    const ownExchange = exchangeTiedTo(request);
    if (ownExchange instanceof HttpExchange) return ownExchange;
    const exchange = new HttpExchange(request, ownExchange);
    if (ownExchange) {
      exchange.slot = ownExchange.slot;
      exchange.tie(request);
    }
    return exchange;
  }
}
