import { createScript, type Script } from "./redis-client.ts";

// The rules are those of grant.ts in @sluice/core, which the conformance kit holds both to.
// Times come in from the caller; Redis' own clock only says when a key may be forgotten.

/**
 * Gives the time, by the caller's clock, of which on Redis surely knows everything: `margin` after it
 * was started, or 0 where there is no margin, because it remembers through restarts. An append-only
 * file may lack the last second and a snapshot the last hour, so that no key in Redis can tell.
 */
const memory = `
local function knowsSince(now, margin)
  if margin == '' then return 0 end
  local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return now - tonumber(uptime) * 1000 + tonumber(margin)
end
`;

/**
 * Keys: grant, its revocations by id, principal and resource. Gives the outcome, or how many milliseconds
 * there is none, because Redis was just started.
 */
export const claimScript: Script = createScript(`${memory}
local use, issuedAt, overAt, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local life, leaseEndsAt, requests = ARGV[5], ARGV[6], tonumber(ARGV[7])
for n = 2, 4 do
  local revokedAt = redis.call('GET', KEYS[n])
  if revokedAt and tonumber(revokedAt) >= issuedAt then return 'revoked' end
end
if now >= overAt then return 'expired' end
local since = knowsSince(now, ARGV[8])
if since > now then return since - now end
if issuedAt < since then return 'spent' end
local left, endsAt = unpack(redis.call('HMGET', KEYS[1], 'left', 'endsAt'))
if left then
  if tonumber(left) < 1 or now >= tonumber(endsAt) then return 'spent' end
  if use ~= 'window' then redis.call('HINCRBY', KEYS[1], 'left', -1) end
  return 'continued'
end
if use == 'window' then return 'granted' end
if use == 'once' then requests = 1 end
redis.call('HSET', KEYS[1], 'left', requests - 1, 'endsAt', leaseEndsAt)
redis.call('PEXPIRE', KEYS[1], life)
return 'granted'
`);

/** Key: grant. What is left of a lease is over. */
export const settleScript: Script = createScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'left', 0) end
return 1
`);

/** Key: revocation. The latest time counts, and the longest life. */
export const revokeScript: Script = createScript(`
local now, life = tonumber(ARGV[1]), tonumber(ARGV[2])
now = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
life = math.max(life, redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], string.format('%.0f', now), 'PX', string.format('%.0f', life))
return 1
`);

/**
 * Key: record, which begins with its end and its beginning. 1 when it was kept, 0 when there is another one already.
 * A client that lost its connection may send what was carried out again: that is no other one.
 */
export const putScript: Script = createScript(`
local kept = redis.call('GET', KEYS[1])
if kept == ARGV[3] then return 1 end
if kept and tonumber(string.match(kept, '^%d+')) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
`);

/** Key: record. Gives and removes it; one that an earlier Redis gave before may be back, and is none. */
export const takeScript: Script = createScript(`${memory}
local now = tonumber(ARGV[1])
local since = knowsSince(now, ARGV[2])
if since > now then return since - now end
local record = redis.call('GET', KEYS[1])
if not record then return false end
redis.call('DEL', KEYS[1])
if tonumber(string.match(record, '^%d+ (%d+)')) < since then return false end
return record
`);
