import { SluiceError } from "@sluice/core";
import type { OpenedObject } from "@sluice/storage";
import type { AuditEntry } from "../audit/audit.ts";
import type { ReplyTransfer, TransferResult } from "../http/reply.ts";
import type { UsageMeter } from "./rate-limits.ts";
import { takePermits, type StreamLimiter } from "./stream-limiter.ts";

interface TransfersOptions {
  readonly limiter: StreamLimiter;
  readonly usage: UsageMeter;
  readonly onError: (error: unknown) => void;
}

/** The transfers of one Sluice: each takes a permit, and is counted and recorded when it ends. */
export class Transfers {
  readonly #options: TransfersOptions;

  constructor(options: TransfersOptions) {
    this.#options = options;
  }

  /**
   * Takes a permit, and one of a mount with limits of its own; gives the function that releases both (idempotent).
   * Throws as a `StreamLimiter` does.
   */
  take(
    principal: string | undefined,
    address: string | undefined,
    mountLimiter: StreamLimiter | undefined,
  ): () => void {
    return takePermits(this.#options.limiter, mountLimiter, principal, address);
  }

  /**
   * The bytes of an opened object. When the transfer ends, the permit is released, the bytes are charged and the audit
   * record is written.
   */
  open(opened: OpenedObject, ending: TransferEnding): ReplyTransfer {
    const { usage, onError } = this.#options;
    return new CountedTransfer(opened, ending, usage, onError);
  }

  /** Counts bytes that the client gets without a transfer. */
  charge(principal: string | undefined, bytes: number): void {
    this.#options.usage.charge(principal, bytes);
  }
}

interface TransferEnding {
  readonly entry: AuditEntry;
  /** Releases the permit. */
  readonly release: () => void;
  /** Called when the server knows how many bytes were sent. */
  readonly settle?: (sentBytes: number) => void;
}

/** A class rather than closures, because every response with bytes makes one. */
class CountedTransfer implements ReplyTransfer {
  readonly source: OpenedObject;
  declare readonly promisedBytes?: number;
  readonly #ending: TransferEnding;
  readonly #usage: UsageMeter;
  readonly #onError: (error: unknown) => void;
  #isOver = false;

  constructor(
    opened: OpenedObject,
    ending: TransferEnding,
    usage: UsageMeter,
    onError: (error: unknown) => void,
  ) {
    this.source = opened;
    const { range, info } = opened;
    const bytes = range ? range.end - range.start : info.size;
    if (bytes !== undefined) this.promisedBytes = bytes;
    this.#ending = ending;
    this.#usage = usage;
    this.#onError = onError;
  }

  end({ outcome, bytes, error }: TransferResult): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { entry, release, settle } = this.#ending;
    release();
    this.#usage.charge(entry.facts.principal, bytes);
    const reason = reasonFor(outcome, error);
    entry.end(outcome, reason === undefined ? { bytes } : { bytes, reason });
    if (outcome !== "offloaded") settle?.(bytes);
    if (outcome === "failed") this.#onError(error);
  }
}

function reasonFor(outcome: string, error: unknown): string | undefined {
  if (SluiceError.is(error)) return error.code;
  return outcome === "failed" ? "internal" : undefined;
}
