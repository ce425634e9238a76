import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { Exchange, ownExchangeOf } from "@sluice/server/internal";
import type { Admission, EndpointRouter, Route } from "./router.ts";

/** Lets the handlers behind answer a request, with the headers that it has by now. */
export type Continue = (
  request: Request,
  options: McpHandlerRequestOptions | undefined,
) => Promise<Response>;

interface Asked {
  readonly router: EndpointRouter;
  readonly request: Request;
  readonly admission: Admission;
}

/** The exchange of a request as the layers of an endpoint pass it on. */
export class HttpExchange extends Exchange {
  /** The body, where its transport has collected it, until the first layer takes it. */
  body: Uint8Array | undefined = undefined;
  /** What the router that has let it in found. The layers inside of that one take its word. */
  route: Route | undefined = undefined;
  /** What the last router said that was asked, so that none is asked twice. */
  asked: Asked | undefined = undefined;
  /** How it goes on to the handlers behind; absent where there are none. */
  next: Continue | undefined = undefined;
  /** The share that other layers count their memory of a session in which it opened; empty where none is known. */
  sessionOwner = "";

  /** That of a request, found again behind a layer of others, or begun where nothing in front has one. */
  static of(request: Request): HttpExchange {
    const ownExchange = ownExchangeOf(request);
    if (ownExchange instanceof HttpExchange) return ownExchange;
    const exchange = new HttpExchange(request, ownExchange);
    if (ownExchange) {
      exchange.slot = ownExchange.slot;
      exchange.carryTo(request);
    }
    return exchange;
  }
}
