import { SluiceError } from "@sluice/core";
import { ByteQueue, createRecentEntries, definedMembers } from "@sluice/core/internal";
import type { StreamFacts, StreamOptions } from "../download/stream-options.ts";

/** Options of a cache. */
export interface ResourceCacheOptions {
  /**
   * Maximum bytes to keep, with 1 KiB for each resource besides its content; 64 MiB. The least recently used goes
   * first.
   */
  readonly maxBytes?: number;
  /** Largest resource whose content is kept; 1 MiB. Of larger ones, only the facts. */
  readonly maxResourceBytes?: number;
  /** Maximum resources of which anything is kept; 10,000. */
  readonly maxResources?: number;
  /**
   * Milliseconds for which the server is not asked again, if it does not say. Default: 0. After them, or after the
   * server's, which count for a day at most, the server is asked whether it is still the same.
   */
  readonly ttlMs?: number;
}

/** Content of a resource. */
export interface CachedResource {
  readonly facts: StreamFacts;
  /** A copy of your own. */
  readonly bytes: Uint8Array;
  /** `kept`: the server was not asked · `revalidated`: the server said that it is still the same · `fetched`. */
  readonly source: "kept" | "revalidated" | "fetched";
}

/** Small resources and facts about all of them, for one client and so for one principal. */
export interface ResourceCache {
  /** What is known about a resource, without its bytes. Rejects as `streamResource` does. */
  describe(uri: string, options?: StreamOptions): Promise<StreamFacts>;
  /**
   * The content of a resource of at most `maxResourceBytes`; a larger one is `too_large`. What is kept
   * under a strong entity tag is not fetched again while the server has that very version.
   */
  read(uri: string, options?: StreamOptions): Promise<CachedResource>;
  /** Forgets a resource; call it when `notifications/resources/updated` names one. */
  invalidate(uri: string): void;
  clear(): void;
}

interface CachedEntry {
  readonly facts: StreamFacts;
  readonly bytes: Uint8Array | undefined;
  readonly freshUntil: number;
}

/** A resource on its way: what is kept of it are its facts and bytes, never what it could be saved with. */
interface FoundStream extends StreamFacts {
  readonly body: ReadableStream<Uint8Array>;
  readonly saveTo?: unknown;
}

/** Bytes that an entry costs besides its content. */
const entryBytes = 1_024;

/** A cache over the function that asks for a resource. */
export function createCache(
  open: (uri: string, options: StreamOptions) => Promise<FoundStream>,
  options: ResourceCacheOptions,
): ResourceCache {
  const {
    maxBytes = 64 * 2 ** 20,
    maxResourceBytes = 2 ** 20,
    maxResources = 10_000,
    ttlMs = 0,
  } = options;
  const entries = createRecentEntries<CachedEntry>(maxResources, maxBytes);
  const asking = new Set<Question>();

  /** Asks for a resource; what `invalidate` or a later answer outdated in the meantime is returned, but not kept. */
  async function ask<Found extends CachedFacts>(
    uri: string,
    fetch: () => Promise<Found>,
  ): Promise<Found> {
    const question = { uri, isCurrent: true };
    asking.add(question);
    try {
      const answer = await fetch();
      const { facts, bytes } = answer;
      if (!question.isCurrent) return answer;
      const entry = { facts, bytes, freshUntil: freshUntil(facts, ttlMs) };
      entries.set(uri, entry, entryBytes + (bytes?.byteLength ?? 0));
      // an earlier question may be answered with an older version
      for (const other of asking) {
        if (other === question) break;
        if (other.uri === uri) other.isCurrent = false;
      }
      return answer;
    } finally {
      asking.delete(question);
    }
  }

  function forget(isForgotten: (question: Question) => boolean): void {
    for (const question of asking) if (isForgotten(question)) question.isCurrent = false;
  }

  return {
    async describe(uri, streamOptions = {}) {
      streamOptions.signal?.throwIfAborted();
      const entry = entries.get(uri);
      const { maxStreamBytes: maxDescribed = Number.MAX_SAFE_INTEGER } = streamOptions;
      // what is larger than wanted is asked for again: the refusal is the server's
      if (entry && Date.now() < entry.freshUntil && (entry.facts.size ?? 0) <= maxDescribed)
        return entry.facts;
      const answer = await ask(uri, async () => {
        const { body, saveTo: _, ...facts } = await open(uri, streamOptions);
        await body.cancel();
        return { facts, bytes: isSame(entry, facts) ? entry?.bytes : undefined };
      });
      return answer.facts;
    },
    async read(uri, streamOptions = {}) {
      streamOptions.signal?.throwIfAborted();
      const entry = entries.get(uri);
      const { maxStreamBytes = maxResourceBytes } = streamOptions;
      const most = Math.min(maxStreamBytes, maxResourceBytes);
      // what is larger than wanted is asked for again: it may have shrunk
      if (entry?.bytes && entry.bytes.length <= most && Date.now() < entry.freshUntil)
        return { facts: entry.facts, bytes: entry.bytes.slice(), source: "kept" };
      const { facts, bytes, source } = await ask(uri, async () => {
        const {
          body,
          saveTo: _,
          ...found
        } = await open(uri, { ...streamOptions, maxStreamBytes: most });
        if (entry?.bytes && isSame(entry, found)) {
          await body.cancel();
          return { facts: found, bytes: entry.bytes, source: "revalidated" as const };
        }
        const content = await collect(body);
        return { facts: found, bytes: content, source: "fetched" as const };
      }).catch((error: unknown) => {
        if (!SluiceError.is(error) || error.code !== "too_large") throw error;
        throw new SluiceError(
          "too_large",
          `client: ${JSON.stringify(uri)} is larger than the ${most} bytes that are read at once; use streamResource`,
          definedMembers({ cause: error, size: error.size }),
        );
      });
      return { facts, bytes: bytes.slice(), source };
    },
    invalidate(uri) {
      forget((question) => question.uri === uri);
      entries.delete(uri);
    },
    clear() {
      forget(() => true);
      entries.clear();
    },
  };
}

/** The bytes of a body, in memory of about their size, whatever chunks the server sends. */
async function collect(body: ReadableStream<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  const queue = new ByteQueue();
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return queue.join();
    queue.push(value);
  }
}

interface Question {
  readonly uri: string;
  isCurrent: boolean;
}

interface CachedFacts {
  readonly facts: StreamFacts;
  readonly bytes: Uint8Array | undefined;
}

const dayMs = 86_400_000;

function freshUntil({ ttlMs }: StreamFacts, fallbackMs: number): number {
  return Date.now() + Math.min(ttlMs ?? fallbackMs, dayMs);
}

/** The same version: only a strong entity tag tells. */
function isSame(entry: CachedEntry | undefined, { etag, size }: StreamFacts): boolean {
  return etag !== undefined && entry?.facts.etag === etag && entry.facts.size === size;
}
