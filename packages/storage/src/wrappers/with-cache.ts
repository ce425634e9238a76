import { SluiceError } from "@sluice/core";
import { type Clock, createRecentEntries, systemClock, within } from "@sluice/core/internal";
import type {
  CallOptions,
  ObjectInfo,
  OpenedObject,
  OpenOptions,
  StorageBackend,
  WritableBackend,
} from "../contract/backend.ts";
import { quoteKey } from "../contract/key.ts";
import { withBody } from "../contract/opened.ts";
import { createBytesBody } from "../plugin/body.ts";
import { ensureCondition } from "../plugin/condition.ts";
import { beginOperation, resolveRange } from "../plugin/operation.ts";
import { withDigestCheck } from "./verify-digest.ts";
import { type Surroundings, wrapBackend, wrapStepWriter, wrapWriter } from "./wrap.ts";

/** Settings of {@link withCache}. */
export interface CacheOptions {
  /** Maximum bytes that are kept, with 1 KiB for the metadata of each object. Default: 64 MiB. */
  readonly maxBytes?: number;
  /** Largest object that is kept, in bytes. Default: 256 KiB. */
  readonly maxObjectBytes?: number;
  /**
   * Milliseconds in which storage is not asked whether an object is still the version that is kept, so that readers may see
   * one that is as old. Default: 0, `describe` is asked each time.
   */
  readonly maxAgeMs?: number;
}

interface CachedObject {
  readonly info: ObjectInfo;
  readonly bytes: Uint8Array;
  /** When storage last said that this is the version. */
  readonly checkedAt: number;
}

/**
 * Keeps small objects in memory; the least recently read ones leave first. An object is served from memory only while
 * storage names the same version. One without etag or size, or with too many bytes, is read from storage each time.
 * Callers that ask for one object at the same time share one read, which is compared with a known digest. Ranges are
 * cut out of the object in memory. Give it to `createSluice` as `storage`: the server decides access before it asks
 * storage, so the memory is as private as storage. Throws `RangeError` for settings that cannot work.
 */
export function withCache(backend: WritableBackend, options?: CacheOptions): WritableBackend;
export function withCache(backend: StorageBackend, options?: CacheOptions): StorageBackend;
export function withCache(backend: StorageBackend, options: CacheOptions = {}): StorageBackend {
  const { maxBytes = 2 ** 26, maxObjectBytes = 2 ** 18, maxAgeMs = 0 } = options;
  const { clock = systemClock } = options as Surroundings;
  ensureSettings(maxBytes, maxObjectBytes, maxAgeMs);
  const cache = createRecentEntries<CachedObject>(Infinity, maxBytes);
  const loads = new SharedLoads(withDigestCheck(backend), clock);

  function keep(key: string, object: CachedObject): void {
    cache.set(key, object, object.bytes.byteLength + entryBytes);
  }

  /** Entries that need no request. */
  function fresh(key: string): CachedObject | undefined {
    const entry = cache.get(key);
    return entry && clock.now() - entry.checkedAt < maxAgeMs ? entry : undefined;
  }

  async function ask(
    describe: StorageBackend["describe"],
    key: string,
    call: CallOptions | undefined,
  ): Promise<{ readonly info: ObjectInfo; readonly checkedAt: number }> {
    const checkedAt = clock.now();
    const info = await describe(key, call);
    const entry = cache.get(key);
    if (entry && entry.info.etag === info.etag)
      keep(key, { ...entry, info: structuredClone(info), checkedAt });
    else cache.delete(key);
    return { info, checkedAt };
  }

  return wrapBackend(backend, {
    describe: (describe) => async (key, call) => {
      call?.signal?.throwIfAborted();
      const entry = fresh(key);
      return entry ? structuredClone(entry.info) : (await ask(describe, key, call)).info;
    },
    open:
      (open) =>
      async (key, openOptions = {}) => {
        const { signal, ifMatch } = openOptions;
        const operation = beginOperation(`${backend.name}: open`, key, openOptions);
        let entry = fresh(key);
        if (!entry) {
          const { info, checkedAt } = await ask(
            backend.describe.bind(backend),
            key,
            signal && { signal },
          );
          ensureCondition(info, { ifMatch }, operation);
          const { etag, size } = info;
          if (etag === undefined || size === undefined || size > maxObjectBytes)
            return open(key, openOptions);
          entry = cache.get(key);
          if (!entry) {
            const bytes = await loads.read(key, { etag, size }, signal);
            // it was replaced by now: a caller that asked for no version gets the new one
            if (!bytes) return open(key, openOptions);
            entry = { info: structuredClone(info), bytes, checkedAt };
            keep(key, entry);
          }
        }
        ensureCondition(entry.info, { ifMatch }, operation);
        return openKept(entry, openOptions, operation);
      },
    write: (write) => async (key, writeOptions) => {
      const writer = await write(key, writeOptions);
      return wrapWriter(writer, { commit: () => writer.commit().finally(() => cache.delete(key)) });
    },
    writeInSteps: (writeInSteps) => async (key, stepOptions) => {
      const writer = await writeInSteps(key, stepOptions);
      return wrapStepWriter(writer, {
        commit: () => writer.commit().finally(() => cache.delete(key)),
      });
    },
    remove: (remove) => (key, call) => remove(key, call).finally(() => cache.delete(key)),
    close: (close) => async () => {
      cache.clear();
      await close();
    },
  });
}

