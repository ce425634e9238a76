import { SluiceError } from "@sluice/core";
import { definedMembers, sleep } from "@sluice/core/internal";
import {
  wrapBackend,
  type ChangeBatch,
  type StorageBackend,
  type WatchOptions,
} from "@sluice/storage";
import { createCommander, type Commander, type RedisOptions } from "./redis-client.ts";
import { keyPrefix } from "./redis-keys.ts";

/** Options of `shareChanges`. */
export interface ShareChangesOptions {
  /** Name of the share: backends of the same name in all processes get the same changes. */
  readonly name: string;
  /** Pause between two looks at what other processes told, in milliseconds. Default: 250. */
  readonly pollIntervalMs?: number;
}

/**
 * A backend whose `watch` reports the changes that the watch of any process reports: a queue of
 * change events gives each of them to one process only. Changes go through a Redis stream of about
 * 10,000 batches, which is forgotten a day after the last one. A watch ends with `unavailable`
 * while Redis is down, and one that was away for too long, or learns that Redis forgot changes,
 * gives `reset`.
 */
export function shareChanges(
  backend: StorageBackend,
  options: RedisOptions,
  { name, pollIntervalMs = 250 }: ShareChangesOptions,
): StorageBackend {
  const redis = createCommander(`${backend.name}: watch`, options);
  const shared = createSharedLog(redis, `${keyPrefix(options)}changes:${name}`);

  return wrapBackend(backend, {
    watch: (inner) => (watchOptions) =>
      watchShared({ inner, shared, pollIntervalMs }, watchOptions),
  });
}

interface SharedWatch {
  readonly inner: NonNullable<StorageBackend["watch"]>;
  readonly shared: SharedLog;
  readonly pollIntervalMs: number;
}

async function* watchShared(
  { inner, shared, pollIntervalMs }: SharedWatch,
  { prefix = "", cursor, signal }: WatchOptions,
): AsyncGenerator<ChangeBatch> {
  const from = cursor === undefined ? undefined : positionIn(cursor);
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  // other processes may watch other prefixes: this one tells every change
  const ownBatches = inner({ signal: both, ...definedMembers({ cursor: from?.own || undefined }) })[
    Symbol.asyncIterator
  ]();
  const position: WatchPosition = { at: nothing };
  let failure: { readonly error: unknown } | undefined;
  try {
    const first = await ownBatches.next();
    if (first.done || signal.aborted) return;
    position.own = first.value.cursor;
    const hasGap = from !== undefined && (await shared.after(from.at)) === undefined;
    position.at = hasGap || !from ? await shared.newest() : from.at;
    yield { cursor: cursorOf(position) };
    if (hasGap) yield { reset: true, cursor: cursorOf(position) };
    const telling = tellAll(ownBatches, shared, position).catch(
      (error: unknown) => (failure = { error }),
    );
    try {
      while (!signal.aborted) {
        if (failure) throw failure.error;
        const news = await shared.after(position.at);
        if (!news) {
          position.at = await shared.newest();
          yield { reset: true, cursor: cursorOf(position) };
          continue;
        }
        for (const { id, batch } of news) {
          position.at = id;
          const batchBelow = below(prefix, batch);
          if (batchBelow) yield { ...batchBelow, cursor: cursorOf(position) };
        }
        if (news.length === 0) await sleep(pollIntervalMs, both).catch(() => {});
      }
    } finally {
      over.abort();
      await telling;
    }
  } finally {
    over.abort();
    await ownBatches.return?.();
  }
}

/** How far a watch has come: in what all tell, and in what its own storage told this process. */
interface WatchPosition {
  at: string;
  own?: string | undefined;
}

/** Tells all processes the changes that this one gets, until its own watch ends. */
async function tellAll(
  own: AsyncIterator<ChangeBatch>,
  shared: SharedLog,
  position: WatchPosition,
): Promise<void> {
  for (;;) {
    const { done, value } = await own.next();
    if (done) return;
    const { changed = [], removed = [], reset } = value;
    if (reset || changed.length > 0 || removed.length > 0)
      await shared.tell(definedMembers({ changed, removed, reset }));
    // only now: a repeated change after a restart does no harm, a missing one does
    position.own = value.cursor;
  }
}

/** The part of a batch for keys with this prefix. */
function below(prefix: string, { changed = [], removed = [], reset }: ChangeBatch) {
  if (reset) return { reset } as const;
  const isBelow = (key: string): boolean => key.startsWith(prefix);
  const batchBelow = { changed: changed.filter(isBelow), removed: removed.filter(isBelow) };
  return batchBelow.changed.length + batchBelow.removed.length > 0 ? batchBelow : undefined;
}

/** A Redis stream of batches. Ids are Redis' own: `milliseconds-number`, in order. */
interface SharedLog {
  tell(batch: ChangeBatch): Promise<void>;
  newest(): Promise<string>;
  /**
   * Batches after `id`, at most {@link maxAtOnce}; `undefined` when some of it may be gone: for a
   * reader that was slow or away, and in a Redis that was restarted.
   */
  after(
    id: string,
  ): Promise<readonly { readonly id: string; readonly batch: ChangeBatch }[] | undefined>;
}

const maxAtOnce = 100;
/** A day, in milliseconds. */
const keptMs = "86400000";
/** Before the first id. */
const nothing = "0-0";

type LogEntry = [id: string, fields: string[]];

function createSharedLog(redis: Commander, key: string): SharedLog {
  return {
    async tell(batch) {
      await redis.send("XADD", key, "MAXLEN", "~", "10000", "*", "batch", JSON.stringify(batch));
      await redis.send("PEXPIRE", key, keptMs);
    },
    async newest() {
      const [entry] = (await redis.send("XREVRANGE", key, "+", "-", "COUNT", "1")) as LogEntry[];
      return entry?.[0] ?? nothing;
    },
    async after(id) {
      const count = String(maxAtOnce + 1);
      const entries = (await redis.send("XRANGE", key, id, "+", "COUNT", count)) as LogEntry[];
      // the last received batch is there, and so are all after it; before the first, nothing tells
      const isWhole = id === nothing ? entries.length <= maxAtOnce : entries.shift()?.[0] === id;
      if (!isWhole) return undefined;
      return entries.map(([entryId, [, text = "{}"]]) => ({
        id: entryId,
        batch: JSON.parse(text) as ChangeBatch,
      }));
    },
  };
}

function cursorOf({ at, own }: WatchPosition): string {
  return `redis.${at}.${Buffer.from(own ?? "").toString("base64url")}`;
}

function positionIn(cursor: string): WatchPosition {
  const [, at, ownCursor = ""] = /^redis\.(\d{1,15}-\d{1,15})\.([\w-]*)$/.exec(cursor) ?? [];
  if (at === undefined)
    throw new SluiceError("invalid_argument", "redis: watch: the cursor is not one of this store");
  return { at, own: Buffer.from(ownCursor, "base64url").toString() };
}
