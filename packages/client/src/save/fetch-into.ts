import { SluiceError, type Lending, type SluiceErrorCode } from "@sluice/core";
import { minRoomBytes } from "@sluice/core/internal/node";
import { systemClock } from "@sluice/core/internal";
import type { CheckedAnswer } from "../download/check-answer.ts";
import type { PartFile } from "./part-file.ts";
import { createResumableDownload, type ResumableDownload } from "../download/resumable-download.ts";
import type { KeptVersion, ResumeKeeper } from "./resume-record.ts";
import { ensureSpare, spareBytes } from "./save-target.ts";
import type { TransferCount } from "../download/stream-options.ts";
import { countOf, type OpenedResource } from "../download/open-resource.ts";

/** A part file, and the listener to its progress. */
export interface Filling {
  readonly part: PartFile;
  readonly keeper: ResumeKeeper | undefined;
  readonly onProgress: ((progress: TransferCount) => void) | undefined;
  readonly reserve: ((bytes: number) => Promise<void>) | undefined;
  readonly pace: ((bytes: number) => Promise<void>) | undefined;
  /** Size that the disk had room for; absent if the server did not tell it. */
  readonly checkedSize: number | undefined;
}

/**
 * Fetches an opened resource from byte 0 into an empty part file over one connection, from 0 again if it changes.
 * Returns the response that the bytes belong to in the end.
 */
export async function fetchWhole(filling: Filling, opened: OpenedResource): Promise<CheckedAnswer> {
  const { part, keeper, onProgress, reserve, pace, checkedSize } = filling;
  const { download } = opened;
  const buffer = part.writeBuffer(writeBytesOf(oneConnection));
  const latest = (): CheckedAnswer => download.latest() as CheckedAnswer;
  let checkedBytes = spareBytes;
  async function makeRoom(end: number, isChecked: boolean): Promise<void> {
    await reserve?.(end);
    if (isChecked) return;
    await ensureSpare(part.directory);
    checkedBytes = end + spareBytes;
  }
  await download.receive({
    lending: oneConnection,
    write(chunk, at, release) {
      const end = at + chunk.length;
      const { size } = latest();
      onProgress?.(countOf(end, size));
      keeper?.note();
      const written = (): Promise<void> | void => buffer.write(chunk, at, release);
      const isChecked = end <= Math.max(checkedBytes, checkedSize ?? 0);
      const writing = reserve || !isChecked ? makeRoom(end, isChecked).then(written) : written();
      return paced(writing, chunk.length, pace);
    },
    async restart() {
      await buffer.flush();
      await keeper?.forget();
      await part.restart();
    },
  });
  await buffer.flush();
  return latest();
}

/**
 * Fetches what a part file lacks of one version of a resource, over any number of connections. One that the server
 * refuses as one too many, that finds the URL used up, or that breaks for good, leaves its range to the others and is
 * not reopened; the fault of the last one is waited out, and then ends the save. Rejects with `precondition_failed`
 * when that version is gone or the server has no ranges; every connection is closed then, and nothing is written any
 * more.
 */
export async function fetchShares(
  filling: Filling,
  opened: OpenedResource,
  version: KeptVersion,
  connections: number,
): Promise<void> {
  const { part } = filling;
  await filling.reserve?.(version.size);
  const keptBytes = part.gapless();
  const missing = version.size - keptBytes;
  const rounds = roundsOf(missing / connections, opened.download.latest()?.latencyMs);
  const shares = shareRanges(missing, connections, rounds, minShareBytes);
  const progress = { received: keptBytes };
  const first = opened.download.latest()?.start === keptBytes ? opened.download : undefined;
  if (!first) opened.download.cancel();
  await runConnections(
    { most: connections, isBusy: () => part.isBusy(), cancel: opened.cancel },
    (running, isFirst) =>
      fetchConnection(filling, opened, version, shares, {
        kept: keptBytes,
        lending: isFirst ? oneConnection : oneOf(connections),
        progress,
        running,
        first: isFirst ? first : undefined,
      }),
  );
}

/** Has the next chunk wait. Nothing waits after the last one of a share, whose wait may then be in vain. */
function paced(
  writing: Promise<void> | void,
  bytes: number,
  pace: Filling["pace"],
): Promise<void> | void {
  if (!pace) return writing;
  const pause = Promise.resolve(writing).then(() => pace(bytes));
  pause.catch(() => {});
  return pause;
}

