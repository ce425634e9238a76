import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";

/** Lets the handlers behind answer a request, with the headers that it has by now. */
export type Continue = (
  request: Request,
  options: McpHandlerRequestOptions | undefined,
) => Promise<Response>;

const continuations = new WeakMap<Request, Continue>();

/** Notes how a request, or a copy of it, goes on to the handlers behind. */
export function setContinuation(request: Request, go: Continue): void {
  continuations.set(request, go);
}

/** How a request goes on; `undefined` where no handlers are behind. */
export function continuationOf(request: Request): Continue | undefined {
  return continuations.get(request);
}

/** The error of a front handler that is called without handlers behind it. */
export function missingNext(): TypeError {
  return new TypeError(
    "createFrontHandler: nothing is behind it; use it as app.use(toNodeHandler(handler)), before the routes of the endpoint",
  );
}
