import { createExpiringMap } from "./expiring-map.ts";
import { storeError } from "../contract/store-error.ts";
import type { UploadLease, UploadStore, WriterOutcome } from "../contract/upload-store.ts";

interface Account {
  /** Until when each is taken. */
  readonly permits: Map<string, number>;
  readonly files: Map<string, TrackedFile>;
}

interface TrackedFile {
  readonly bytes: number;
  readonly until: number;
  /** Absent while it is held. */
  readonly settledAt?: number;
}

interface Writers {
  newest: number;
  /** The newest has released the file, and its number is one that no writer has. */
  isReleased: boolean;
  holder: { readonly writer: number; readonly until: number } | undefined;
}

/** An upload store in this process's memory: limits and writers are those of this process. */
export function createMemoryUploadStore(): UploadStore {
  const accounts = new Map<string, Account>();
  const writers = createExpiringMap<Writers>(maxWriters);
  /** By file, the number that the next writer is above. Files that are free take no room from the others. */
  const released = new Map<string, number>();
  let sweptAt = -Infinity;

  function forgetOver(owner: string, { permits, files }: Account, now: number): void {
    for (const [permit, until] of permits) if (until <= now) permits.delete(permit);
    for (const [fileId, { until }] of files) if (until <= now) files.delete(fileId);
    if (permits.size + files.size === 0) accounts.delete(owner);
  }

  /** Current usage of an owner; stored once it is not empty. */
  function accountOf(owner: string, now: number): Account {
    if (Math.abs(now - sweptAt) >= sweepPauseMs) {
      sweptAt = now;
      for (const [name, account] of accounts) forgetOver(name, account, now);
    }
    const account = accounts.get(owner) ?? { permits: new Map(), files: new Map() };
    forgetOver(owner, account, now);
    return account;
  }

  function outcomeFor(found: Writers, writer: number, { now, until }: UploadLease): WriterOutcome {
    const { newest, holder } = found;
    const isHeld = holder !== undefined && now < holder.until;
    if (writer !== newest) return isHeld && holder.writer === writer ? "wanted" : "lost";
    if (isHeld && holder.writer !== writer) return "waiting";
    found.holder = { writer, until };
    return "held";
  }

  function writersOf(fileId: string, now: number): Writers | undefined {
    const newest = released.get(fileId);
    const free = newest === undefined ? newest : { newest, isReleased: true, holder: undefined };
    return writers.get(fileId, now) ?? free;
  }

  function keep(fileId: string, found: Writers, { now, until }: UploadLease): void {
    const expiresAt = Math.max(until, found.holder?.until ?? 0) + lateMs;
    if (writers.set(fileId, found, { now, expiresAt })) throw storeError("upload store", "full");
    released.delete(fileId);
  }

  return {
    shared: false,
    async enter(account, permit, { now, until, permits }) {
      const usage = accountOf(account, now);
      if (!usage.permits.has(permit) && usage.permits.size >= permits) return false;
      usage.permits.set(permit, until);
      accounts.set(account, usage);
      return true;
    },
    async leave(account, permit) {
      accounts.get(account)?.permits.delete(permit);
    },
    async hold(owner, fileId, { bytes, maxFiles, maxBytes, now, until }) {
      const account = accountOf(owner, now);
      const { files } = account;
      const before = files.get(fileId);
      let total = bytes - (before?.bytes ?? 0);
      for (const file of files.values()) total += file.bytes;
      if (!before && files.size >= maxFiles) return false;
      if (bytes > (before?.bytes ?? -1) && total > maxBytes) return false;
      files.set(fileId, { bytes, until });
      accounts.set(owner, account);
      return true;
    },
    async settle(owner, fileId, { bytes, now, until }) {
      const account = accountOf(owner, now);
      account.files.set(fileId, { bytes, until, settledAt: now });
      accounts.set(owner, account);
    },
    async drop(owner, fileId) {
      accounts.get(owner)?.files.delete(fileId);
    },
    async seed(owner, listed, { listedAt, now, until }) {
      const account = accountOf(owner, now);
      const { files } = account;
      for (const [fileId, { settledAt = Infinity }] of files)
        if (settledAt < listedAt) files.delete(fileId);
      for (const { fileId, bytes } of listed)
        if (!files.has(fileId)) files.set(fileId, { bytes, until, settledAt: listedAt });
      if (files.size > 0) accounts.set(owner, account);
    },
    async claim(fileId, lease) {
      const { now } = lease;
      const found = writersOf(fileId, now) ?? { newest: 0, isReleased: true, holder: undefined };
      // also higher than those of writers that were forgotten
      const writer = Math.max(found.newest + 1, now);
      keep(fileId, found, lease);
      found.newest = writer;
      found.isReleased = false;
      const outcome = outcomeFor(found, writer, lease);
      return { writer, outcome: outcome === "held" ? outcome : "waiting" };
    },
    async renew(fileId, writer, lease) {
      const stored = writersOf(fileId, lease.now);
      const found = stored ?? { newest: writer, isReleased: false, holder: undefined };
      if (writer > found.newest) Object.assign(found, { newest: writer, isReleased: false });
      const outcome = outcomeFor(found, writer, lease);
      if (outcome === "held" || outcome === "waiting") keep(fileId, found, lease);
      return outcome;
    },
    async release(fileId, writer) {
      const found = writers.get(fileId, -Infinity);
      if (!found) return;
      if (found.holder?.writer === writer) found.holder = undefined;
      if (found.newest === writer) Object.assign(found, { newest: writer + 1, isReleased: true });
      if (found.holder || !found.isReleased) return;
      writers.delete(fileId);
      released.set(fileId, found.newest);
      const [oldest = fileId] = released.keys();
      if (released.size > maxReleased) released.delete(oldest);
    },
  };
}

const maxWriters = 100_000;
/** Files whose last writers are known after their release, the oldest of which are forgotten first. */
const maxReleased = 10_000;
const sweepPauseMs = 60_000;
/** A writer that renews late is known for so long after its lease. */
const lateMs = 60_000;
