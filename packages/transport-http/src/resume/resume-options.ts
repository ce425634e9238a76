import type { McpHandlerRequestOptions, McpServer } from "@modelcontextprotocol/server";
import type { EventStore } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import type { OriginGateOptions } from "@sluice/server/transport";
import type { Links } from "./resume-link.ts";
import type { RpcId } from "./resume-message.ts";
import type { Rerunnable } from "./resume-rerun.ts";
import type { Runs } from "./resume-runs.ts";
import type { SessionOpenings } from "./resume-openings.ts";
import type { McpFetchHandler, SluiceHandler } from "../endpoint/sluice-handler.ts";

/** Requests that may be run again, from their start, when the process that worked on them is gone. */
export interface RerunOptions {
  /**
   * Whether this request may run twice. Say yes only where it is deterministic, in what it asks the client
   * and in which order, and where what it has done before it was interrupted may be done again.
   */
  readonly allows: (request: {
    readonly method: string;
    readonly params?: Readonly<Record<string, unknown>>;
  }) => boolean;
  /** A new server with the same tools, not connected, for the caller that picked the stream up. */
  readonly server: (
    options: Pick<McpHandlerRequestOptions, "authInfo">,
  ) => McpServer | Promise<McpServer>;
}

/** Options of `withResume`. */
export interface WithResumeOptions extends OriginGateOptions {
  /** Where streams are kept: `createMemoryEventStore()` for one process, a store that they share for several. */
  readonly store: EventStore;
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
  /** Milliseconds for which a reader is kept while there is nothing to read. 0 sends it away at once. Default 25,000. */
  readonly holdMs?: number;
  /** Milliseconds that a reader is told to wait before it comes back. Default 1,000. */
  readonly retryMs?: number;
  /** Life of a link in milliseconds; every answer carries a new one. Default 300,000, at most 900,000. */
  readonly linkTtlMs?: number;
  /** Milliseconds for which a request may take; then it is cancelled. Default one hour. */
  readonly maxAgeMs?: number;
  /** Milliseconds for which an answer can be read again. Default 60,000. */
  readonly keepMs?: number;
  /** Milliseconds after which another process takes over what a silent one was working on. Default 8,000. */
  readonly leaseMs?: number;
  /**
   * Largest JSON of a request, in bytes; more is answered with 413. Default: that of `handler`, else 256 KiB. Raise it for
   * tools with large arguments.
   */
  readonly maxRequestBodySize?: number;
  /** Run requests again after a restart. Default: they end with the error `interrupted`. */
  readonly rerun?: RerunOptions;
  /** Gets what broke while nobody waits for it. Default: that of the Sluice. */
  readonly onError?: (error: unknown) => void;
}

/** How to close. */
export interface CloseResumeOptions {
  /** Milliseconds that requests under way may still take. Default 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** A handler whose streams can be picked up again. */
export interface ResumeHandler extends SluiceHandler {
  /**
   * Sends readers away who can go on elsewhere, lets requests end until the deadline, and gives up the others: with a
   * shared store another process takes them over at once. Their tools are cancelled here. Idempotent.
   */
  close(options?: CloseResumeOptions): Promise<void>;
}

/** What the parts of one `withResume` share. */
export interface ResumeParts {
  readonly handler: McpFetchHandler;
  readonly sluice: Sluice;
  readonly store: EventStore;
  readonly runs: Runs;
  readonly links: Links;
  readonly openings: SessionOpenings;
  readonly rerun: RerunOptions | undefined;
  readonly holdMs: number;
  readonly retryMs: number;
  readonly maxAgeMs: number;
  readonly keepMs: number;
  readonly leaseMs: number;
  readonly maxBodyBytes: number;
  readonly onError: (error: unknown) => void;
}

/** One request to the endpoint, read. */
export interface Asked {
  readonly request: Request;
  readonly sessionId: string;
  readonly mcpOptions: McpHandlerRequestOptions | undefined;
}

/** What a stream's record in the store says, as JSON. */
export interface StreamRecord {
  readonly requestId: RpcId;
  readonly sessionId: string;
  /** Tag of the principal in its session. */
  readonly owner: string;
  /** Only where it may be run again. */
  readonly rerun?: Rerunnable;
}