// fewer, larger writes: the system call costs more than the bytes
const oneConnection: Lending = { blocks: 6, blockBytes: 2 ** 20, allocate: newSharedMemory };
/** Memory of a further connection: all of them together need no more than 12 MiB. */
function oneOf(connections: number): Lending {
  return { blocks: 3, blockBytes: connections > 8 ? 2 ** 18 : 2 ** 19, allocate: newSharedMemory };
}

/** Memory that the thread of a file reads too. */
function newSharedMemory(bytes: number): Uint8Array {
  return Buffer.from(new SharedArrayBuffer(bytes));
}

/** A block is written once nothing more is read into it. */
function writeBytesOf({ blockBytes }: Lending): number {
  return blockBytes - minRoomBytes + 1;
}

/** A request for less costs more time than it saves: a file of at most this size has no share, and is not resumed. */
export const minShareBytes: number = 512 * 1_024;

/**
 * How many shares each connection gets. The hash follows the gapless front of the file, so shares finished in order
 * leave it little to do in the end. Every further share is a connection to open, which is cheap only where the server
 * is near.
 */
function roundsOf(connectionBytes: number, latencyMs = Number.POSITIVE_INFINITY): number {
  return latencyMs > nearMs
    ? 1
    : Math.max(1, Math.min(8, Math.floor(connectionBytes / roundBytes)));
}

const nearMs = 15;
const roundBytes = 8 * 2 ** 20;

interface ConnectionState {
  readonly kept: number;
  readonly lending: Lending;
  readonly progress: { received: number };
  readonly running: RunningConnections;
  /** Has a response already that begins after the kept bytes. */
  readonly first: ResumableDownload | undefined;
}

async function fetchConnection(
  { part, keeper, onProgress, pace }: Filling,
  { facts, grants, settings, download }: OpenedResource,
  version: KeptVersion,
  shares: SharedRanges,
  { kept, lending, progress, running, first }: ConnectionState,
): Promise<void> {
  // the part file keeps each one, and a connection may come too late for a share
  let ownBuffer: ReturnType<PartFile["writeBuffer"]> | undefined;
  let unread = first;
  let gaveWay = false;
  const mayGiveWay = (): boolean => (gaveWay = running.count() > 1);
  for (let share = shares.next(); share; share = shares.next()) {
    const { start, end, extend, note } = share;
    const hadOthers = running.count() > 1;
    const buffer = (ownBuffer ??= part.writeBuffer(writeBytesOf(lending)));
    const from = kept + start;
    const { etag, size } = version;
    const shareDownload =
      unread && from === kept
        ? download
        : createResumableDownload(facts.uri, grants, settings, { receivedBytes: from, etag, size });
    unread = undefined;
    const sink = {
      lending,
      write(chunk: Uint8Array, at: number, release?: () => void) {
        progress.received += chunk.length;
        const reached = at + chunk.length;
        note(reached - kept);
        const remainingBytes = kept + end() - reached;
        const isNear = remainingBytes > 0 && remainingBytes <= lending.blockBytes;
        const { end: answered = 0 } = shareDownload.latest() ?? {};
        // a single one continues the response that it has
        if (isNear && running.count() === 1 && answered > kept + end()) extend();
        onProgress?.(countOf(progress.received, size));
        keeper?.note();
        return paced(buffer.write(chunk, at, release), chunk.length, pace);
      },
    };
    try {
      await shareDownload.receive(sink, () => kept + end(), mayGiveWay);
      await buffer.flush();
    } catch (error) {
      if (!SluiceError.is(error)) throw error;
      const isUsedUp = usedUpCodes.has(error.code);
      if (!error.retryable && !isUsedUp) throw error;
      await buffer.flush();
      share.giveBack();
      if (running.count() > 1) {
        running.refuse();
        break;
      }
      // the others have finished: nothing is left to yield to
      if (!(isUsedUp ? hadOthers : gaveWay)) throw error;
      gaveWay = false;
    }
    if (running.areTooMany()) break;
  }
  running.leave();
}

// of a URL that serves one request: another connection was first
const usedUpCodes: ReadonlySet<SluiceErrorCode> = new Set(["not_found", "expired"]);

/** The connections that fetch one file, as each of them sees them. */
export interface RunningConnections {
  count(): number;
  /** True while the file gets its bytes faster than it can write them: one connection fewer costs no time then. */
  areTooMany(): boolean;
  /** The server refuses this one: the others are the maximum. */
  refuse(): void;
  /** This one stops fetching. Called in the same turn as that decision: the last one must not leave work behind. */
  leave(): void;
}

