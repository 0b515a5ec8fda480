-- Somebody waits for a record: until this mark has run out, writes to it are published.
--
-- KEYS: the set of marks; the head of the bucket; in a cluster one more, as for a swap
-- ARGV: the id; how long (ms)
-- Answers 1 if the mark was not there.
local state = redis.call('GET', KEYS[2]) or '}00000000000000000000000000000'
if string.byte(state) ~= 125 then
  return redis.error_reply('LAYOUT an older program has written here, in a layout that this one does not use')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = string.format('%013d', now + ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if last > string.sub(state, 18, 30) then
  redis.call('SET', KEYS[2], string.sub(state, 1, 17) .. last)
end
return redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
