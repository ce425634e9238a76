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
    const stream = streams.get(id);
    if (!stream || stream.expiresAt > now) return stream;
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
      const stream = { record, events: [], asks, epoch: 1, heldUntil, expiresAt, isOver: false };
      streams.set(id, { ...stream, bytes });
      totalBytes += bytes;
    },
    async claim(id, { now, heldUntil }) {
      const stream = live(id, now);
      if (!stream || stream.isOver || stream.heldUntil > now) return undefined;
      stream.heldUntil = heldUntil;
      return (stream.epoch += 1);
    },
    async hold(id, { epoch, now, heldUntil }) {
      const stream = live(id, now);
      if (!stream || stream.isOver || stream.epoch !== epoch) return false;
      stream.heldUntil = heldUntil;
      return true;
    },
    async append(id, { epoch, text, seq: known, ask, last, now }) {
      const stream = live(id, now);
      if (!stream) throw refused("append", "no_stream");
      if (known !== undefined && stream.epoch === epoch && stream.events[known - 1] === text)
        return known;
      if (stream.isOver) throw refused("append", "stream_over");
      if (stream.epoch !== epoch) throw refused("append", "stream_taken");
      if (ask !== undefined && stream.asks.has(ask)) throw refused("append", "asked");
      const bytes = byteLength(text);
      if (!last || bytes > lastEventBytes) {
        if (stream.events.length >= limits.maxEvents || stream.bytes + bytes > limits.maxBytes)
          throw refused("append", "too_large");
        ensureRoom("append", bytes, { now });
      }
      const seq = stream.events.push(text);
      charge(stream, bytes);
      if (ask !== undefined) stream.asks.set(ask, { ask, seq });
      if (last) {
        stream.isOver = true;
        stream.expiresAt = Math.min(stream.expiresAt, last.keepUntil);
        over.add(id);
      }
      return seq;
    },
    async answer(id, answers, now) {
      const stream = live(id, now);
      if (!stream) return undefined;
      const names = new Set(answers.map(({ ask }) => ask));
      if (names.size === 0 || names.size < answers.length) return "refused";
      const fresh: Ask[] = [];
      for (const { ask, answer } of answers) {
        const question = stream.asks.get(ask);
        if (!question || (question.answer !== undefined && question.answer !== answer))
          return "refused";
        if (question.answer === undefined) fresh.push({ ...question, answer });
      }
      if (fresh.length === 0) return "repeated";
      if (stream.isOver) return "refused";
      const bytes = fresh.reduce((sum, { answer }) => sum + byteLength(answer!), 0);
      if (stream.bytes + bytes > limits.maxBytes) throw refused("answer", "too_large");
      ensureRoom("answer", bytes, { now });
      charge(stream, bytes);
      for (const answered of fresh) stream.asks.set(answered.ask, answered);
      return "accepted";
    },
    async read(id, { after, now, maxEvents = limits.maxEvents + 1 }) {
      const stream = live(id, now);
      if (!stream) return undefined;
      const { record, events, asks, isOver } = stream;
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
