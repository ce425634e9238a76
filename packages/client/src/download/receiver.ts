import {
  advanceTransfer,
  httpError,
  SluiceError,
  startTransfer,
  type Interruption,
  type KeptBytes,
  type SluiceErrorCode,
  type Transfer,
  type TransferEvent,
} from "@sluice/core";
import { checkAnswer, type CheckedAnswer } from "./check-answer.ts";
import type { Lending } from "../net/exchange.ts";
import { fetchBytes, type Refusal } from "./fetch-bytes.ts";
import { unrouted } from "../net/http-error.ts";
import { startPace } from "./pace.ts";
import { pause } from "./pause.ts";
import type { Permit } from "./permit.ts";
import { ensurePromised, ensureSize, totalMsOf, type StreamSettings } from "./stream-options.ts";
import type { Supply } from "./supply.ts";

/** Where received bytes go. */
interface ByteSink {
  /**
   * Takes a chunk that begins at an offset of the object, for good or, with `release`, until that
   * is called. A promise means: no more until it resolves.
   */
  write(chunk: Uint8Array, at: number, release?: () => void): Promise<void> | void;
  /** Memory that chunks may be lent in. Absent: every chunk is given. */
  readonly lending?: Lending;
  /** Forgets what was written. Absent where bytes that went out cannot be taken back. */
  restart?(): Promise<void>;
}

/** One line of bytes of a resource, from some offset on, that mends itself. */
export interface Receiver {
  /** Gets the first answer, whatever tries that takes. */
  open(): Promise<CheckedAnswer>;
  /**
   * Gives every byte to the sink, up to `until()` where that is given, which may shrink meanwhile.
   * Rejects with what cannot be mended: `precondition_failed` when the resource changed and the
   * sink cannot start again, `interrupted`, `timeout`, `too_large`, `protocol` and so on. A second
   * call is a `TypeError`. While `mayGiveWay()` is true, a server that says 429 or 503 is not waited
   * for: the refusal rejects at once.
   */
  receive(sink: ByteSink, until?: () => number, mayGiveWay?: () => boolean): Promise<void>;
  /** The answer that the bytes come from by now; before the first of them, the one that waits. */
  latest(): CheckedAnswer | undefined;
  /** Gives up an answer that nobody will read. */
  cancel(): void;
}

