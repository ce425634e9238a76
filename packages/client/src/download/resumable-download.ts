import { SluiceError, type Lending } from "@sluice/core";
import {
  advanceTransfer,
  definedMembers,
  httpError,
  type Interruption,
  type KeptBytes,
  type Lateness,
  sleep,
  startTransfer,
  systemClock,
  type Transfer,
  type TransferEvent,
  watchThroughput,
} from "@sluice/core/internal";
import type { ChunkSink } from "../net/exchange.ts";
import { lateError, throughputRules } from "../net/timeouts.ts";
import { checkAnswer, type CheckedAnswer } from "./check-answer.ts";
import {
  changed,
  errorText,
  failureOf,
  isNetworkFault,
  lateBytes,
  otherDigest,
  pausedTooLong,
  rangeless,
  stuck,
  unrouted,
} from "./download-faults.ts";
import type { DownloadGrant } from "./download-grant.ts";
import { fetchBytes, type RefusedDownload } from "./fetch-bytes.ts";
import type { GrantProvider } from "./grant-provider.ts";
import { ensurePromised, ensureSize, type StreamSettings, totalMsOf } from "./stream-options.ts";

interface DownloadSink extends ChunkSink {
  /** Memory that chunks may be lent in. Absent: every chunk is given. */
  readonly lending?: Lending | undefined;
  /**
   * Forgets what was written. Absent if bytes that went out cannot be taken back: all of them are of one version then,
   * that of the response that waits or of the bytes that are kept.
   */
  restart?(): Promise<void>;
}

/** One line of bytes of a resource, from some offset on, that mends itself. */
export interface ResumableDownload {
  /** Gets the first response, however many tries it takes. */
  open(): Promise<CheckedAnswer>;
  /**
   * Gives every byte to the sink, up to `until()` if given, which may shrink meanwhile. Rejects with faults that cannot
   * be mended: `precondition_failed` when the resource changed and the sink cannot start again, `interrupted`,
   * `timeout`, `too_large`, `protocol` and so on. A second call is a `TypeError`. While `mayGiveWay()` is true, a
   * server that says 429 or 503 is not waited for: the refusal rejects at once.
   */
  receive(sink: DownloadSink, until?: () => number, mayGiveWay?: () => boolean): Promise<void>;
  /** The response that the bytes come from by now; before the first of them, the one that waits. */
  latest(): CheckedAnswer | undefined;
  /** Gives up a response that will not be read. */
  cancel(): void;
}

/**
 * A download over the grants of a provider; see `advanceTransfer` for what it does about which fault. The first request is for
 * what follows `kept`; a server that has another version by now sends all of it, unless `receive` may not start again.
 */
