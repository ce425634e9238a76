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
  /** What failed, where that is known. */
  readonly direction: "download" | "upload" | undefined;
  readonly budget: ByteBudget;
  readonly signal: AbortSignal;
}

/** Milliseconds for one answer. */
export const answerMs = 10_000;
