import { createScript, leadIn, type Script } from "./redis-client.ts";

// The rules are those of contract/grant.ts in @sluice/state, which the conformance kit holds both to.
// `at` moves a time of the caller to the clock of Redis where the two differ too much (see redis-client.ts). The times of
// a grant stay as they were issued: one clock judges them, for all processes, and remembers for as long as it judges.

/**
 * Gives the time since which Redis surely knows everything: `margin` after it
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
local use, issuedAt, overAt, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), at(ARGV[4])
local forgetAt, leaseEndsAt, charge, most = tonumber(ARGV[5]), at(ARGV[6]), ARGV[7], tonumber(ARGV[8])
for n = 2, 4 do
  local revokedAt = redis.call('GET', KEYS[n])
  if revokedAt and tonumber(revokedAt) >= issuedAt then return 'revoked' end
end
if now >= overAt then return 'expired' end
local since = knowsSince(now, ARGV[9])
if since > now then return math.ceil(since - now) end
if issuedAt < since then return 'spent' end
local used, endsAt = unpack(redis.call('HMGET', KEYS[1], 'used', 'endsAt'))
if used then
  if now >= tonumber(endsAt) or tonumber(used) + tonumber(charge) > most then return 'spent' end
  if use ~= 'window' then redis.call('HINCRBY', KEYS[1], 'used', charge) end
  return 'continued'
end
if use == 'window' then return 'granted' end
if use == 'once' then leaseEndsAt = 0 end
redis.call('HSET', KEYS[1], 'used', charge, 'endsAt', whole(leaseEndsAt))
redis.call('PEXPIRE', KEYS[1], whole(forgetAt - now))
return 'granted'
`);

/** Key: grant. Gives bytes back to a lease; the count of a single use does not matter. */
export const refundScript: Script = createScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if redis.call('HINCRBY', KEYS[1], 'used', '-' .. ARGV[1]) < 0 then redis.call('HSET', KEYS[1], 'used', 0) end
return 1
`);

/**
 * Keys: revocation, the greatest lead of any process. The latest time counts, and the longest life. Grants of a process
 * whose clock is ahead bear a later time than they were made at, so that a revocation reaches further by that much.
 */
export const revokeScript: Script = createScript(`
local lead = ${leadIn("KEYS[2]")}
local now, life = at(ARGV[1]) + lead, tonumber(ARGV[2]) + lead
now = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
life = math.max(life, redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], whole(now), 'PX', whole(life))
return 1
`);

// A record is its end, its beginning, its owner (`-` before the tag) and its bytes. An owner has a set of its
// records, and one of its sessions, by the time at which each ends: that is what counts in its share.

/**
 * Keys: record, records of its owner. Gives 1 when it was kept, 0 when there is another one
 * already, and when the share of the owner is full, in a list, in how many milliseconds the first
 * of its records ends. A client that lost its connection may repeat an executed call: that is not
 * another one.
 */
export const putScript: Script = createScript(`
local now, till, life, id, most = at(ARGV[1]), whole(at(ARGV[2])), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local record = till .. ' ' .. whole(now) .. ' -' .. ARGV[6]
local kept = redis.call('GET', KEYS[1])
if kept == record then return 1 end
if kept and tonumber(string.match(kept, '^%d+')) > now then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) >= most then
  return {whole(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] - now)}
end
redis.call('SET', KEYS[1], record, 'PX', life)
redis.call('ZADD', KEYS[2], till, id)
if redis.call('PTTL', KEYS[2]) < life then redis.call('PEXPIRE', KEYS[2], life) end
return 1
`);

/** Key: record or session. Gives the value kept under it until its end, even one without a readable end. */
export const lookScript: Script = createScript(`
local kept = redis.call('GET', KEYS[1])
local endsAt = kept and string.match(kept, '^(%d+) ')
if endsAt and tonumber(endsAt) <= at(ARGV[1]) then return false end
return kept
`);

/**
 * Keys: record, and the prefix of those of owners. Gives and removes it; one that an earlier Redis
 * gave before may be back, and does not count.
 */
export const takeScript: Script = createScript(`${memory}
local now = at(ARGV[1])
local since = knowsSince(now, ARGV[2])
if since > now then return math.ceil(since - now) end
local record = redis.call('GET', KEYS[1])
if not record then return false end
redis.call('DEL', KEYS[1])
local endsAt, begun, owner = string.match(record, '^(%d+) (%d+) %-(%S*)')
redis.call('ZREM', KEYS[2] .. owner, ARGV[3])
if tonumber(endsAt) <= now or tonumber(begun) < since then return false end
return record
`);

/**
 * Keys: session, sessions of its owner, and the prefix of those of sessions. A session is its end,
 * 1 when it has ended, and the owner that it was bound to first, in whose share it counts.
 */
export const bindSessionScript: Script = createScript(`
local now, till, life = at(ARGV[1]), whole(at(ARGV[2])), tonumber(ARGV[3])
local session, most, owner = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local endsAt, over, first = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d) %-(.*)$')
if endsAt and tonumber(endsAt) > now then
  if tonumber(endsAt) >= tonumber(till) then return 1 end
else
  over, first = '0', owner
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  while redis.call('ZCARD', KEYS[2]) >= most do
    local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    redis.call('ZREM', KEYS[2], oldest)
    redis.call('DEL', KEYS[3] .. oldest)
  end
end
redis.call('SET', KEYS[1], till .. ' ' .. over .. ' -' .. first, 'PX', life)
if first ~= owner then return 1 end
redis.call('ZADD', KEYS[2], till, session)
if redis.call('PTTL', KEYS[2]) < life then redis.call('PEXPIRE', KEYS[2], life) end
return 1
`);

/** Key: session. Marks it where it is known, and keeps nothing of others. */
export const endSessionScript: Script = createScript(`
local endsAt, owner = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) %d (.*)$')
if endsAt then redis.call('SET', KEYS[1], endsAt .. ' 1 ' .. owner, 'PX', redis.call('PTTL', KEYS[1])) end
return 1
`);
