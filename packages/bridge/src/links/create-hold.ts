import { randomBytes } from "node:crypto";
import { ConcurrencyLimiter } from "@sluice/core/internal";
import { createUriMapper, type StorageBackend } from "@sluice/storage";
import type { SpoolPart } from "../spool/spooled-string.ts";
import {
  fullFault,
  ownFault,
  heldBase,
  type ResultHold,
  type WritableStorage,
  storageFault,
} from "./result-hold.ts";
import { HeldPart, heldView, heldFolder, type HeldReaders } from "./held-part.ts";
import { boundedMemory, memoryAdvice } from "./bounded-memory.ts";

/** Options of {@link createMemoryHold}. */
export interface MemoryHoldOptions {
  /** Maximum bytes of memory for all results. Default: 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** How long a result is kept, in milliseconds. Its link may keep it longer. Default: 15 minutes. */
  readonly maxAgeMs?: number | undefined;
}

/**
 * Keeps large results in the memory of this process: nothing is written, and links end with the process. A result that
 * has no room fails with `no_space`. Throws a `RangeError` for an option that is not a number above 0.
 */
export function createMemoryHold(options: MemoryHoldOptions = {}): ResultHold {
  const { maxBytes = 256 * 2 ** 20, maxAgeMs = 15 * 60_000 } = options;
  const storage = boundedMemory(maxBytes);
  return createHold({
    storage,
    usedBytes: () => storage.usedBytes(),
    maxBytes,
    advice: memoryAdvice,
    maxAgeMs,
    isShared: false,
    faultOf: (error) => error,
    onError() {},
  });
}

