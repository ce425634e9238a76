import { codeOfStatus, type SluiceErrorCode } from "../errors/error.ts";

/** The facts that every state has. */
export interface TransferProgress {
  /** Bytes kept, from byte 0 on and without a gap. When it falls to 0, discard what was written. */
  readonly receivedBytes: number;
  /** Bytes of the whole object, once a response told it. */
  readonly size?: number | undefined;
  /** Strong tag, with quotes, of the version that the kept bytes belong to. */
  readonly etag?: string | undefined;
  /** The last authorization gave a URL that can be fetched again. */
  readonly reusable: boolean;
  /** The spent part of the retry budgets. */
  readonly tries: SpentRetries;
}

/** Why a transfer failed for good. */
export interface TransferFailure {
  readonly code: SluiceErrorCode;
  /** Milliseconds after which the server would have another try, when it said so. */
  readonly retryAfterMs?: number | undefined;
}

/** Spent budgets. All but `restarts` begin anew with every 64 KiB of progress. */
export interface SpentRetries {
  readonly refreshes: number;
  readonly reissues: number;
  readonly attempts: number;
  /** Never forgiven: an object that keeps changing must not be fetched for ever. */
  readonly restarts: number;
  /** `receivedBytes` when the budgets last began anew. */
  readonly mark: number;
}

/** Why bytes stopped or never came. */
export type Interruption =
  /** The connection failed, stalled or ended early. */
  | { readonly kind: "network" }
  /** An HTTP status other than 200 and 206, with its `Retry-After` where there was one. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfterMs?: number }
  /** The response belongs to another version than the kept bytes, or to another place in it. */
  | { readonly kind: "changed" }
  /** The response contradicts the grant that it was asked for with: nothing of it was kept. */
  | { readonly kind: "contradicted" }
  /** The whole object came where its rest was asked for, in the same version: the server gives no ranges. */
  | { readonly kind: "rangeless" };

/** What to do about an interruption. */
export interface Recovery {
  readonly reason: Interruption;
  /**
   * - `retry`: ask again for the bytes from `receivedBytes` on
   * - `refresh`: renew the access token first, then as `retry`
   * - `reauthorize`: call `resources/stream` again, then as `retry`
   * - `restart`: discard what was kept and ask for the whole object
   */
  readonly action: "retry" | "refresh" | "reauthorize" | "restart";
  /** Milliseconds to wait first. */
  readonly delayMs: number;
}

const maxRefreshes = 1;
const maxReissues = 2;
const maxAttempts = 5;
const maxRestarts = 3;
const maxRetryAfterMs = 60_000;
/**
 * Bytes after which tries begin anew. One byte per connection is not progress: a server could keep
 * a client busy for ever.
 */
export const progressBytes = 65_536;

/**
 * Milliseconds to wait before a try when `attempts` failed without progress in between; `undefined` for no further one:
 * after five, or when the server asks for more than 60 s. The first pause is 250 to 500 ms, each further one twice as
 * long. `random` from [0, 1) spreads them. For downloads and uploads; both multiply it by their `pauseScale`.
 */
export function retryDelayMs(
  attempts: number,
  retryAfterMs: number | undefined,
  random: number,
): number | undefined {
  if (attempts >= maxAttempts || (retryAfterMs ?? 0) > maxRetryAfterMs) return undefined;
  const pauseMs = 500 * 2 ** attempts;
  // never earlier than the server says, and not all of its clients in the same moment
  return retryAfterMs === undefined
    ? Math.round(pauseMs * (0.5 + random / 2))
    : retryAfterMs + Math.round(pauseMs * random);
}

/**
 * Decides what follows an interruption. Pure; `random` from [0, 1) spreads waiting times.
 * Access is refreshed once, `resources/stream` called again twice, everything else tried five
 * times with growing pauses, each without progress in between; the object fetched again from 0
 * three times in all. A `Retry-After` is waited for, and up to the growing pause longer; one over
 * 60 s is a failure that says so.
 */
export function planRecovery(
  transfer: TransferProgress,
  reason: Interruption,
  random: number,
):
  | { readonly recovery: Recovery; readonly tries: SpentRetries }
  | { readonly failure: TransferFailure } {
  const tries = renewTries(transfer);
  const cure = reason.kind === "status" ? cureOf(reason.status) : cures[reason.kind];
  const code = codeOf(reason);
  const retryAfterMs = reason.kind === "status" ? reason.retryAfterMs : undefined;
  const failure = { code, retryAfterMs };

  function plan(action: Recovery["action"], delayMs: number, spent: Partial<SpentRetries>) {
    return { recovery: { reason, action, delayMs }, tries: { ...tries, ...spent } };
  }

  switch (cure) {
    case "refresh":
      if (tries.refreshes >= maxRefreshes) return { failure };
      return plan("refresh", 0, { refreshes: tries.refreshes + 1 });
    case "reauthorize":
      if (tries.reissues >= maxReissues) return { failure };
      return plan("reauthorize", 0, { reissues: tries.reissues + 1 });
    case "restart":
      if (tries.restarts >= maxRestarts) return { failure };
      return plan("restart", 0, { restarts: tries.restarts + 1 });
    case "retry": {
      const delayMs = retryDelayMs(tries.attempts, retryAfterMs, random);
      if (delayMs === undefined) return { failure };
      const attempts = tries.attempts + 1;
      // without a strong tag no check can show that the rest fits what is kept
      if (transfer.receivedBytes > 0 && transfer.etag === undefined)
        return tries.restarts >= maxRestarts
          ? { failure }
          : plan("restart", delayMs, { attempts, restarts: tries.restarts + 1 });
      return plan(transfer.reusable ? "retry" : "reauthorize", delayMs, { attempts });
    }
    default:
      return { failure };
  }
}

const cures = {
  network: "retry",
  changed: "restart",
  rangeless: "restart",
  // a new grant names what there is by now, and another request may find the storage well
  contradicted: "reauthorize",
} as const satisfies Partial<Record<Interruption["kind"], Recovery["action"]>>;

function renewTries({ tries, receivedBytes }: TransferProgress): SpentRetries {
  if (receivedBytes - tries.mark < progressBytes) return tries;
  return { refreshes: 0, reissues: 0, attempts: 0, restarts: tries.restarts, mark: receivedBytes };
}

function cureOf(status: number): Recovery["action"] | undefined {
  if (status === 401) return "refresh";
  if (status === 404 || status === 410) return "reauthorize";
  if (status === 412 || status === 416) return "restart";
  if (status === 408 || status === 425 || status === 429) return "retry";
  return status >= 500 && status !== 501 && status !== 505 ? "retry" : undefined;
}

function codeOf(reason: Interruption): SluiceErrorCode {
  if (reason.kind === "changed") return "precondition_failed";
  if (reason.kind !== "status") return "interrupted";
  return codeOfStatus(reason.status);
}
