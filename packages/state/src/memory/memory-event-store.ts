import {
  lastEventBytes,
  readEventStoreLimits,
  type Ask,
  type EventStore,
  type EventStoreLimits,
} from "../contract/event-store.ts";
import { storeError, type StoreRefusal } from "../contract/store-error.ts";

interface KeptStream {
  readonly record: string;
  readonly events: string[];
  readonly asks: Map<string, Ask>;
  epoch: number;
  heldUntil: number;
  expiresAt: number;
  isOver: boolean;
  bytes: number;
}

/** When a call needs room, and for how many new streams. */
interface Needs {
  readonly now: number;
  readonly count?: number;
}

/**
 * An event store in this process's memory: streams can be picked up again after a broken connection,
 * not after a restart. Throws a `RangeError` for an invalid bound.
 */
export function createMemoryEventStore(options: EventStoreLimits = {}): EventStore {
  const limits = readEventStoreLimits("event store", options);
  const streams = new Map<string, KeptStream>();
  /** Ids of ended streams, the one that ended first first. */
  const over = new Set<string>();
  let totalBytes = 0;
  let sweptAt = -Infinity;

  function forget(id: string): void {
    totalBytes -= streams.get(id)?.bytes ?? 0;
    streams.delete(id);
    over.delete(id);
  }

  function live(id: string, now: number): KeptStream | undefined {
    const kept = streams.get(id);
    if (!kept || kept.expiresAt > now) return kept;
    forget(id);
    return undefined;
  }

  const isFull = (bytes: number, count: number): boolean =>
    streams.size + count > limits.maxStreams || totalBytes + bytes > limits.maxTotalBytes;

  /** Forgets ended streams until there is room for this much more. */
  function ensureRoom(method: string, bytes: number, { now, count = 0 }: Needs): void {
    // a sweep visits every stream: not for every call of a store that stays full
    if (isFull(bytes, count) && Math.abs(now - sweptAt) >= sweepPauseMs) {
      sweptAt = now;
      for (const id of streams.keys()) live(id, now);
    }
    for (const id of over) {
      if (!isFull(bytes, count)) return;
      forget(id);
    }
    if (isFull(bytes, count)) throw refused(method, "full");
  }

  function charge(kept: KeptStream, bytes: number): void {
    kept.bytes += bytes;
    totalBytes += bytes;
  }

  return {
    async open(id, { record, now, expiresAt, heldUntil }) {
      if (live(id, now)) throw refused("open", "stream_exists");
      const bytes = byteLength(record);
      if (bytes > limits.maxBytes) throw refused("open", "too_large");
      ensureRoom("open", bytes, { now, count: 1 });
      const asks = new Map<string, Ask>();
      const kept = { record, events: [], asks, epoch: 1, heldUntil, expiresAt, isOver: false };
      streams.set(id, { ...kept, bytes });
      totalBytes += bytes;
    },
    async claim(id, { now, heldUntil }) {
      const kept = live(id, now);
      if (!kept || kept.isOver || kept.heldUntil > now) return undefined;
      kept.heldUntil = heldUntil;
      return (kept.epoch += 1);
    },
    async hold(id, { epoch, now, heldUntil }) {
      const kept = live(id, now);
      if (!kept || kept.isOver || kept.epoch !== epoch) return false;
      kept.heldUntil = heldUntil;
      return true;
    },
    async append(id, { epoch, text, seq: known, ask, last, now }) {
      const kept = live(id, now);
      if (!kept) throw refused("append", "no_stream");
      if (known !== undefined && kept.epoch === epoch && kept.events[known - 1] === text)
        return known;
      if (kept.isOver) throw refused("append", "stream_over");
      if (kept.epoch !== epoch) throw refused("append", "stream_taken");
      if (ask !== undefined && kept.asks.has(ask)) throw refused("append", "asked");
      const bytes = byteLength(text);
      if (!last || bytes > lastEventBytes) {
        if (kept.events.length >= limits.maxEvents || kept.bytes + bytes > limits.maxBytes)
          throw refused("append", "too_large");
        ensureRoom("append", bytes, { now });
      }
      const seq = kept.events.push(text);
      charge(kept, bytes);
      if (ask !== undefined) kept.asks.set(ask, { ask, seq });
      if (last) {
        kept.isOver = true;
        kept.expiresAt = Math.min(kept.expiresAt, last.keepUntil);
        over.add(id);
      }
      return seq;
    },
    async answer(id, answers, now) {
      const kept = live(id, now);
      if (!kept) return undefined;
      const names = new Set(answers.map(({ ask }) => ask));
      if (names.size === 0 || names.size < answers.length) return "refused";
      const fresh: Ask[] = [];
      for (const { ask, answer } of answers) {
        const asked = kept.asks.get(ask);
        if (!asked || (asked.answer !== undefined && asked.answer !== answer)) return "refused";
        if (asked.answer === undefined) fresh.push({ ...asked, answer });
      }
      if (fresh.length === 0) return "repeated";
      if (kept.isOver) return "refused";
      const bytes = fresh.reduce((sum, { answer }) => sum + byteLength(answer!), 0);
      if (kept.bytes + bytes > limits.maxBytes) throw refused("answer", "too_large");
      ensureRoom("answer", bytes, { now });
      charge(kept, bytes);
      for (const answered of fresh) kept.asks.set(answered.ask, answered);
      return "accepted";
    },
    async read(id, { after, now, maxEvents = limits.maxEvents + 1 }) {
      const kept = live(id, now);
      if (!kept) return undefined;
      const { record, events, asks, isOver } = kept;
      return {
        record,
        events: events
          .slice(after, after + maxEvents)
          .map((text, n) => ({ seq: after + 1 + n, text })),
        lastSeq: events.length,
        isOver,
        asks: [...asks.values()],
      };
    },
    async drop(id) {
      forget(id);
    },
  };
}

const sweepPauseMs = 1_000;
const encoder = new TextEncoder();

function byteLength(text: string): number {
  return encoder.encode(text).byteLength;
}

function refused(method: string, refusal: StoreRefusal): Error {
  return storeError(`event store: ${method}`, refusal);
}
