import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import type { EndpointRouter } from "./router.ts";

/** A fetch-shaped MCP handler: that of `createMcpHandler`, or one of your own over the SDK's transports. */
export interface McpFetchHandler {
  fetch(request: Request, options?: McpHandlerRequestOptions): Promise<Response>;
  /** Largest JSON of a request, in bytes, that layers and adapters around it take unless they are told otherwise. */
  readonly maxRequestBodySize?: number;
  /** Its router, if Sluice made it. */
  readonly router?: EndpointRouter;
  /** Other paths are for the handlers behind it: see `behind` of `createHandler`. */
  readonly isFront?: boolean;
}

/** A handler that serves the MCP endpoint and routes below it, and answers 404 for everything else. */
export interface SluiceHandler extends McpFetchHandler {
  /** What stands before it: adapters look here first, so that they need no web objects for what has a route of its own. */
  readonly router: EndpointRouter;
  /**
   * True for a request that the host has to authenticate before it calls `fetch`. False for a URL that is its own
   * credential, such as that of an upload page, and for what is refused anyway. Over `toNodeHandler` the option `authenticate` is
   * called for exactly these.
   */
  needsBearer(request: Request): boolean;
}

/** The error of a front handler that is called without handlers behind it. */
export function missingNext(): TypeError {
  return new TypeError(
    "createHandler: no app is behind it; use it as app.use(toNodeHandler(handler)), before the routes of the endpoint",
  );
}

/** Throws a `TypeError` that says what to pass, unless this is a handler. */
export function ensureHandler(what: string, handler: McpFetchHandler): void {
  if (typeof (handler as Partial<McpFetchHandler> | undefined)?.fetch !== "function")
    throw new TypeError(
      `${what} must be a handler: what createHandler gave, or createMcpHandler(() => sluice.attach(new McpServer(…)))`,
    );
}
