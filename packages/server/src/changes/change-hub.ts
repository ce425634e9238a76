import { SluiceError } from "@sluice/core";
import { backgroundClock, sleep } from "@sluice/core/internal";
import type { ChangeBatch, ObjectInfo, StorageBackend } from "@sluice/storage";

/** Changes for one listener: keys that changed, and keys that came or went. */
export interface ObjectChanges {
  /** Of the keys it listens to, those that changed or went. */
  readonly updated: readonly string[];
  /** Keys that came or went; `"unknown"` when changes were missed. Empty when the list is as it was. */
  readonly listed: readonly string[] | "unknown";
}

/** Receives changes. Called synchronously; it must not throw. */
export interface ChangeListener {
  /** Receives every key, not only those it follows. */
  readonly hearsAll?: boolean;
  /** Receives it when objects come or go. */
  readonly hearsList: boolean;
  onChanges(changes: ObjectChanges): void;
}

/** Changes of one backend for any number of listeners, out of one watch. */
export interface ChangeHub {
  /** Begins to tell a listener that hears all or hears lists. */
  join(listener: ChangeListener): void;
  /**
   * Begins to tell a listener about one object, as it was when it was described. Throws `throttled`
   * when 100,000 objects are followed already.
   */
  follow(listener: ChangeListener, info: ObjectInfo): void;
  unfollow(listener: ChangeListener, key: string): void;
  /** Stops telling a listener. Idempotent. */
  leave(listener: ChangeListener): void;
}

export interface ChangeHubOptions {
  readonly onError: (error: unknown) => void;
  /** Runs the watch, which begins with the call of the first listener and outlives it. */
  readonly runApart?: (work: () => Promise<void>) => Promise<void>;
}

/** Changes gather for so long before listeners hear of them. */
const gatherMs = 200;
/** Between two looks at every followed object, where storage cannot be watched. */
const rescanMs = 30_000;
/** Shortest wait before a watch that ended is begun again. */
const minWaitMs = 250;
const together = 8;
/** Followed objects of all listeners; more are refused. */
const maxFollowed = 100_000;
/** Keys remembered as already there: a change of one of these does not change the list. */
const maxKnown = 10_000;

/**
 * Makes the hub of a backend. It watches while it has listeners, once for all of them. A watch that
 * resets or breaks is followed by a rescan: each followed object is described and compared. So is
 * every object, again and again, where storage has no watch or refuses one; lists are then silent.
 */
