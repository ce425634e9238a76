import { createScript, type Script } from "./redis-client.ts";

// One stream is a hash of facts, a list of events, and hashes of its questions and answers. Beside
// them stand, for all streams: bytes of each, the time at which each ends, the order in which ended
// ones ended, and the sum of bytes. `at` moves a time of the caller to the clock of Redis if the
// two differ too much.

/** Keys: the prefix of all keys. First arguments: id, now, maxStreams, maxTotalBytes. */
const common = `
local prefix, id, now = KEYS[1], ARGV[1], at(ARGV[2])
local maxStreams, maxTotalBytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local sizes, ends, over = prefix .. 'sizes', prefix .. 'ends', prefix .. 'over'
local total, order = prefix .. 'total', prefix .. 'order'
local function keyOf(part, stream) return prefix .. part .. ':' .. (stream or id) end
local function partsOf(stream)
  return {keyOf('facts', stream), keyOf('events', stream), keyOf('asks', stream), keyOf('answers', stream)}
end
local function forget(stream)
  local bytes = redis.call('HGET', sizes, stream)
  if bytes then redis.call('DECRBY', total, bytes) end
  redis.call('DEL', unpack(partsOf(stream)))
  redis.call('HDEL', sizes, stream)
  redis.call('ZREM', ends, stream)
  redis.call('ZREM', over, stream)
end
local function isLive()
  local expiresAt = redis.call('HGET', keyOf('facts'), 'expiresAt')
  if expiresAt and tonumber(expiresAt) > now then return true end
  forget(id)
  return false
end
local function isOver() return redis.call('HGET', keyOf('facts'), 'over') == '1' end
local function epoch() return tonumber(redis.call('HGET', keyOf('facts'), 'epoch')) end
local function isFull(bytes, count)
  return redis.call('HLEN', sizes) + count > maxStreams
    or tonumber(redis.call('GET', total) or 0) + bytes > maxTotalBytes
end
local function hasRoom(bytes, count)
  if isFull(bytes, count) then
    for _, ended in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do forget(ended) end
  end
  while isFull(bytes, count) do
    local first = redis.call('ZRANGE', over, 0, 0)[1]
    if not first then return false end
    forget(first)
  end
  return true
end
local function charge(bytes)
  redis.call('HINCRBY', sizes, id, bytes)
  redis.call('INCRBY', total, bytes)
end
local function prolong(keys, life)
  for _, key in ipairs(keys) do
    if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, life) end
  end
end
`;

const script = (lua: string): Script => createScript(common + lua);

/** Further: maxBytes, record, expiresAt, heldUntil, life of the keys. */
export const openScript: Script = script(`
local maxBytes, record, life = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[9])
local expiresAt, heldUntil = whole(at(ARGV[7])), whole(at(ARGV[8]))
if isLive() then return 'stream_exists' end
if #record > maxBytes then return 'too_large' end
if not hasRoom(#record, 1) then return 'full' end
redis.call('HSET', keyOf('facts'), 'record', record, 'epoch', 1, 'heldUntil', heldUntil, 'expiresAt', expiresAt)
redis.call('PEXPIRE', keyOf('facts'), life)
redis.call('ZADD', ends, expiresAt, id)
charge(#record)
prolong({sizes, ends, over, total, order}, life)
return 'kept'
`);

/** Further: heldUntil. Gives the epoch, or 0. */
export const claimScript: Script = script(`
if not isLive() or isOver() then return 0 end
if tonumber(redis.call('HGET', keyOf('facts'), 'heldUntil')) > now then return 0 end
redis.call('HSET', keyOf('facts'), 'heldUntil', whole(at(ARGV[5])))
return redis.call('HINCRBY', keyOf('facts'), 'epoch', 1)
`);

/** Further: heldUntil, epoch. Gives 1 or 0. */
export const holdScript: Script = script(`
if not isLive() or isOver() or epoch() ~= tonumber(ARGV[6]) then return 0 end
redis.call('HSET', keyOf('facts'), 'heldUntil', whole(at(ARGV[5])))
return 1
`);

/** Further: maxBytes, maxEvents, lastEventBytes, epoch, text, question or '', end of a last event or '', its number or 0. */
export const appendScript: Script = script(`
local maxBytes, maxEvents, lastEventBytes = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local writer, text, ask, keepUntil, known = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])
if not isLive() then return 'no_stream' end
if known > 0 and epoch() == writer and redis.call('LINDEX', keyOf('events'), known - 1) == text then return known end
if isOver() then return 'stream_over' end
if epoch() ~= writer then return 'stream_taken' end
if ask ~= '' and redis.call('HEXISTS', keyOf('asks'), ask) == 1 then return 'asked' end
if keepUntil == '' or #text > lastEventBytes then
  if redis.call('LLEN', keyOf('events')) >= maxEvents then return 'too_large' end
  if redis.call('HGET', sizes, id) + #text > maxBytes then return 'too_large' end
  if not hasRoom(#text, 0) then return 'full' end
end
local seq = redis.call('RPUSH', keyOf('events'), text)
charge(#text)
if ask ~= '' then redis.call('HSET', keyOf('asks'), ask, seq) end
if keepUntil ~= '' then
  local expiresAt = math.min(at(keepUntil), tonumber(redis.call('HGET', keyOf('facts'), 'expiresAt')))
  redis.call('HSET', keyOf('facts'), 'over', 1, 'expiresAt', whole(expiresAt))
  redis.call('ZADD', ends, expiresAt, id)
  redis.call('ZADD', over, redis.call('INCR', order), id)
  prolong({over, order}, redis.call('PTTL', ends))
end
prolong(partsOf(id), redis.call('PTTL', keyOf('facts')))
return seq
`);

/** Further: maxBytes, then question and answer in turn. */
export const answerScript: Script = script(`
local maxBytes, seen, fresh, bytes = tonumber(ARGV[5]), {}, {}, 0
if not isLive() then return 'no_stream' end
if #ARGV < 8 then return 'refused' end
for n = 6, #ARGV - 1, 2 do
  local ask, answer = ARGV[n], ARGV[n + 1]
  if seen[ask] or redis.call('HEXISTS', keyOf('asks'), ask) == 0 then return 'refused' end
  seen[ask] = true
  local before = redis.call('HGET', keyOf('answers'), ask)
  if before and before ~= answer then return 'refused' end
  if not before then
    fresh[#fresh + 1] = {ask, answer}
    bytes = bytes + #answer
  end
end
if #fresh == 0 then return 'repeated' end
if isOver() then return 'refused' end
if redis.call('HGET', sizes, id) + bytes > maxBytes then return 'too_large' end
if not hasRoom(bytes, 0) then return 'full' end
charge(bytes)
for _, pair in ipairs(fresh) do redis.call('HSET', keyOf('answers'), pair[1], pair[2]) end
prolong({keyOf('answers')}, redis.call('PTTL', keyOf('facts')))
return 'accepted'
`);

/** Further: number of the first event, from 0, and of the last. Gives nothing when there is no such stream. */
export const readScript: Script = script(`
if not isLive() then return {} end
return {
  redis.call('HGET', keyOf('facts'), 'record'),
  redis.call('LLEN', keyOf('events')),
  isOver() and 1 or 0,
  redis.call('LRANGE', keyOf('events'), ARGV[5], ARGV[6]),
  redis.call('HGETALL', keyOf('asks')),
  redis.call('HGETALL', keyOf('answers')),
}
`);

export const dropScript: Script = script(`
forget(id)
return 1
`);