/** A receiver over a supply; see `advanceTransfer` for what it does about which fault. */
export function createReceiver(
  uri: string,
  supply: Supply,
  settings: StreamSettings,
  kept?: KeptBytes,
): Receiver {
  const { signal, timeouts } = settings;
  let transfer: Transfer = startTransfer(kept);
  let permit: Permit | undefined;
  let current: CheckedAnswer | undefined;
  let latest: CheckedAnswer | undefined;
  /** What the sink was given comes from this one, also while a newer one waits for a restart. */
  let source: CheckedAnswer | undefined;
  let begun = false;
  let givesWay: (() => boolean) | undefined;
  let written = transfer.receivedBytes;
  let writtenTag = kept?.etag;
  let spentMs = 0;
  let fault: unknown;

  function advance(event: TransferEvent): void {
    transfer = advanceTransfer(transfer, event);
  }

  function interrupt(reason: Interruption, error?: unknown): void {
    fault = error;
    advance({ type: "interrupted", reason, random: Math.random() });
  }

  async function authorize(): Promise<void> {
    try {
      permit = await supply.permit();
    } catch (error) {
      return waitForPermit(error);
    }
    advance({ type: "authorized", reusable: permit.target !== undefined });
  }

  function waitForPermit(error: unknown): void {
    if (!supply.mayRetry(error)) throw error;
    const { code, retryAfterMs } = error as SluiceError;
    const status = code === "throttled" ? 429 : 503;
    const wait = retryAfterMs !== undefined && { retryAfterMs };
    interrupt({ kind: "status", status, ...wait }, error);
  }

  async function request(end: number | undefined): Promise<void> {
    let next: CheckedAnswer | Refusal;
    try {
      permit = await supply.permit();
    } catch (error) {
      return waitForPermit(error);
    }
    try {
      next = await ask(permit, end);
    } catch (error) {
      if (!isPassing(error)) throw error;
      return interrupt({ kind: "network" }, error);
    }
    if (!("answer" in next)) {
      const what = `GET of ${JSON.stringify(uri)}`;
      const refusal = next.isUnrouted
        ? unrouted(what)
        : httpError(what, next.status, next.retryAfterMs);
      if (busyCodes.has(next.status) && givesWay?.()) throw refusal;
      return interrupt({ kind: "status", ...next }, refusal);
    }
    const { start, size, etag } = next;
    try {
      ensureSize(uri, size, settings.maxStreamSize);
      next = withPromise(next);
    } catch (error) {
      next.answer.body.cancel();
      throw error;
    }
    const facts = { ...(size !== undefined && { size }), ...(etag !== undefined && { etag }) };
    const { receivedBytes, etag: keptTag } = transfer;
    const isRangeless = start < receivedBytes && etag !== undefined && etag === keptTag;
    advance({ type: "response", start, ...facts });
    if (transfer.state === "receiving") current = latest = next;
    else {
      next.answer.body.cancel();
      fault = isRangeless ? rangeless() : undefined;
    }
  }

  /** A digest that was promised of a version holds for every answer of it: parts often name none. */
  function withPromise(next: CheckedAnswer): CheckedAnswer {
    const isSame = next.etag !== undefined && next.etag === latest?.etag;
    const promised = isSame ? latest?.digest : undefined;
    if (promised !== undefined && next.digest !== undefined && promised !== next.digest)
      throw new SluiceError(
        "corrupt",
        `client: ${JSON.stringify(uri)}: the server promises another digest of the same version by now; fetch it again`,
      );
    const digest = next.digest ?? promised;
    // a receiver of one range among several leaves that to the one that asked first
    if (!kept && next.start === 0) ensurePromised(uri, digest, settings);
    return digest === undefined ? next : { ...next, digest };
  }

  async function ask(from: Permit, end: number | undefined): Promise<CheckedAnswer | Refusal> {
    const { receivedBytes: start, etag } = transfer;
    const { target } = from;
    const direct = supply.takeDirect(from);
    // bytes on the call's own answer always begin at 0
    if (direct && (start === 0 || !target)) {
      try {
        return checkAnswer(direct, { uri, permit: from });
      } catch (error) {
        direct.body.cancel();
        throw error;
      }
    }
    direct?.body.cancel();
    if (!target)
      throw new SluiceError("interrupted", "client: these bytes can be asked for only once");
    const range = { start, ...(end !== undefined && { end }) };
    const demand =
      start === 0 && end === undefined ? undefined : { range, ...(etag !== undefined && { etag }) };
    return fetchBytes(uri, { ...from, target }, settings, demand, signal);
  }

  async function pump(from: CheckedAnswer, sink: ByteSink, until?: Bound): Promise<void> {
    const { answer, end } = from;
    source = from;
    writtenTag = from.etag;
    let expired: SluiceError | undefined;
    const pace = startPace(timeouts, totalMsOf(timeouts, transfer.size) - spentMs, (error) => {
      expired ??= error;
      answer.body.cancel(error);
    });
    function take(chunk: Uint8Array, release?: () => void): Promise<void> | void {
      pace.note(chunk.length);
      const at = transfer.receivedBytes;
      const room = (until?.() ?? Number.POSITIVE_INFINITY) - at;
      const mine = chunk.length > room ? chunk.subarray(0, Math.max(0, room)) : chunk;
      advance({ type: "received", bytes: mine.length });
      if (transfer.state === "failed") throw failure();
      written = transfer.receivedBytes;
      ensureSize(uri, written, settings.maxStreamSize);
      const wait = mine.length > 0 ? sink.write(mine, at, release) : undefined;
      // another receiver has the rest; a body that ends here anyway is read to its end
      if (chunk.length > room || (mine.length === room && written !== end)) throw enough;
      if (!wait) return undefined;
      pace.hold();
      return wait.finally(() => pace.go());
    }
    try {
      await answer.body.pump(take, sink.lending);
      advance({ type: "ended" });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error === enough) return;
      const reason = expired ?? error;
      if (!SluiceError.is(reason) || reason.code !== "interrupted") throw reason;
      interrupt({ kind: "network" }, reason);
    } finally {
      spentMs += pace.stop();
      current = undefined;
    }
  }

  function failure(): SluiceError {
    const { code, retryAfterMs } = (transfer as Extract<Transfer, { state: "failed" }>).failure;
    // what happened last says more than that it happened too often
    if (SluiceError.is(fault) && (fault.code === code || code === "interrupted")) return fault;
    const why = reasons[code] ?? "the transfer failed";
    return new SluiceError(code, `client: ${JSON.stringify(uri)}: ${why}`, {
      cause: fault,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }

  function rangeless(): SluiceError {
    return new SluiceError(
      "interrupted",
      `client: ${JSON.stringify(uri)} broke off again and again, and the server gives no ranges to go on from; try again on a better connection`,
    );
  }

  /** The rest cannot be had, and what went out cannot be taken back. */
  function stuck(): SluiceError {
    const same = latest?.etag === writtenTag && SluiceError.is(fault) && passing.has(fault.code);
    const why = same
      ? "broke off and cannot be continued, because the server gives no ranges of it"
      : "changed on the server while it was read";
    return new SluiceError(
      same ? "interrupted" : "precondition_failed",
      `client: ${JSON.stringify(uri)} ${why}; start again`,
      { cause: fault },
    );
  }

  /** The pauses together became longer than the transfer may take. */
  function tired(): SluiceError {
    if (SluiceError.is(fault)) return fault;
    const why = "the pauses between tries take too long; try again later, or raise totalMs";
    return new SluiceError("timeout", `client: ${JSON.stringify(uri)}: ${why}`, { cause: fault });
  }

  async function step(end: number | undefined): Promise<void> {
    signal.throwIfAborted();
    if (transfer.state === "requested") return authorize();
    if (transfer.state === "authorized") return request(end);
    if (transfer.state === "failed") throw failure();
    if (transfer.state !== "interrupted")
      throw new TypeError(`client: ${transfer.state} needs no step`);
    const { action, delayMs } = transfer.recovery;
    const pauseMs = delayMs * timeouts.pauseScale;
    if (!supply.mayPause(pauseMs, transfer.size)) throw tired();
    await pause(pauseMs, signal);
    advance({ type: "resumed" });
    // an SDK renews access when a call of its own is refused, so a refresh is another call
    const again = action === "refresh" || (transfer as Transfer).state === "requested";
    if (again && permit) supply.spend(permit);
  }

  function cancel(): void {
    current?.answer.body.cancel();
    current = undefined;
  }

  return {
    async open() {
      for (;;) {
        if (current) return current;
        await step(undefined);
      }
    },
    async receive(sink, until, mayGiveWay) {
      if (begun)
        throw new TypeError(
          "client: the bytes are read or saved once; call streamResource again for another copy",
        );
      begun = true;
      givesWay = mayGiveWay;
      try {
        for (;;) {
          const { state, receivedBytes, size } = transfer;
          if (receivedBytes < written) {
            if (!sink.restart) throw stuck();
            await sink.restart();
            written = receivedBytes;
          }
          const end = until?.();
          if (state === "verifying" || receivedBytes >= (end ?? size ?? Number.POSITIVE_INFINITY))
            if (state !== "receiving" || receivedBytes > 0) return;
          if (current) await pump(current, sink, until);
          else await step(end);
        }
      } finally {
        cancel();
      }
    },
    latest: () => source ?? latest,
    cancel,
  };
}

type Bound = () => number;

// ends a pump whose remaining bytes are somebody else's
const enough = new Error("enough");

/** Faults of the network, which another try may mend. */
function isPassing(error: unknown): boolean {
  return SluiceError.is(error) && passing.has(error.code);
}

// the server has enough to do: fewer connections may be all that it wants
const busyCodes: ReadonlySet<number> = new Set([429, 503]);

const passing: ReadonlySet<SluiceErrorCode> = new Set(["interrupted", "unavailable", "timeout"]);

const reasons: Partial<Record<SluiceErrorCode, string>> = {
  interrupted: "the connection broke too often; try again later",
  precondition_failed: "it keeps changing while it is read; try again later",
  protocol: "the server sent more bytes than it promised",
};
