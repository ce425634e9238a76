import type { Server } from "@modelcontextprotocol/server";
import { z } from "zod";
import { findHandler } from "./sdk-handlers.ts";

/** Parameters of a method about one resource. */
export const uriParams: z.ZodType<{ uri: string }> = z.looseObject({
  uri: z.string({ error: "must be a string" }),
});

const cursorParams = z.looseObject({
  cursor: z.optional(z.string({ error: "must be a string" })),
});

/** Takes every result. Made once: schemas are large, and there is a server for each connection. */
export const anyResult: z.ZodType<Record<string, unknown>> = z.looseObject({});

const checked = {
  "resources/read": uriParams,
  "resources/subscribe": uriParams,
  "resources/unsubscribe": uriParams,
  "resources/list": cursorParams,
  "resources/templates/list": cursorParams,
} as const;

/**
 * Refuses parameters that are none with -32602 and a sentence. Handlers of the SDK refuse them with -32603 and the
 * text of its validator.
 */
export function checkParams(server: Server): void {
  for (const [method, params] of Object.entries(checked)) {
    const handler = findHandler(server, method);
    if (handler) server.setRequestHandler(method, { params, result: anyResult }, handler);
  }
}
