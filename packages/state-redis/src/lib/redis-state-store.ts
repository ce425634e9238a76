import { SluiceError } from "@sluice/core";
import { clockSkewMs, readLimits, type ClientLimits } from "@sluice/core/internal";
import {
  readSelector,
  storeError,
  type GrantClaim,
  type StateStore,
  type StateStoreLimits,
} from "@sluice/state";
import { leaseAllowance, leaseCharge, leaseMs } from "@sluice/state/internal";
import {
  createCommander,
  defaultTimeoutMs,
  unreadable,
  type RedisOptions,
} from "./redis-client.ts";
import { graceMs, keyPrefix, leadKey, lifeOf } from "./redis-keys.ts";
import {
  bindSessionScript,
  claimScript,
  endSessionScript,
  lookScript,
  putScript,
  refundScript,
  revokeScript,
  takeScript,
} from "./state-scripts.ts";

/** Options of {@link createRedisStateStore}. */
export interface RedisStateStoreOptions extends RedisOptions, StateStoreLimits {
  /**
   * Maximum live records of one principal, and maximum sessions of one that something is bound to; callers without a principal
   * are one. Default: 10,000.
   */
  readonly records?: Pick<ClientLimits, "perPrincipal">;
  /**
   * Whether Redis remembers through a restart whatever it answered, as it does with `appendonly yes`
   * and `appendfsync always`. Default false: grants and records from before a restart are not
   * redeemed, and for {@link clockSkewMs}, `timeoutMs` and a second after it nothing is.
   */
  readonly durable?: boolean;
}

const defaultLimits = { perPrincipal: 10_000 };

/**
 * A state store that any number of processes share. Every method is one command or one script. A
 * server that does not answer in time rejects with `unavailable`: nothing is redeemed then. A claim
 * that was answered may be forgotten by a Redis that fails over before it was replicated.
 */
export function createRedisStateStore(options: RedisStateStoreOptions): StateStore {
  const { timeoutMs = defaultTimeoutMs, durable = false } = options;
  const prefix = keyPrefix(options);
  const { perPrincipal } = readLimits("redis state store: records", options.records, defaultLimits);
  // Redis counts whole seconds, and the time passed to it may be as old as a wait is long
  const margin = durable ? "" : clockSkewMs + timeoutMs + 1_000;
  const redis = createCommander("redis state store", options);
  const keyOf = {
    grant: (id: string) => `${prefix}grant:${id}`,
    record: (id: string) => `${prefix}record:${id}`,
    records: (owner: string) => `${prefix}records:${owner}`,
    session: (session: string) => `${prefix}session:${session}`,
    sessions: (owner: string) => `${prefix}sessions:${owner}`,
    revoked: (kind: string, value: string) => `${prefix}revoked:${kind}:${value}`,
  };

  return {
    shared: true,
    async claim({ id, use, issuedAt, expiresAt, principal, resource }, now, body) {
      const keys = [
        keyOf.grant(id),
        keyOf.revoked("id", id),
        keyOf.revoked("principal", principal),
        keyOf.revoked("resource", resource),
      ];
      const outcome = await redis.run(claimScript, keys, [
        use,
        issuedAt,
        expiresAt + clockSkewMs,
        now,
        // as long as any process could still take the grant for live
        expiresAt + 2 * clockSkewMs + graceMs,
        now + leaseMs,
        leaseCharge(body?.bytes ?? 0),
        leaseAllowance(body?.size ?? 0),
        margin,
      ]);
      return claimOf(known("claim", outcome));
    },
    async refund(id, bytes) {
      await redis.run(refundScript, [keyOf.grant(id)], [bytes]);
    },
    async revoke(selector, { now, ttlMs }) {
      const [kind, value] = readSelector("redis state store", selector);
      await redis.run(
        revokeScript,
        [keyOf.revoked(kind, value), leadKey(prefix)],
        [now, ttlMs + 2 * clockSkewMs + graceMs],
      );
    },
    async put(id, record, { now, expiresAt, owner }) {
      const text = `${owner} ${Buffer.from(record).toString("base64")}`;
      const outcome = await redis.run(
        putScript,
        [keyOf.record(id), keyOf.records(owner)],
        [now, expiresAt, lifeOf(now, expiresAt), id, perPrincipal, text],
      );
      if (Array.isArray(outcome))
        throw storeError(
          "redis state store: put",
          "share_full",
          Math.max(1_000, Number(outcome[0])),
        );
      // clients can be told to give numbers as text
      if (String(outcome) !== "1") throw storeError("redis state store: put", "record_exists");
    },
    async get(id, now) {
      return recordIn(await redis.run(lookScript, [keyOf.record(id)], [now]));
    },
    async take(id, now) {
      const record = await redis.run(
        takeScript,
        [keyOf.record(id), keyOf.records("")],
        [now, margin, id],
      );
      return recordIn(known("take", record));
    },
    async bindSession(session, { now, expiresAt, owner }) {
      await redis.run(
        bindSessionScript,
        [keyOf.session(session), keyOf.sessions(owner), keyOf.session("")],
        [now, expiresAt, lifeOf(now, expiresAt), session, perPrincipal, owner],
      );
    },
    async endSession(session) {
      await redis.run(endSessionScript, [keyOf.session(session)], []);
    },
    async isSessionOver(session, now) {
      const answer = await redis.run(lookScript, [keyOf.session(session)], [now]);
      if (answer === null || answer === undefined) return false;
      const [, over] = (typeof answer === "string" && /^\d+ ([01]) -/.exec(answer)) || [];
      // an unreadable one may say that it has ended
      if (over === undefined) throw unreadable("redis state store: isSessionOver");
      return over === "1";
    },
  };
}

/** The result of a script, unless that is how long it cannot know. */
function known(call: "claim" | "take", answer: unknown): unknown {
  if (typeof answer !== "number") return answer;
  throw new SluiceError(
    "unavailable",
    `redis state store: ${call}: Redis was just started and may have forgotten what was redeemed; try again in a few seconds, or see the option durable`,
    { retryAfterMs: answer },
  );
}

const outcomes = ["granted", "continued", "spent", "expired", "revoked"] as const;

function claimOf(answer: unknown): GrantClaim {
  const outcome = outcomes.find((one) => one === String(answer));
  if (outcome === undefined) throw unreadable("redis state store: claim");
  if (outcome === "granted" || outcome === "continued")
    return { outcome: "granted", continued: outcome === "continued" };
  return { outcome };
}

function recordIn(answer: unknown): Uint8Array | undefined {
  if (answer === null || answer === undefined) return undefined;
  const [, record] = (typeof answer === "string" && /^\d+ \d+ -\S* (.*)$/.exec(answer)) || [];
  // a record may say that something has ended: an unreadable one is not absent
  if (record === undefined) throw unreadable("redis state store: a record");
  return new Uint8Array(Buffer.from(record, "base64"));
}
