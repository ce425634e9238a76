import type { AuthInfo } from "@modelcontextprotocol/server";
import type { RevisionKind } from "@sluice/core/wire";
import type { BridgeLimits } from "../messages/limits.ts";
import type { RelayHooks } from "../messages/hooks.ts";
import type { Upstream } from "../upstream/upstream.ts";

/**
 * A session of a host of 2025-11-25 or older. For hosts of 2026-07-28, which have no sessions: requests of one caller
 * and one client, one after the other.
 */
export interface HostSession {
  /** Random. A host of 2026-07-28 does not know it. */
  readonly id: string;
  readonly revision: RevisionKind;
  /** As the option `caller` names it. */
  readonly caller: string;
  /** Header fields of the first request. */
  readonly headers: Headers;
  /** What the handler in front verified. */
  readonly authInfo: AuthInfo | undefined;
}

/** What a request says of its session. */
export type HostFacts = Pick<HostSession, "caller" | "headers" | "authInfo">;

/** What stands behind one session. */
export interface OpenedServer {
  /** For this session alone. */
  readonly upstream: Upstream;
  /** Sees the messages of this session. Default: they pass as they are. */
  readonly hooks?: RelayHooks | undefined;
  /** Called once, after the session has ended and its connection or process is closed. */
  readonly close?: (() => Promise<void> | void) | undefined;
}

/** Opens what stands behind one session. A `SluiceError` that it throws is told to the host. */
export type OpenServer = (session: HostSession) => OpenedServer | Promise<OpenedServer>;

/** What all sessions share. */
export interface HostParts {
  readonly open: OpenServer;
  readonly limits: Partial<BridgeLimits>;
  readonly note: (line: string) => void;
  /** Ends a bridge, which the end of all waits for. */
  readonly end: (bridge: { close(): Promise<void> }) => void;
}
