import type { SluiceErrorCode } from "../errors/error.ts";
import {
  planRecovery,
  type Interruption,
  type Recovery,
  type TransferFailure,
  type TransferProgress,
} from "./recovery.ts";

/**
 * One download as its client sees it:
 * `requested → authorized → receiving ⇄ interrupted → verifying → complete`, and `failed`,
 * `cancelled`. A snapshot is never changed; {@link advanceTransfer} gives the next one.
 */
export type Transfer = TransferProgress &
  (
    | {
        readonly state:
          | "requested"
          | "authorized"
          | "receiving"
          | "verifying"
          | "complete"
          | "cancelled";
      }
    /** Bytes stopped. Wait `recovery.delayMs`, do what `recovery.action` says, report `resumed`. */
    | { readonly state: "interrupted"; readonly recovery: Recovery }
    | { readonly state: "failed"; readonly failure: TransferFailure }
  );

/** An event of the client's engine. */
export type TransferEvent =
  /** `resources/stream` was answered. `reusable`: with a URL that can be fetched again, also beside direct bytes. */
  | { readonly type: "authorized"; readonly reusable: boolean }
  /** A 200 (`start` 0) or a 206 came; `etag` is its strong tag with quotes. */
  | {
      readonly type: "response";
      readonly start: number;
      readonly size?: number | undefined;
      readonly etag?: string | undefined;
    }
  /** This many more bytes arrived. */
  | { readonly type: "received"; readonly bytes: number }
  /** The body ended cleanly. */
  | { readonly type: "ended" }
  /** The bytes stopped or never came. `random` is from [0, 1) and spreads the waiting times. */
  | { readonly type: "interrupted"; readonly reason: Interruption; readonly random: number }
  /** The recovery was begun. */
  | { readonly type: "resumed" }
  /** Length and every digest that was promised are right. */
  | { readonly type: "verified" }
  /** A fault that no retry mends, such as a full disk or wrong bytes. */
  | { readonly type: "failed"; readonly code: SluiceErrorCode }
  /** The user gave up. */
  | { readonly type: "cancelled" };

/** Bytes that an earlier transfer of the same resource left, from byte 0 on. */
export interface KeptBytes {
  readonly receivedBytes: number;
  /** Strong tag, with quotes, of the version they belong to. */
  readonly etag: string;
  readonly size?: number;
}

/** A new transfer; it resumes from `kept` if that has bytes. */
export function startTransfer(kept?: KeptBytes): Transfer {
  return {
    state: "requested",
    receivedBytes: 0,
    reusable: false,
    ...kept,
    tries: { refreshes: 0, reissues: 0, attempts: 0, restarts: 0, mark: kept?.receivedBytes ?? 0 },
  };
}

/**
 * The transfer after an event. Pure. `complete`, `failed` and `cancelled` are final and ignore
 * every event; an event that cannot happen in a state is a `TypeError`.
 *
 * Bytes of two versions never meet: a response continues the kept bytes only with the same strong
 * tag at exactly the next byte, otherwise the transfer begins again at 0.
 */
export function advanceTransfer(transfer: Transfer, event: TransferEvent): Transfer {
  const { state } = transfer;
  if (state === "complete" || state === "failed" || state === "cancelled") return transfer;
  const facts = factsOf(transfer);
  switch (event.type) {
    case "cancelled":
      return { ...facts, state: "cancelled" };
    case "failed":
      return fail(facts, { code: event.code });
    case "interrupted":
      if (state === "interrupted" || state === "verifying") break;
      return interrupt(facts, event.reason, event.random);
    case "authorized":
      if (state !== "requested") break;
      return { ...facts, state: "authorized", reusable: event.reusable };
    case "response":
      if (state !== "authorized") break;
      return respond(facts, event);
    case "received":
      if (state !== "receiving") break;
      return receive(facts, event.bytes);
    case "ended":
      if (state !== "receiving") break;
      return end(facts);
    case "resumed":
      if (state !== "interrupted") break;
      return resume(facts, transfer.recovery);
    case "verified":
      if (state !== "verifying") break;
      return { ...facts, state: "complete" };
  }
  throw new TypeError(`transfer: "${event.type}" cannot happen while ${state}`);
}

type ResponseEvent = Extract<TransferEvent, { type: "response" }>;

function respond(facts: TransferProgress, event: ResponseEvent): Transfer {
  const { receivedBytes, etag, size } = facts;
  const { start } = event;
  if (receivedBytes > 0 && start === receivedBytes) {
    const sameVersion = etag !== undefined && event.etag === etag;
    const sameSize = size === undefined || event.size === undefined || event.size === size;
    if (!sameVersion || !sameSize) return interrupt(facts, { kind: "changed" }, 0);
    return { ...facts, state: "receiving", size: event.size ?? size };
  }
  if (start !== 0) return interrupt(facts, { kind: "changed" }, 0);
  if (receivedBytes > 0) {
    const isSame = etag !== undefined && event.etag === etag;
    const plan = planRecovery(facts, { kind: isSame ? "rangeless" : "changed" }, 0);
    if ("failure" in plan) return fail(facts, plan.failure);
    return begin({ ...facts, tries: plan.tries }, event);
  }
  return begin(facts, event);
}

/** Takes a body from byte 0 on, whatever was kept before. */
function begin(facts: TransferProgress, event: ResponseEvent): Transfer {
  return {
    state: "receiving",
    receivedBytes: 0,
    reusable: facts.reusable,
    tries: { ...facts.tries, mark: 0 },
    size: event.size,
    etag: event.etag,
  };
}

function receive(facts: TransferProgress, bytes: number): Transfer {
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    throw new RangeError("transfer: received bytes are a safe integer from 0");
  const receivedBytes = facts.receivedBytes + bytes;
  if (facts.size !== undefined && receivedBytes > facts.size)
    return fail(facts, { code: "protocol" });
  return { ...facts, state: "receiving", receivedBytes };
}

function end(facts: TransferProgress): Transfer {
  const { size, receivedBytes } = facts;
  // a body can end cleanly and early when a proxy in between hides the cut
  if (size !== undefined && receivedBytes < size) return interrupt(facts, { kind: "network" }, 0);
  return { ...facts, state: "verifying" };
}

function interrupt(facts: TransferProgress, reason: Interruption, random: number): Transfer {
  const plan = planRecovery(facts, reason, random);
  if ("failure" in plan) return fail(facts, plan.failure);
  const { recovery, tries } = plan;
  if (recovery.action !== "restart") return { ...facts, state: "interrupted", recovery, tries };
  return {
    state: "interrupted",
    recovery,
    receivedBytes: 0,
    reusable: facts.reusable,
    tries: { ...tries, mark: 0 },
  };
}

function resume(facts: TransferProgress, recovery: Recovery): Transfer {
  const again = recovery.action === "reauthorize" || !facts.reusable;
  return again
    ? { ...facts, state: "requested", reusable: false }
    : { ...facts, state: "authorized" };
}

function fail(facts: TransferProgress, failure: TransferFailure): Transfer {
  return { ...facts, state: "failed", failure };
}

function factsOf({ receivedBytes, size, etag, reusable, tries }: Transfer): TransferProgress {
  return { receivedBytes, size, etag, reusable, tries };
}
