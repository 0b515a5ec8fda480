-- Somebody waits for a record: until this mark has run out, writes to it are published.
--
-- KEYS: the set of marks; a mark that there are any
-- ARGV: the id; how long (ms)
-- Answers 1 if the mark was not there.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
return redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
