import type { Sluice } from "@sluice/server";
import type { McpFetchHandler } from "./sluice-handler.ts";

/** Throws a `TypeError` that says what to pass, unless this is a handler. */
export function ensureHandler(operation: string, handler: McpFetchHandler): void {
  if (typeof (handler as Partial<McpFetchHandler> | undefined)?.fetch !== "function")
    throw new TypeError(
      `${operation}: the first argument must be a handler: createMcpHandler(() => sluice.attach(new McpServer(…))), or what createSessions, withSluice or withUploads gave`,
    );
}

/** Throws a `RangeError` unless this is a whole number from 1. */
export function ensureLimit(operation: string, limit: number): void {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new RangeError(`${operation}: ${limit} is not a limit; pass a whole number from 1`);
}

/** Throws a `TypeError` that says what to pass, unless this is a Sluice. */
export function ensureSluice(operation: string, sluice: Sluice): void {
  if (typeof (sluice as Partial<Sluice> | undefined)?.redeem !== "function")
    throw new TypeError(`${operation}: sluice must be what createSluice gave`);
}