/** Options of {@link createStorageHold}. */
export interface StorageHoldOptions {
  /** A storage that writes and removes, such as a bucket. Results lie below `held/` in it; nothing else is touched. */
  readonly storage: StorageBackend;
  /** Maximum bytes of all results, including those of other processes. Default: 10 GiB. */
  readonly maxBytes?: number | undefined;
  /** How long a result is kept, in milliseconds. Its link may keep it longer. Default: 15 minutes. */
  readonly maxAgeMs?: number | undefined;
  /** Gets faults of the storage, of which hosts hear no cause. Default: `console.error`. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/**
 * Keeps large results in a storage. Several processes may share it: each removes what it wrote when its time is over,
 * and a quarter of an hour later what a process left that ended. A result that has no room fails with `no_space`.
 *
 * Throws a `TypeError` for a storage that does not write and remove, and a `RangeError` for an option that is not a
 * number above 0.
 */
export function createStorageHold(options: StorageHoldOptions): ResultHold {
  const { storage, maxBytes = 10 * 2 ** 30, maxAgeMs = 15 * 60_000 } = options;
  const { onError = (error) => console.error(error) } = options;
  if (!isWritable(storage))
    throw new TypeError(
      "createStorageHold: the storage must write and remove; create it with writable: true",
    );
  return createHold({
    storage,
    maxBytes,
    advice: "raise --max-held",
    maxAgeMs,
    isShared: true,
    faultOf: (error) => storageFault(error, onError),
    onError,
  });
}

function isWritable(storage: StorageBackend): storage is WritableStorage {
  return storage.write !== undefined && storage.remove !== undefined;
}

interface HoldParts {
  readonly storage: WritableStorage;
  /** Maximum total bytes of results, in all processes. */
  readonly maxBytes: number;
  /** What they take. Default: their bytes. */
  readonly usedBytes?: () => number;
  /** What the operator can do where there is no room. */
  readonly advice: string;
  /** How long a result is kept after it came whole, in milliseconds. */
  readonly maxAgeMs: number;
  /** Other processes write there, too, or have. */
  readonly isShared: boolean;
  /** What a host hears of a fault of the storage. */
  readonly faultOf: (error: unknown) => unknown;
  /** Gets faults that no host hears of, such as of a removal. */
  readonly onError: (error: unknown) => void;
}

interface HeldEntry {
  readonly part: SpoolPart;
  readonly share: ShareState;
  readonly begunAt: number;
  isOpened: boolean;
  readers: number;
  /** When it came whole, in unix milliseconds; undefined while it comes. */
  wholeAt?: number;
  /** Until when it is kept, or may come. */
  until: number;
}

interface ShareState {
  bytes: number;
  isEnded: boolean;
}

/** How long a result may take to come. */
const longestComingMs = 15 * 60_000;
/** No link of a Sluice lives longer. */
const longestLinkMs = 15 * 60_000;
/** A link is made in this time after a result is whole, or never. */
const unlinkedMs = 60_000;
const sweepMs = 60_000;
const maxBlockBytes = 2 ** 20;
/** Of one process, at the same time. */
const maxWriters = 32;
const idPattern = /^(\d{13,16})-[0-9a-f]{32}$/;

/** Makes a hold over a storage. The name of an object says when every process may remove it. */
function createHold(parts: HoldParts): ResultHold {
  const { storage, maxBytes, advice, maxAgeMs, isShared, faultOf, onError } = parts;
  const { usedBytes = () => ownBytes + othersBytes } = parts;
  // written so that NaN fails it
  if (!(maxBytes > 0) || !(maxAgeMs > 0))
    throw new RangeError("a hold of results: maxBytes and maxAgeMs are numbers above 0");
  const mapper = createUriMapper(heldBase);
  const ownEntries = new Map<string, HeldEntry>();
  const writers = new ConcurrencyLimiter();
  let ownBytes = 0;
  /** Bytes of other processes, as the last look found them. */
  let othersBytes = 0;
  let lookedAt = -Infinity;
  let currentLook: Promise<void> | undefined;
  const closing = new AbortController();

  async function reserve(entry: HeldEntry, bytes: number): Promise<void> {
    // memory is taken in blocks, which may be as large as what is there already
    const wantedBytes = Math.max(bytes, Math.min(entry.part.bytes, maxBlockBytes));
    if (usedBytes() + wantedBytes > maxBytes) await makeRoom(entry.share, wantedBytes);
    if (ownBytes + othersBytes + bytes > maxBytes) throw fullFault(maxBytes, advice);
    ownBytes += bytes;
    entry.share.bytes += bytes;
  }

  /** Removes results until `bytes` have room, or none is left that may go for this session. */
  async function makeRoom(share: ShareState, bytes: number): Promise<void> {
    while (usedBytes() + bytes > maxBytes) {
      const goers = [...ownEntries.values()].filter(
        (entry) =>
          entry.wholeAt !== undefined &&
          entry.readers === 0 &&
          (entry.share.isEnded || entry.share.bytes > share.bytes + bytes),
      );
      const [first] = goers.toSorted(byWorth);
      if (!first) return;
      await first.part.discard();
    }
  }

  /** Writers of a service have buffers: 16 MiB in S3. Memory counts for itself. */
  function beginWriting(): () => void {
    const end = writers.take("", isShared ? maxWriters : Infinity);
    if (end) return end;
    throw ownFault("throttled", "too many large results come at the same time; try again");
  }

  async function dropOld(): Promise<void> {
    const now = Date.now();
    const old = [...ownEntries.values()].filter(({ until }) => until <= now);
    await Promise.all(old.map(({ part }) => part.discard()));
  }

  /** Removes what processes left that ended, and counts what others have. */
  async function look(): Promise<void> {
    let countedBytes = 0;
    let cursor: string | undefined;
    do {
      const { signal } = closing;
      const page = await storage.list(
        cursor === undefined
          ? { prefix: heldFolder, signal }
          : { prefix: heldFolder, signal, cursor },
      );
      for (const { key, size = 0 } of page.objects) {
        const id = key.slice(heldFolder.length);
        const stamp = idPattern.exec(id)?.[1];
        if (stamp === undefined || ownEntries.has(id)) continue;
        if (Number(stamp) <= Date.now()) await removeObject(key);
        else countedBytes += size;
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
    othersBytes = countedBytes;
  }

  /** At most one look at a time, and one a minute. A fault of it is not one of what is written. */
  async function lookIfDue(): Promise<void> {
    if (!isShared || performance.now() - lookedAt < sweepMs) return currentLook;
    lookedAt = performance.now();
    currentLook = look()
      .catch((error: unknown) => {
        if (!closing.signal.aborted) onError(error);
      })
      .finally(() => (currentLook = undefined));
    return currentLook;
  }

  async function removeObject(key: string): Promise<void> {
    // what is not removed now is by its name, later
    await storage.remove(key).catch(onError);
  }

  function entryOf(uri: string): HeldEntry | undefined {
    return ownEntries.get(mapper.toKey(uri).split("/", 1)[0]!);
  }

  function sweep(): Promise<void> {
    void lookIfDue();
    return dropOld();
  }

  const timer = setInterval(() => void sweep(), Math.min(sweepMs, Math.max(maxAgeMs, 1_000)));
  timer.unref();
  const firstLook = lookIfDue();

  const readers: HeldReaders = {
    open(id) {
      const entry = ownEntries.get(id);
      if (entry) entry.isOpened = true;
    },
    read(id) {
      const entry = ownEntries.get(id);
      if (!entry) return () => {};
      entry.readers += 1;
      return () => void (entry.readers -= 1);
    },
  };

  async function create(share: ShareState): Promise<SpoolPart> {
    if (closing.signal.aborted) throw ownFault("unavailable", "the bridge ends");
    await Promise.all([firstLook, sweep()]);
    const begunAt = Date.now();
    const stamp = Math.ceil(begunAt + Math.max(maxAgeMs, longestLinkMs) + longestComingMs);
    const id = `${stamp}-${randomBytes(16).toString("hex")}`;
    const part = new HeldPart(`${heldFolder}${id}`, {
      storage,
      reserve: (bytes) => reserve(entry, bytes),
      beginWriting,
      removeObject,
      faultOf,
      publish(name) {
        const now = Date.now();
        if (now > begunAt + longestComingMs)
          throw ownFault("timeout", "it took too long to arrive");
        entry.wholeAt = now;
        entry.until = now + unlinkedMs;
        return mapper.toUri(`${id}/${name}`);
      },
      ended(bytes) {
        ownEntries.delete(id);
        ownBytes -= bytes;
        share.bytes -= bytes;
      },
    });
    const until = begunAt + longestComingMs;
    const entry: HeldEntry = { part, share, begunAt, isOpened: false, readers: 0, until };
    ownEntries.set(id, entry);
    return part;
  }

  return {
    storage: heldView(storage, readers),
    baseUri: mapper.baseUri,
    openShare() {
      const share: ShareState = { bytes: 0, isEnded: false };
      return { create: () => create(share), end: () => void (share.isEnded = true) };
    },
    keep(uri, until) {
      const entry = entryOf(uri);
      if (entry?.wholeAt !== undefined) entry.until = Math.max(entry.wholeAt + maxAgeMs, until);
    },
    drop: async (uri) => entryOf(uri)?.part.discard(),
    async close() {
      closing.abort();
      clearInterval(timer);
      await Promise.all([...ownEntries.values()].map(({ part }) => part.discard()));
      await currentLook;
    },
  };
}

/** Sorts results by eviction: of ended sessions first, then unopened ones, those of larger sessions, and old ones. */
function byWorth(a: HeldEntry, b: HeldEntry): number {
  return (
    Number(b.share.isEnded) - Number(a.share.isEnded) ||
    Number(a.isOpened) - Number(b.isOpened) ||
    (a.share.isEnded ? 0 : b.share.bytes - a.share.bytes) ||
    a.begunAt - b.begunAt
  );
}
