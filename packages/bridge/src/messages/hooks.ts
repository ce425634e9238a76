import type { JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import type { RevisionKind } from "@sluice/core/internal";
import type { Answer, Members } from "./messages.ts";

/** What a hook can do beside answering: calls in the name of the bridge. */
export interface BridgeCalls {
  /** Revision of the host. Undefined before its first message. */
  readonly hostRevision: RevisionKind | undefined;
  /** What the host declared that it can do. */
  readonly hostCapabilities: Members;
  /**
   * Calls the server, as the host would in its own revision: the bridge adds what a revision needs.
   * Rejects when `signal` aborts, which cancels the call.
   */
  callServer(method: string, params: Members, signal?: AbortSignal): Promise<Answer>;
  notifyHost(method: string, params: Members): void;
  /**
   * Asks the host, in revisions up to 2025-11-25. Later hosts take questions only in the result of a call:
   * there the promise rejects with code `unsupported`.
   */
  askHost(method: string, params: Members, signal?: AbortSignal): Promise<Answer>;
}

/**
 * Sees the messages between a host and a server. Each member is optional; what a hook leaves alone passes
 * unchanged. The messages are those of the host's revision.
 */
export interface RelayHooks {
  /** Gets the bridge's own calls, once, before the first message. */
  readonly start?: (calls: BridgeCalls) => void;
  /**
   * A request of the host. Gives a response to be sent instead of asking the server, or another request with the
   * same id to send in its place, or nothing to let it pass. `signal` aborts when the host cancels it.
   */
  readonly request?: (
    request: JSONRPCRequest,
    signal: AbortSignal,
  ) => RequestDecision | Promise<RequestDecision>;
  /** The server's response to a request of the host. Gives the response that the host gets. */
  readonly answer?: (
    request: JSONRPCRequest,
    response: JSONRPCResponse,
  ) => JSONRPCResponse | Promise<JSONRPCResponse>;
  /** A request of the server. Gives the response that the server gets, or nothing to ask the host. */
  readonly serverRequest?: (
    request: JSONRPCRequest,
  ) => Answer | undefined | Promise<Answer | undefined>;
}

/** What {@link RelayHooks.request} gives. */
export type RequestDecision = { readonly answer: Answer } | JSONRPCRequest | undefined;
