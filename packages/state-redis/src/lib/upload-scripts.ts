import { createScript, type Script } from "./redis-client.ts";

// An account is a set of permits by the time at which each ends, a hash of the bytes of files with their sum, a set of
// files by the time at which each counts no longer, and a hash of when those no longer in progress were settled. A
// file has a hash of the newest writer that asked, the one that writes, and until when. `at` moves a time of the
// caller to the clock of Redis if the two differ too much: of two processes, neither takes the lease of the other for
// expired.

/** Key: the prefix of all keys of the account. First arguments: now, until, life of the keys. */
const account = `
local prefix, now, till, life = KEYS[1], at(ARGV[1]), whole(at(ARGV[2])), tonumber(ARGV[3])
local permits, sizes, total = prefix .. 'permits', prefix .. 'sizes', prefix .. 'total'
local ends, settled = prefix .. 'ends', prefix .. 'settled'
local function forget(file)
  local bytes = redis.call('HGET', sizes, file)
  if bytes then redis.call('DECRBY', total, bytes) end
  redis.call('HDEL', sizes, file)
  redis.call('HDEL', settled, file)
  redis.call('ZREM', ends, file)
end
local function forgetOver()
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', now)
  for _, file in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do forget(file) end
end
local function prolong()
  for _, key in ipairs({permits, sizes, total, ends, settled}) do
    if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, life) end
  end
end
local function count(file, bytes, settledAt)
  forget(file)
  redis.call('HSET', sizes, file, bytes)
  redis.call('INCRBY', total, bytes)
  redis.call('ZADD', ends, till, file)
  if settledAt then redis.call('HSET', settled, file, settledAt) end
end
`;

/** Further: permit, number of permits. Gives 1 or 0. */
export const enterScript: Script = createScript(`${account}
local permit, most = ARGV[4], tonumber(ARGV[5])
forgetOver()
if not redis.call('ZSCORE', permits, permit) and redis.call('ZCARD', permits) >= most then return 0 end
redis.call('ZADD', permits, till, permit)
prolong()
return 1
`);

/** Further: file, its bytes, most files, most bytes. Gives 1 or 0. */
export const holdFileScript: Script = createScript(`${account}
local file, bytes, maxFiles, maxBytes = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
forgetOver()
local before = tonumber(redis.call('HGET', sizes, file) or -1)
if before < 0 and redis.call('HLEN', sizes) >= maxFiles then return 0 end
local sum = tonumber(redis.call('GET', total) or 0) - math.max(before, 0) + bytes
if bytes > before and sum > maxBytes then return 0 end
count(file, ARGV[5])
prolong()
return 1
`);

/** Further: file, its bytes. */
export const settleFileScript: Script = createScript(`${account}
forgetOver()
count(ARGV[4], ARGV[5], whole(now))
prolong()
return 1
`);

/** Further: file. */
export const dropFileScript: Script = createScript(`${account}
forget(ARGV[4])
return 1
`);

/** Further: when storage was looked at, and files with their bytes, all in one text. */
export const seedScript: Script = createScript(`${account}
local listedAt, flat = whole(at(ARGV[4])), redis.call('HGETALL', settled)
forgetOver()
for n = 1, #flat, 2 do
  if tonumber(flat[n + 1]) < tonumber(listedAt) then forget(flat[n]) end
end
for file, bytes in string.gmatch(ARGV[5], '(%S+) (%d+)') do
  if redis.call('HEXISTS', sizes, file) == 0 then count(file, bytes, listedAt) end
end
prolong()
return 1
`);

/** Key: the file. First arguments: now, until, life of the key. */
const writers = `
local key, now, till, life = KEYS[1], at(ARGV[1]), whole(at(ARGV[2])), tonumber(ARGV[3])
local newest = tonumber(redis.call('HGET', key, 'newest') or -1)
local holder = tonumber(redis.call('HGET', key, 'holder') or -1)
local isHeld = holder >= 0 and now < tonumber(redis.call('HGET', key, 'till'))
local function prolong()
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, life) end
end
local function turnOf(writer)
  prolong()
  if isHeld and holder ~= writer then return 'waiting' end
  redis.call('HSET', key, 'holder', whole(writer), 'till', till)
  return 'held'
end
`;

/** Gives the number of the writer and its state. A number is higher even than those that were forgotten. */
export const claimFileScript: Script = createScript(`${writers}
local writer = math.max(newest + 1, now)
redis.call('HSET', key, 'newest', whole(writer))
return {whole(writer), turnOf(writer)}
`);

/** Further: number of the writer. Gives its state. */
export const renewScript: Script = createScript(`${writers}
local writer = tonumber(ARGV[4])
-- its claim was forgotten, and no newer writer is known
if writer > newest then
  newest = writer
  redis.call('HSET', key, 'newest', whole(writer))
end
if writer == newest then return turnOf(writer) end
if isHeld and holder == writer then return 'wanted' end
return 'lost'
`);

/** Further: number of the writer. The newest leaves a number behind that no writer has. */
export const releaseScript: Script = createScript(`${writers}
local writer = tonumber(ARGV[4])
if holder == writer then redis.call('HDEL', key, 'holder', 'till') end
if newest == writer then redis.call('HINCRBY', key, 'newest', 1) end
return 1
`);

/** First argument: now. Gives the time that counts: no key is read, the first one says where in a cluster it runs. */
export const nowScript: Script = createScript("return whole(at(ARGV[1]))");