export function createChangeHub(backend: StorageBackend, options: ChangeHubOptions): ChangeHub {
  const { onError, runApart = (work) => work() } = options;
  const listeners = new Set<ChangeListener>();
  const followers = new Map<string, Followed>();
  const followed = new Map<ChangeListener, Set<string>>();
  const knownKeys = new Set<string>();
  let pending: Pending = { keys: new Map(), isReset: false };
  let cancelFlush: (() => void) | undefined;
  let watching: AbortController | undefined;

  function begin(): void {
    if (watching) return;
    watching = new AbortController();
    const { signal } = watching;
    runApart(() => run(signal)).catch(onError);
  }

  function end(): void {
    watching?.abort();
    watching = undefined;
    cancelFlush?.();
    cancelFlush = undefined;
    pending = { keys: new Map(), isReset: false };
    knownKeys.clear();
  }

  /** Watches while it has listeners; where storage cannot be watched, rescans. */
  async function run(signal: AbortSignal): Promise<void> {
    let canWatch = backend.watch !== undefined;
    let waitMs = rescanMs;
    let hasMissed = false;
    // also of a watch that ends with an error
    const onArmed = (): void => {
      waitMs = minWaitMs;
      hasMissed = true;
    };
    while (!signal.aborted) {
      if (canWatch) {
        try {
          await listen(signal, { missed: hasMissed, onArmed });
        } catch (error) {
          if (signal.aborted) return;
          canWatch = SluiceError.is(error) && error.retryable;
          onError(error);
        }
      }
      // not at once: a watch that breaks as soon as it begins must not become a loop
      await sleep(waitMs, signal, backgroundClock).catch(() => {});
      waitMs = Math.min(2 * waitMs, rescanMs);
      if (!signal.aborted) await rescan(signal);
    }
  }

  /** Takes what a watch gives until it ends. `missed`: another watch ended before. */
  async function listen(
    signal: AbortSignal,
    { missed, onArmed }: { readonly missed: boolean; readonly onArmed: () => void },
  ): Promise<void> {
    let isArmed = false;
    for await (const batch of backend.watch!({ signal })) {
      if (signal.aborted) break;
      take(batch);
      if (isArmed) continue;
      isArmed = true;
      onArmed();
      // anything can have happened since the watch before, or since an object was described
      if (missed) take({ reset: true });
      else rescan(signal).catch(onError);
    }
  }

  function take({ changed = [], removed = [], reset }: ChangeBatch): void {
    for (const key of changed) pending.keys.set(key, "changed");
    for (const key of removed) pending.keys.set(key, "removed");
    if (reset) pending.isReset = true;
    if (pending.keys.size > 0 || pending.isReset)
      cancelFlush ??= backgroundClock.schedule(flush, gatherMs);
  }

  function flush(): void {
    cancelFlush = undefined;
    const { keys, isReset } = pending;
    pending = { keys: new Map(), isReset: false };
    const listedKeys = isReset
      ? ("unknown" as const)
      : [...keys].filter(isListed).map(([key]) => key);
    const updated = [...keys.keys()];
    for (const [key, change] of keys) {
      // what it was is not known any more: the next rescan tells of it in any case
      const entry = followers.get(key);
      if (entry) entry.version = undefined;
      if (change === "removed") knownKeys.delete(key);
      else remember(key);
    }
    tell(updated, listedKeys);
    if (isReset && watching) rescan(watching.signal).catch(onError);
  }

  /** True when a change makes the list another one: removed, or not seen before. */
  function isListed([key, change]: [string, "changed" | "removed"]): boolean {
    return change === "removed" || !(knownKeys.has(key) || followers.has(key));
  }

  function remember(key: string): void {
    knownKeys.delete(key);
    knownKeys.add(key);
    if (knownKeys.size > maxKnown) knownKeys.delete(knownKeys.values().next().value!);
  }

  function tell(keys: readonly string[], listed: ObjectChanges["listed"]): void {
    const updates = new Map<ChangeListener, string[]>();
    const note = (listener: ChangeListener, key: string): void => {
      const noted = updates.get(listener);
      if (noted) noted.push(key);
      else updates.set(listener, [key]);
    };
    const hearingAll = [...listeners].filter(({ hearsAll }) => hearsAll);
    for (const key of keys) {
      for (const listener of followers.get(key)?.listeners ?? []) note(listener, key);
      for (const listener of hearingAll) note(listener, key);
    }
    const isOther = listed === "unknown" || listed.length > 0;
    for (const listener of listeners) {
      const updated = updates.get(listener) ?? [];
      const news = listener.hearsList && isOther ? listed : [];
      if (updated.length > 0 || news.length > 0) listener.onChanges({ updated, listed: news });
    }
  }

  /** Looks at every followed object and tells of those that are not as they were. */
  async function rescan(signal: AbortSignal): Promise<void> {
    const keys = followers.keys();
    const worker = async (): Promise<void> => {
      for (const key of keys) {
        if (signal.aborted) return;
        const entry = followers.get(key);
        if (!entry) continue;
        const before = entry.version;
        const now = await look(key, signal);
        if (now === undefined || now === before || followers.get(key) !== entry) continue;
        entry.version = now;
        tell([key], []);
      }
    };
    await Promise.all(Array.from({ length: together }, worker));
  }

  /** The version of an object; `undefined` when nothing can be said. */
  async function look(key: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      // a signal of its own: many that wait for one look like a leak to Node
      return versionOf(await backend.describe(key, { signal: AbortSignal.any([signal]) }));
    } catch (error) {
      if (SluiceError.is(error) && error.code === "not_found") return "gone";
      if (!signal.aborted && !(SluiceError.is(error) && error.retryable)) onError(error);
      return undefined;
    }
  }

  function enter(listener: ChangeListener): void {
    listeners.add(listener);
    begin();
  }

  function unfollow(listener: ChangeListener, key: string): void {
    followed.get(listener)?.delete(key);
    const entry = followers.get(key);
    entry?.listeners.delete(listener);
    if (entry?.listeners.size === 0) followers.delete(key);
  }

  function leave(listener: ChangeListener): void {
    for (const key of followed.get(listener) ?? []) unfollow(listener, key);
    followed.delete(listener);
    listeners.delete(listener);
    if (listeners.size === 0) end();
  }

  return {
    join: enter,
    follow(listener, info) {
      const { key } = info;
      const entry = followers.get(key);
      if (!entry && followers.size >= maxFollowed)
        throw new SluiceError("throttled", `sluice: more than ${maxFollowed} objects are followed`);
      if (entry) entry.listeners.add(listener);
      else followers.set(key, { listeners: new Set([listener]), version: versionOf(info) });
      const keys = followed.get(listener);
      if (keys) keys.add(key);
      else followed.set(listener, new Set([key]));
      enter(listener);
    },
    unfollow(listener, key) {
      unfollow(listener, key);
      if (followed.get(listener)?.size === 0 && !listener.hearsAll && !listener.hearsList)
        leave(listener);
    },
    leave,
  };
}

interface Followed {
  readonly listeners: Set<ChangeListener>;
  /** As it was last; `undefined` after a change that was not looked at. */
  version: string | undefined;
}

interface Pending {
  readonly keys: Map<string, "changed" | "removed">;
  isReset: boolean;
}

function versionOf({ etag, size, lastModified }: ObjectInfo): string {
  return etag ?? `${size ?? ""} ${lastModified?.getTime() ?? ""}`;
}