export function createResumableDownload(
  uri: string,
  grants: GrantProvider,
  settings: StreamSettings,
  kept?: KeptBytes,
): ResumableDownload {
  const { signal, timeouts } = settings;
  let transfer: Transfer = startTransfer(kept);
  let grant: DownloadGrant | undefined;
  let current: CheckedAnswer | undefined;
  let latest: CheckedAnswer | undefined;
  /** What the sink was given comes from this one, also while a newer one waits for a restart. */
  let source: CheckedAnswer | undefined;
  /** The only version that bytes may come from. */
  let pinned: Pick<CheckedAnswer, "etag" | "size"> | undefined;
  let hasBegun = false;
  let givesWay: (() => boolean) | undefined;
  let written = 0;
  let spentMs = 0;
  let fault: unknown;

  function advance(event: TransferEvent): void {
    transfer = advanceTransfer(transfer, event);
  }

  function interrupt(reason: Interruption, error?: unknown): void {
    fault = error;
    advance({ type: "interrupted", reason, random: Math.random() });
  }

  /** The grant in force; `undefined` if the server refused it for now, and is asked again after a pause. */
  async function requestGrant(): Promise<DownloadGrant | undefined> {
    try {
      return (grant = await grants.grant());
    } catch (error) {
      if (!grants.mayRetry(error)) throw error;
      const { code, retryAfterMs } = error as SluiceError;
      const status = code === "throttled" ? 429 : 503;
      interrupt(definedMembers({ kind: "status", status, retryAfterMs } as const), error);
      return undefined;
    }
  }

  async function authorize(): Promise<void> {
    const granted = await requestGrant();
    if (granted) advance({ type: "authorized", reusable: granted.target !== undefined });
  }

  async function request(end: number | undefined): Promise<void> {
    const granted = await requestGrant();
    if (!granted) return undefined;
    let next: CheckedAnswer | RefusedDownload;
    try {
      next = await ask(granted, end);
    } catch (error) {
      if (!isNetworkFault(error)) throw error;
      return interrupt({ kind: "network" }, error);
    }
    if (!("answer" in next)) {
      const what = `GET of ${JSON.stringify(uri)}`;
      const refusal = next.isUnrouted ? unrouted(what) : httpError(what, next.status, next);
      if (busyCodes.has(next.status) && givesWay?.()) throw refusal;
      return interrupt({ kind: "status", ...next }, refusal);
    }
    const { start, size, etag } = next;
    // an object with a tag gets another one when it changes
    const lostTag = next.answer.status === 200 && !etag && (latest ?? pinned)?.etag;
    const contradiction =
      next.contradiction ?? (lostTag ? errorText("something without an ETag") : undefined);
    if (contradiction) {
      next.answer.body.cancel();
      return interrupt({ kind: "contradicted" }, contradiction);
    }
    try {
      // also at byte 0, where no byte is kept yet that a tag could vouch for
      if (pinned && !isSameVersion(pinned, next)) throw changed(uri, fault);
      ensureSize(uri, size, settings.maxStreamBytes);
      next = withPromise(next);
    } catch (error) {
      next.answer.body.cancel();
      throw error;
    }
    const { receivedBytes, etag: keptTag } = transfer;
    const isRangeless = start < receivedBytes && etag !== undefined && etag === keptTag;
    advance({ type: "response", ...definedMembers({ start, size, etag }) });
    if (transfer.state === "receiving") current = latest = next;
    else {
      next.answer.body.cancel();
      fault = isRangeless ? rangeless(uri) : undefined;
    }
  }

  /** A digest that was promised of a version holds for every response of it: parts often name none. */
  function withPromise(next: CheckedAnswer): CheckedAnswer {
    const isSame = next.etag !== undefined && next.etag === latest?.etag;
    const promised = isSame ? latest?.sha256 : undefined;
    if (promised !== undefined && next.sha256 !== undefined && promised !== next.sha256)
      throw otherDigest(uri);
    const sha256 = next.sha256 ?? promised;
    // one of several connections leaves that to the one that asked first
    if (!pinned) ensurePromised(uri, sha256, settings);
    return sha256 === undefined ? next : { ...next, sha256 };
  }

  async function ask(
    from: DownloadGrant,
    end: number | undefined,
  ): Promise<CheckedAnswer | RefusedDownload> {
    const { receivedBytes: start, etag } = transfer;
    const { target } = from;
    const direct = grants.takeDirect(from);
    // bytes on the call's own response always begin at 0
    if (direct && (start === 0 || !target)) {
      try {
        return checkAnswer(direct, { uri, grant: from });
      } catch (error) {
        direct.body.cancel();
        throw error;
      }
    }
    direct?.body.cancel();
    if (!target) throw new SluiceError("interrupted", "client: these bytes come only once");
    const range = definedMembers({ start, end });
    const demand = start === 0 && end === undefined ? undefined : { range, etag };
    return fetchBytes(uri, { ...from, target }, settings, demand, signal);
  }

  async function pump(
    from: CheckedAnswer,
    sink: DownloadSink,
    until?: () => number,
  ): Promise<void> {
    const { answer, end } = from;
    source = from;
    let late: SluiceError | undefined;
    const totalMs = totalMsOf(timeouts, transfer.size) - spentMs;
    const giveUp = (lateness: Lateness): void => {
      late = lateError(lateness, lateBytes);
      answer.body.cancel(late);
    };
    // of the foreground: a process that waits for bytes must not end
    const watch = watchThroughput({ ...throughputRules(timeouts), totalMs }, giveUp, systemClock);
    function write(chunk: Uint8Array, release?: () => void): Promise<void> | void {
      watch.moved(chunk.length);
      const at = transfer.receivedBytes;
      const bound = until?.();
      // no other share takes bytes after the end of the whole: they are not part of this resource
      const isLast = bound === undefined || bound === transfer.size;
      const room = isLast ? Number.POSITIVE_INFINITY : bound - at;
      const ownPart = chunk.length > room ? chunk.subarray(0, Math.max(0, room)) : chunk;
      advance({ type: "received", bytes: ownPart.length });
      if (transfer.state === "failed") throw failure();
      written = transfer.receivedBytes;
      ensureSize(uri, written, settings.maxStreamBytes);
      const wait = ownPart.length > 0 ? sink.write(ownPart, at, release) : undefined;
      // another connection has the rest; a body that ends here anyway is read to its end
      if (chunk.length > room || (ownPart.length === room && written !== end)) throw enough;
      if (!wait) return undefined;
      watch.hold();
      return wait.finally(() => watch.go());
    }
    try {
      await answer.body.pump(write, sink.lending);
      advance({ type: "ended" });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error === enough) return;
      const reason = late ?? error;
      if (!SluiceError.is(reason) || reason.code !== "interrupted") throw reason;
      interrupt({ kind: "network" }, reason);
    } finally {
      spentMs += watch.stop();
      current = undefined;
    }
  }

  function failure(): SluiceError {
    return failureOf(uri, (transfer as Extract<Transfer, { state: "failed" }>).failure, fault);
  }

  async function step(end: number | undefined): Promise<void> {
    signal.throwIfAborted();
    if (transfer.state === "requested") return authorize();
    if (transfer.state === "authorized") return request(end);
    if (transfer.state === "failed") throw failure();
    if (transfer.state !== "interrupted") throw new TypeError(transfer.state);
    const { action, delayMs } = transfer.recovery;
    const pauseMs = delayMs * timeouts.pauseScale;
    if (!grants.mayPause(pauseMs, transfer.size)) throw pausedTooLong(uri, fault);
    await sleep(pauseMs, signal);
    advance({ type: "resumed" });
    // an SDK renews access when a call of its own is refused, so a refresh is another call
    const again = action === "refresh" || (transfer as Transfer).state === "requested";
    if (again && grant) grants.spend(grant);
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
      if (hasBegun) throw new TypeError("client: read or save once; call streamResource again");
      hasBegun = true;
      written = transfer.receivedBytes;
      if (!sink.restart) pinned = current ?? kept;
      givesWay = mayGiveWay;
      try {
        for (;;) {
          const { state, receivedBytes, size } = transfer;
          if (receivedBytes < written) {
            if (!sink.restart) throw stuck(uri, fault);
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

/** True for a response of a version. Without a strong tag its size is all that tells versions apart. */
function isSameVersion(
  { etag, size }: Pick<CheckedAnswer, "etag" | "size">,
  next: CheckedAnswer,
): boolean {
  if (next.etag !== etag) return false;
  const isUnknown = size === undefined || next.size === undefined;
  return next.size === size || (etag !== undefined && isUnknown);
}

// ends a pump whose remaining bytes another connection fetches
const enough = new Error("enough");

// the server has enough to do: fewer connections may be enough
const busyCodes: ReadonlySet<number> = new Set([429, 503]);
