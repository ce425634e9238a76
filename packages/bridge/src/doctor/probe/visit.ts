import type { Client } from "@modelcontextprotocol/client";
import type { FetchLike } from "@sluice/core";
import type { Dispatcher } from "undici";
import type { Evidence } from "../evidence.ts";
import type { ByteBudget } from "./watched-fetch.ts";

/** One diagnosis under way: what probes work with. */
export interface Visit {
  readonly evidence: Evidence;
  readonly client: Client;
  readonly dispatcher: Dispatcher;
  /** Carries the messages. */
  readonly fetch: FetchLike;
  /** Headers of every request to the endpoint's origin. */
  readonly headers: Readonly<Record<string, string>>;
  readonly trustedOrigins: readonly string[];
  /** Resource to look at. Default: one of the list. */
  readonly uri: string | undefined;
  readonly watchMs: number;
  readonly budget: ByteBudget;
  readonly signal: AbortSignal;
}

/** Milliseconds for one answer. */
export const answerMs = 10_000;

/** An error and what caused it, at most eight deep. */
export function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  let at: unknown = error;
  for (let depth = 0; depth < 8 && typeof at === "object" && at !== null; depth++) {
    const { code, name, cause, errors } = at as {
      code?: unknown;
      name?: unknown;
      cause?: unknown;
      errors?: unknown;
    };
    if (typeof code === "string") codes.push(code);
    // such a fault has a name and no code on some versions of Node
    if (name === "HTTPParserError") codes.push("HPE_INVALID");
    at = cause ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return codes;
}
