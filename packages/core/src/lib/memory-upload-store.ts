import { SluiceError } from "./error.ts";
import { createExpiringMap } from "./expiring-map.ts";
import type { UploadLease, UploadStore, WriterOutcome } from "./upload-store.ts";

interface Account {
  /** Until when each is taken. */
  readonly places: Map<string, number>;
  readonly files: Map<string, CountedFile>;
}

interface CountedFile {
  readonly bytes: number;
  readonly until: number;
  /** Absent while it is held. */
  readonly settledAt?: number;
}

interface Writers {
  newest: number;
  holder: { readonly writer: number; readonly until: number } | undefined;
}

/** An upload store in this process's memory: limits and writers are those of this process. */
export function createMemoryUploadStore(): UploadStore {
  const accounts = new Map<string, Account>();
  const writers = createExpiringMap<Writers>(maxWriters);
  let sweptAt = -Infinity;

  function forgetOver(owner: string, { places, files }: Account, now: number): void {
    for (const [place, until] of places) if (until <= now) places.delete(place);
    for (const [fileId, { until }] of files) if (until <= now) files.delete(fileId);
    if (places.size + files.size === 0) accounts.delete(owner);
  }

  /** What of an owner counts now; it is kept once something is put into it. */
  function accountOf(owner: string, now: number): Account {
    if (Math.abs(now - sweptAt) >= sweepPauseMs) {
      sweptAt = now;
      for (const [name, account] of accounts) forgetOver(name, account, now);
    }
    const account = accounts.get(owner) ?? { places: new Map(), files: new Map() };
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

  function keep(fileId: string, found: Writers, lease: UploadLease): void {
    if (writers.set(fileId, found, expiryOf(found, lease))) return;
    throw new SluiceError("unavailable", "upload store: full of live writers; try again later", {
      retryAfterMs: 1_000,
    });
  }

  return {
    async enter(owner, place, { now, until, places }) {
      const account = accountOf(owner, now);
      if (!account.places.has(place) && account.places.size >= places) return false;
      account.places.set(place, until);
      accounts.set(owner, account);
      return true;
    },
    async leave(owner, place) {
      accounts.get(owner)?.places.delete(place);
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
      const found = writers.get(fileId, now) ?? { newest: 0, holder: undefined };
      // also higher than those of writers that were forgotten
      const writer = Math.max(found.newest + 1, now);
      keep(fileId, found, lease);
      found.newest = writer;
      const outcome = outcomeFor(found, writer, lease);
      return { writer, outcome: outcome === "held" ? outcome : "waiting" };
    },
    async renew(fileId, writer, lease) {
      const found = writers.get(fileId, lease.now) ?? { newest: writer, holder: undefined };
      found.newest = Math.max(found.newest, writer);
      const outcome = outcomeFor(found, writer, lease);
      if (outcome === "held" || outcome === "waiting") keep(fileId, found, lease);
      return outcome;
    },
    async release(fileId, writer) {
      const found = writers.get(fileId, -Infinity);
      if (!found) return;
      if (found.holder?.writer === writer) found.holder = undefined;
      // a number that nobody has
      if (found.newest === writer) found.newest += 1;
    },
  };
}

const maxWriters = 100_000;
const sweepPauseMs = 60_000;
/** Who comes late is known for so long still. */
const lateMs = 60_000;

function expiryOf(
  { holder }: Writers,
  { now, until }: UploadLease,
): { readonly now: number; readonly expiresAt: number } {
  return { now, expiresAt: Math.max(until, holder?.until ?? 0) + lateMs };
}
