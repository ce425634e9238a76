import { eventStoreCases, stateStoreCases, uploadStoreCases } from "@sluice/state/conformance";
import { type RedisClient } from "@sluice/state-redis";
import {
  createRedisEventStore,
  createRedisStateStore,
  createRedisUploadStore,
} from "@sluice/state-redis/internal";
import { describe, expect, test } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

/** A flaw to put into a script, and the rule that must notice it. */
const flaws: readonly (readonly [rule: string, from: string, to: string])[] = [
  ["claim-once", "leaseEndsAt = 0 end", "leaseEndsAt = leaseEndsAt end"],
  [
    "claim-kept",
    "redis.call('PEXPIRE', KEYS[1], whole(forgetAt - now))",
    "redis.call('DEL', KEYS[1])",
  ],
  ["claim-expired", "if now >= overAt then return 'expired' end", ""],
  ["claim-window", "if use == 'window' then return 'granted' end", ""],
  [
    "claim-look",
    "if use ~= 'window' then redis.call('HINCRBY'",
    "if true then redis.call('HINCRBY'",
  ],
  [
    "claim-look",
    "local used, endsAt",
    "if use == 'window' then return 'granted' end\nlocal used, endsAt",
  ],
  ["lease-bytes", "redis.call('HINCRBY', KEYS[1], 'used', charge)", ""],
  ["lease-bytes", "or tonumber(used) + tonumber(charge) > most", ""],
  ["lease-ends", "now >= tonumber(endsAt) or", ""],
  ["refund-lease", "redis.call('HINCRBY', KEYS[1], 'used', '-' .. ARGV[1])", "0"],
  ["refund-others", "if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end", ""],
  ["revoke-principal", "for n = 2, 4", "for n = 4, 4"],
  ["revoke-later", "tonumber(revokedAt) >= issuedAt", "true"],
  ["revoke-lasts", "math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))", "now"],
  ["put-exists", "> now then return 0 end", "> now then end"],
  ["put-expires", "> now then return 0 end", "> 0 then return 0 end"],
  ["share-bound", "if redis.call('ZCARD', KEYS[2]) >= most then", "if false then"],
  ["share-together", "redis.call('ZADD', KEYS[2], till, id)", ""],
  ["share-lapses", "redis.call('ZREM', KEYS[2] .. owner, ARGV[3])", ""],
  ["share-lapses", "redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)", ""],
  ["session-ends", "if endsAt and tonumber(endsAt) > now then", "if false then"],
  [
    "session-unbound",
    "if endsAt then redis.call('SET'",
    "endsAt, owner = '1900000000000', '-'\nif true then redis.call('SET'",
  ],
  ["session-lapses", "if tonumber(endsAt) >= tonumber(till) then return 1 end", ""],
  ["session-lapses", "tonumber(endsAt) > now then", "tonumber(endsAt) > 0 then"],
  ["session-share", "redis.call('DEL', KEYS[3] .. oldest)", ""],
  ["open-exists", "if isLive() then return 'stream_exists' end", "forget(id)"],
  ["open-expires", "and tonumber(expiresAt) > now", ""],
  ["events-repeated", "if known > 0 and", "if false and"],
  ["last-ends", "if isOver() then return 'stream_over' end", ""],
  ["answers-first", "if before and before ~= answer then return 'refused' end", ""],
  ["answers-whole", "if seen[ask] or", "if"],
  ["answers-end", "if isOver() then return 'refused' end", ""],
  ["bound-events", "if redis.call('LLEN', keyOf('events')) >= maxEvents", "if false"],
  ["bound-bytes", "if redis.call('HGET', sizes, id) + #text > maxBytes", "if false"],
  ["bound-streams", "redis.call('ZADD', over, redis.call('INCR', order), id)", ""],
  ["bound-expired", "do forget(ended) end", "do end"],
  ["bound-total", "redis.call('DECRBY', total, bytes)", "redis.call('GET', total)"],
  ["permits-bound", "redis.call('ZCARD', permits) >= most", "false"],
  ["permits-lapse", "redis.call('ZREMRANGEBYSCORE', permits, '-inf', now)", ""],
  ["files-bound", "redis.call('HLEN', sizes) >= maxFiles", "false"],
  ["bytes-bound", "sum > maxBytes", "false"],
  ["hold-anew", "- math.max(before, 0) + bytes", "+ bytes"],
  ["hold-again", "if bytes > before and", "if"],
  ["hold-lapses", "'-inf', now)) do forget(file) end", "'-inf', now)) do end"],
  ["settle-counts", "redis.call('INCRBY', total, bytes)", ""],
  ["drop-forgets", "forget(ARGV[4])", ""],
  [
    "seed-counts",
    "do\n  if redis.call('HEXISTS', sizes, file) == 0 then count(",
    "do\n  if false then count(",
  ],
  ["seed-spares", "if redis.call('HEXISTS', sizes, file) == 0 then count(", "if true then count("],
  ["seed-spares", "< tonumber(listedAt)", "<= tonumber(listedAt)"],
  ["writer-numbers", "math.max(newest + 1, now)", "newest + 1"],
  ["writer-wanted", "then return 'waiting' end", "then end"],
  ["writer-bounded", "and now < tonumber(redis.call('HGET', key, 'till'))", ""],
  ["writer-bounded", "then return 'wanted' end", "then return turnOf(writer) end"],
  ["writer-newest", "if writer == newest then return", "if writer > 0 then return"],
  ["writer-released", "if newest == writer then redis.call('HINCRBY', key, 'newest', 1) end", ""],
  ["writer-forgotten", "if writer > newest then", "if false then"],
  ["writer-forgotten", "redis.call('HSET', key, 'newest', whole(writer))\nend", "end"],
];

describe.runIf(hasRedis)("a script with a flaw is caught by its rule", () => {
  const bed = useRedis();
  let spaces = 0;

  test.each(flaws)("%s", async (id, from, to) => {
    let found = false;
    const broken: RedisClient = {
      async call(command, ...args) {
        if (command === "EVALSHA") throw new Error("NOSCRIPT");
        const [lua = "", ...rest] = args;
        found ||= lua.includes(from);
        if (command !== "EVAL") return bed.redis.call(command, ...args);
        return bed.redis.call(
          "EVAL",
          lua.replace(from, () => to),
          ...rest,
        );
      },
    };
    const prefix = `{flaw ${(spaces += 1)}}:`;
    const state = stateStoreCases.find((rule) => rule.id === id);
    const events = eventStoreCases.find((rule) => rule.id === id);
    const uploads = uploadStoreCases.find((rule) => rule.id === id);
    const outcome =
      state?.run((limits) =>
        createRedisStateStore({ redis: broken, prefix, durable: true, ...limits }),
      ) ??
      events?.run((limits) => createRedisEventStore({ redis: broken, prefix, ...limits })) ??
      uploads!.run(() => createRedisUploadStore({ redis: broken, prefix }));
    await expect(outcome).rejects.toThrow(/(state|event|upload) store: /);
    expect(found).toBe(true);
  });
});
