import type { HostQuestions } from "../confine/consent.ts";
import type { NamedLoopback } from "../confine/named-loopback.ts";
import type { BridgeCalls } from "../messages/hooks.ts";
import type { DeclaredTypes } from "../saved/declared-types.ts";

/** The server that files come from and go to. */
export interface FileServer {
  readonly kind: "http" | "process";
  /** Name for people, without secrets. */
  readonly name: string;
  /** The MCP endpoint; undefined for a process. */
  readonly url: URL | undefined;
}

/** What the tools of one bridge work with. */
export interface ToolContext {
  readonly calls: () => BridgeCalls;
  readonly server: FileServer;
  readonly questions: HostQuestions;
  /** Origins beside the server's own. */
  readonly trustedOrigins: readonly string[];
  /** Maximum bytes of one request of an upload; undefined: all that is left. */
  readonly maxStepBytes: number | undefined;
  /** Bytes up to which the user is not asked; undefined when the user did not say. */
  readonly agreedBytes: number | undefined;
  /** Origins on this machine that a process named. */
  readonly loopback: NamedLoopback;
  /** Types of resources that the server named. */
  readonly types: DeclaredTypes;
  /** True when the server declares `resources/stream`; undefined when the host has not asked what it declares. */
  readonly streams: () => boolean | undefined;
}

/** Bytes of a file up to which the user is not asked, where the user did not say. */
export const askAboveBytes: number = 2 ** 30;

/** What to do where the user cannot be asked. */
export const yesAdvice = "start the bridge with --yes-below and a size.";
