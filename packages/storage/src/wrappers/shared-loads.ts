import { SluiceError } from "@sluice/core";
import { type Clock, within } from "@sluice/core/async";
import type { StorageBackend } from "../contract/backend.ts";
import { quoteKey } from "../contract/key.ts";

/** Reads of whole small objects, each of which several callers may wait for. */
export interface SharedLoads {
  /**
   * The bytes of this version; `undefined` when storage has another one by now. A read in progress
   * for it is joined, and ends when its last caller has left. Rejects with `timeout` after 30 s,
   * and with `signal.reason`.
   */
  read(
    key: string,
    version: { readonly etag: string; readonly size: number },
    signal?: AbortSignal,
  ): Promise<Uint8Array | undefined>;
}

interface Load {
  readonly bytes: Promise<Uint8Array | undefined>;
  readonly gone: AbortController;
  waiting: number;
}

/** Longest read of a small object, in milliseconds. */
const longestMs = 30_000;

/** Makes the reads of one backend. */
export function createSharedLoads(backend: StorageBackend, clock: Clock): SharedLoads {
  const loads = new Map<string, Load>();

  function begin(name: string, key: string, etag: string, size: number): Load {
    const controller = new AbortController();
    const bytes = readWhole(backend, key, { etag, size, signal: controller.signal });
    const load = { bytes, gone: controller, waiting: 0 };
    loads.set(name, load);
    const end = (): void => {
      if (loads.get(name) === load) loads.delete(name);
    };
    bytes.then(end, end);
    return load;
  }

  return {
    async read(key, { etag, size }, signal) {
      const name = JSON.stringify([key, etag]);
      const load = loads.get(name) ?? begin(name, key, etag, size);
      load.waiting += 1;
      try {
        return await within(load.bytes, {
          clock,
          timeoutMs: longestMs,
          signal,
          expired: () =>
            new SluiceError("timeout", `${backend.name}: open ${quoteKey(key)}: too slow`),
        });
      } finally {
        load.waiting -= 1;
        if (load.waiting === 0) {
          // a later caller begins anew
          if (loads.get(name) === load) loads.delete(name);
          load.gone.abort();
        }
      }
    },
  };
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
