import { SluiceError } from "@sluice/core";
import { type Clock, within } from "@sluice/core/internal";
import type { StorageBackend } from "../contract/backend.ts";
import { quoteKey } from "../contract/key.ts";

interface Load {
  readonly bytes: Promise<Uint8Array | undefined>;
  readonly abandonment: AbortController;
  waiting: number;
}

/** Longest read of a small object, in milliseconds. */
const longestMs = 30_000;

/** Reads of whole small objects of one backend, each of which several callers may wait for. */
export class SharedLoads {
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
