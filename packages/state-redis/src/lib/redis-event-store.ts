import {
  readEventStoreLimits,
  storeError,
  type Ask,
  type EventStore,
  type EventStoreLimits,
  type StoreRefusal,
  type StreamPage,
} from "@sluice/state";
import { lastEventBytes } from "@sluice/state/internal";
import {
  answerScript,
  appendScript,
  claimScript,
  dropScript,
  holdScript,
  openScript,
  readScript,
} from "./event-scripts.ts";
import { createCommander, unreadable, type RedisOptions, type Script } from "./redis-client.ts";
import { keyPrefix, lifeOf } from "./redis-keys.ts";

/**
 * An event store that any number of processes share, so that a stream can be picked up again in
 * another process and after a restart. Every method is one script. The bounds are those of all
 * processes together, which must be given the same ones; a `RangeError` for an invalid bound.
 */
export function createRedisEventStore(options: RedisOptions & EventStoreLimits): EventStore {
  const prefix = keyPrefix(options);
  const limits = readEventStoreLimits("redis event store", options);
  const commander = createCommander("redis event store", options);

  const run = (
    script: Script,
    { id, now }: { id: string; now: number },
    ...further: (string | number)[]
  ): Promise<unknown> =>
    commander.run(
      script,
      [`${prefix}event:`],
      [id, now, limits.maxStreams, limits.maxTotalBytes, ...further],
    );

  return {
    async open(id, { record, now, expiresAt, heldUntil }) {
      const times = [expiresAt, heldUntil, lifeOf(now, expiresAt)];
      const outcome = await run(openScript, { id, now }, limits.maxBytes, record, ...times);
      if (outcome !== "kept") throw refused("open", outcome);
    },
    async claim(id, { now, heldUntil }) {
      return Number(await run(claimScript, { id, now }, heldUntil)) || undefined;
    },
    async hold(id, { epoch, now, heldUntil }) {
      return (await run(holdScript, { id, now }, heldUntil, epoch)) === 1;
    },
    async append(id, { epoch, text, seq: known = 0, ask = "", last, now }) {
      const { maxBytes, maxEvents } = limits;
      const bounds = [maxBytes, maxEvents, lastEventBytes];
      const end = last ? last.keepUntil : "";
      const seq = await run(appendScript, { id, now }, ...bounds, epoch, text, ask, end, known);
      if (typeof seq !== "number") throw refused("append", seq);
      return seq;
    },
    async answer(id, answers, now) {
      const pairs = answers.flatMap(({ ask, answer }) => [ask, answer]);
      const outcome = await run(answerScript, { id, now }, limits.maxBytes, ...pairs);
      if (outcome === "no_stream") return undefined;
      if (outcome === "accepted" || outcome === "repeated" || outcome === "refused") return outcome;
      throw refused("answer", outcome);
    },
    async read(id, { after, now, maxEvents = limits.maxEvents + 1 }) {
      return pageOf(await run(readScript, { id, now }, after, after + maxEvents - 1), after);
    },
    async drop(id) {
      await run(dropScript, { id, now: 0 });
    },
  };
}

function pageOf(answer: unknown, after: number): StreamPage | undefined {
  const [record, lastSeq, isOver, events, asked, answered] = answer as [
    record?: string,
    lastSeq?: number,
    isOver?: number,
    events?: string[],
    asked?: string[],
    answered?: string[],
  ];
  if (record === undefined) return undefined;
  const answers = new Map(pairsOf(answered));
  const asks = pairsOf(asked).map(([ask, seq]): Ask => ({
    ask,
    seq: Number(seq),
    answer: answers.get(ask),
  }));
  return {
    record,
    events: (events ?? []).map((text, n) => ({ seq: after + 1 + n, text })),
    lastSeq: Number(lastSeq),
    isOver: isOver === 1,
    asks: asks.toSorted((a, b) => a.seq - b.seq),
  };
}

/** Names and values, which Redis gives in turn. */
function pairsOf(flat: readonly string[] = []): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  for (let n = 0; n < flat.length; n += 2) pairs.push([flat[n]!, flat[n + 1]!]);
  return pairs;
}

const refusals: readonly StoreRefusal[] = [
  "asked",
  "full",
  "no_stream",
  "stream_exists",
  "stream_over",
  "stream_taken",
  "too_large",
];

/** The refusal of a script, as an error. */
function refused(method: string, outcome: unknown): Error {
  const operation = `redis event store: ${method}`;
  const refusal = refusals.find((one) => one === String(outcome));
  return refusal ? storeError(operation, refusal) : unreadable(operation);
}
