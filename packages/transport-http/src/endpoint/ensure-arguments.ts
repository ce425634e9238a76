import type { McpFetchHandler } from "./sluice-handler.ts";

/** Throws a `TypeError` that says what to pass, unless this is a handler. */
export function ensureHandler(what: string, handler: McpFetchHandler): void {
  if (typeof (handler as Partial<McpFetchHandler> | undefined)?.fetch !== "function")
    throw new TypeError(
      `${what} must be a handler: what createHandler gave, or createMcpHandler(() => sluice.attach(new McpServer(…)))`,
    );
}
