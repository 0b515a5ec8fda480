-- Compare-and-set of one record. It compares versions and moves bytes; it knows nothing of what they mean.
--
-- KEYS: the record; the highest version of its bucket
-- ARGV: the expected version (8 bytes); what to store behind version and stamp ('' removes); how long a removal is
--       remembered (ms); the channel of wake-ups; then for each index entry its set, the front of its member and its score:
--       'v' the version, '+n' so long after the stamp, '=n' as it is
-- Stored: version (8), stamp (8), length (2) and names of the index entries, envelope
local held = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if (held and string.sub(held, 1, 8) or '\0\0\0\0\0\0\0\0') ~= ARGV[1] then
  return {0, held, now}
end

local base = string.sub(KEYS[2], 1, -2)
local id = string.sub(KEYS[1], -32)
local marks = redis.call('MGET', KEYS[2], base .. 'W')
local version = time[1] * 1000000 + time[2]
if marks[1] and tonumber(marks[1]) >= version then version = marks[1] + 1 end
local stamp = now
local had, same, names = {}, false, 0
if held then
  stamp = math.max(now, (struct.unpack('>I8', held, 9)))
  names = struct.unpack('>I2', held, 17)
  same = names > 0 and string.sub(held, 17, 18 + names) == string.sub(ARGV[2], 1, 2 + names)
end
if names > 0 and not same then
  local at, stop = 19, 19 + names
  while at < stop do
    local length = string.byte(held, at)
    local set = string.sub(held, at + 1, at + length)
    at = at + length + 1
    length = string.byte(held, at)
    had[set .. '|' .. string.sub(held, at + 1, at + length)] = set
    at = at + length + 1
  end
end

local front = struct.pack('>I8I8', version, stamp)
redis.call('SET', KEYS[2], version)
if ARGV[2] == '' then
  redis.call('SET', KEYS[1], front .. '\0\0', 'PX', ARGV[3])
else
  redis.call('SET', KEYS[1], front .. ARGV[2])
end
redis.call('ZADD', base .. 'f', version, id)

for at = 5, #ARGV, 3 do
  local set, member, how = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local key = set .. '|' .. member
  local was = same or had[key]
  had[key] = nil
  if set == 'u' then
    if not was then redis.call('HINCRBY', base .. 'u', member, 1) end
  elseif how == 'v' then
    redis.call('ZADD', base .. set, version, member .. id)
  elseif string.byte(how) == 43 then
    redis.call('ZADD', base .. set, stamp + string.sub(how, 2), member .. id)
  else
    redis.call('ZADD', base .. set, string.sub(how, 2), member .. id)
  end
end
for key, set in pairs(had) do
  local member = string.sub(key, #set + 2)
  if set == 'u' then
    if redis.call('HINCRBY', base .. 'u', member, -1) == 0 then redis.call('HDEL', base .. 'u', member) end
  else
    redis.call('ZREM', base .. set, member .. id)
  end
end

if ARGV[2] == '' then
  -- What was removed so long ago that even its version is forgotten leaves the feed; who reads it has a gap then.
  redis.call('ZADD', base .. 'x', now + ARGV[3], id)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'x', '-inf', now, 'LIMIT', 0, 3)) do
    redis.call('ZREM', base .. 'x', old)
    if redis.call('EXISTS', base .. 'r' .. old) == 0 then
      local last = redis.call('ZSCORE', base .. 'f', old)
      redis.call('ZREM', base .. 'f', old)
      local through = redis.call('GET', base .. 'z')
      if last and (not through or tonumber(through) < tonumber(last)) then redis.call('SET', base .. 'z', last) end
    end
  end
end
if marks[2] and redis.call('ZSCORE', base .. 'w', id) then
  redis.call('PUBLISH', ARGV[4], id)
end
return {1, version, stamp}