const lookEveryMs = 10;

/**
 * Runs `fetch` over one connection, and over up to `most` while the file waits for bytes: after each look over twice as
 * many. When one rejects, `cancel` gets the reason and must end the others; `run` rejects with it.
 */
export async function runConnections(
  {
    most,
    isBusy,
    cancel,
  }: {
    readonly most: number;
    /** True while bytes wait for the file. */
    readonly isBusy: () => boolean;
    readonly cancel: (reason: unknown) => void;
  },
  fetch: (connections: RunningConnections, isFirst: boolean) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let count = 0;
  let allowed = most;
  /** From 0 to 1: how often the file was busy of late. */
  let load = 0;
  const connections: RunningConnections = {
    count: () => count,
    areTooMany: () => load > 0.85 && count > 1,
    refuse: () => void (allowed = count - 1),
    leave: () => void (count -= 1),
  };
  let stopLooking: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      function open(isFirst: boolean): void {
        count += 1;
        const fetching = fetch(connections, isFirst).finally(() => running.delete(fetching));
        running.add(fetching);
        fetching.then(() => void (running.size === 0 && resolve()), reject);
      }
      function look(): void {
        stopLooking = systemClock.schedule(look, lookEveryMs);
        const busy = isBusy();
        load += (Number(busy) - load) / 4;
        if (busy || load > 0.5) return;
        for (let more = Math.min(count, allowed - count); more > 0; more -= 1) open(false);
      }
      open(true);
      if (most > 1) stopLooking = systemClock.schedule(look, lookEveryMs);
    });
  } catch (error) {
    stopLooking?.();
    cancel(error);
    await Promise.allSettled(running);
    throw error;
  }
  stopLooking?.();
}

/** A part of an object that one connection fetches. Its end moves when another one takes over the rest. */
interface Share {
  readonly start: number;
  /** One past the last byte that is this share's own. */
  readonly end: () => number;
  /** Takes over the next share if that one waits, so that one response brings both. Returns the new end. */
  readonly extend: () => number;
  /** Tells how far it is. */
  readonly note: (at: number) => void;
  /** Leaves the unfetched rest to the next one that asks, and fetches nothing more. */
  readonly giveBack: () => void;
}

/** Divides an object among connections; one that is done early takes half of what the slowest has left. */
interface SharedRanges {
  /** The next share, or `undefined` when nothing worth a request is left. */
  next(): Share | undefined;
}

/**
 * Shares of an object of `size` bytes: equal ones first, from the front on and `rounds` for each
 * connection, then halves of what is left. More rounds keep the finished part of the file
 * together; fewer need fewer requests.
 */
export function shareRanges(
  size: number,
  connections: number,
  rounds: number,
  minBytes: number,
): SharedRanges {
  const open: { at: number; end: number }[] = [];
  const count = Math.max(1, Math.min(connections * rounds, Math.floor(size / minBytes)));
  const edge = (index: number): number => Math.floor((size / count) * index);
  const freshRanges = Array.from({ length: count }, (_, index) => ({
    at: edge(index),
    end: index === count - 1 ? size : edge(index + 1),
  }));

  function take(): { at: number; end: number } | undefined {
    const fresh = freshRanges.shift();
    if (fresh) return fresh;
    const [slowest] = open.toSorted((a, b) => b.end - b.at - (a.end - a.at));
    if (!slowest || slowest.end - slowest.at < 2 * minBytes) return undefined;
    const middle = slowest.at + Math.ceil((slowest.end - slowest.at) / 2);
    const upperHalf = { at: middle, end: slowest.end };
    slowest.end = middle;
    return upperHalf;
  }

  function close(range: { at: number; end: number }): void {
    if (open.includes(range)) open.splice(open.indexOf(range), 1);
  }

  return {
    next() {
      const range = take();
      if (!range) return undefined;
      open.push(range);
      return {
        start: range.at,
        end: () => range.end,
        extend() {
          if (freshRanges[0]?.at === range.end) range.end = freshRanges.shift()!.end;
          return range.end;
        },
        note(at) {
          range.at = at;
          if (at >= range.end) close(range);
        },
        giveBack() {
          close(range);
          if (range.at >= range.end) return;
          const behind = freshRanges.findIndex(({ at }) => at > range.at);
          // from the front on, so that the finished part of the file stays together
          freshRanges.splice(behind < 0 ? freshRanges.length : behind, 0, {
            at: range.at,
            end: range.end,
          });
        },
      };
    },
  };
}