/** Size of the metadata of an object, roughly. */
const entryBytes = 1_024;

function ensureSettings(maxBytes: number, maxObjectBytes: number, maxAgeMs: number): void {
  for (const bytes of [maxBytes, maxObjectBytes])
    if (!Number.isSafeInteger(bytes) || bytes < 1)
      throw new RangeError(`withCache: ${bytes} is not a number of bytes; pass an integer from 1`);
  if (maxObjectBytes + entryBytes > maxBytes)
    throw new RangeError("withCache: maxObjectBytes and 1 KiB must fit into maxBytes");
  if (!(maxAgeMs >= 0)) throw new RangeError("withCache: maxAgeMs must be 0 or more");
}

/** A copy, so that no reader can change what others get. */
function openKept(
  { info: known, bytes: all }: CachedObject,
  { range, signal }: OpenOptions,
  operation: string,
): OpenedObject {
  const resolved = range && resolveRange(range, all.byteLength, operation);
  const bytes = all.slice(resolved?.start, resolved?.end);
  const info = structuredClone(known);
  return withBody({ info, bytes, range: resolved }, () => createBytesBody(bytes, signal));
}

interface Load {
  readonly bytes: Promise<Uint8Array | undefined>;
  readonly abandonment: AbortController;
  waiting: number;
}

/** Longest read of a small object, in milliseconds. */
const longestMs = 30_000;

/** Reads of whole small objects of one backend, each of which several callers may wait for. */
class SharedLoads {
  readonly #backend: StorageBackend;
  readonly #clock: Clock;
  readonly #loads = new Map<string, Load>();

  constructor(backend: StorageBackend, clock: Clock) {
    this.#backend = backend;
    this.#clock = clock;
  }

  /**
   * The bytes of this version; `undefined` when storage has another one by now. A read in progress
   * for it is joined, and ends when its last caller has left. Rejects with `timeout` after 30 s,
   * and with `signal.reason`.
   */
  async read(
    key: string,
    version: { readonly etag: string; readonly size: number },
    signal?: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    const name = JSON.stringify([key, version.etag]);
    const load = this.#loads.get(name) ?? this.#begin(name, key, version);
    load.waiting += 1;
    try {
      return await within(load.bytes, {
        clock: this.#clock,
        timeoutMs: longestMs,
        signal,
        expired: () =>
          new SluiceError("timeout", `${this.#backend.name}: open ${quoteKey(key)}: too slow`),
      });
    } finally {
      load.waiting -= 1;
      if (load.waiting === 0) {
        // a later caller begins anew
        this.#forget(name, load);
        load.abandonment.abort();
      }
    }
  }

  #begin(
    name: string,
    key: string,
    version: { readonly etag: string; readonly size: number },
  ): Load {
    const abandonment = new AbortController();
    const bytes = readWhole(this.#backend, key, { ...version, signal: abandonment.signal });
    const load = { bytes, abandonment, waiting: 0 };
    this.#loads.set(name, load);
    const forget = (): void => this.#forget(name, load);
    bytes.then(forget, forget);
    return load;
  }

  #forget(name: string, load: Load): void {
    if (this.#loads.get(name) === load) this.#loads.delete(name);
  }
}

async function readWhole(
  backend: StorageBackend,
  key: string,
  { etag, size, signal }: { etag: string; size: number; signal: AbortSignal },
): Promise<Uint8Array | undefined> {
  const opened = await backend.open(key, { ifMatch: etag, signal }).catch((error: unknown) => {
    if (SluiceError.is(error) && error.code === "precondition_failed") return undefined;
    throw error;
  });
  if (!opened) return undefined;
  // the backend may use its memory again
  if (opened.bytes?.byteLength === size) return opened.bytes.slice();
  const bytes = new Uint8Array(size);
  let at = 0;
  for await (const chunk of opened.body) {
    if (at + chunk.byteLength > size)
      throw new SluiceError(
        "corrupt",
        `${backend.name}: open ${quoteKey(key)}: more than its size`,
      );
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  if (at < size)
    throw new SluiceError(
      "interrupted",
      `${backend.name}: open ${quoteKey(key)}: less than its size`,
    );
  return bytes;
}
