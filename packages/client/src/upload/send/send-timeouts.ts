import { peerTimeouts, type PeerTimeouts } from "../../net/timeouts.ts";

/** How long to wait for what, in milliseconds. */
export interface SendTimeouts extends PeerTimeouts {
  /** For the answer, once everything is sent, and 1 s more for every 16 MiB of it. Default: 60 s. */
  readonly answerMs: number;
}

/** The defaults. */
export const sendTimeouts: SendTimeouts = { ...peerTimeouts, answerMs: 60_000 };

/** How long to wait for an answer to a body that was sent. */
export function answerMsOf(timeouts: SendTimeouts, bytes: number): number {
  return timeouts.answerMs + (bytes / 2 ** 24) * 1_000;
}
