-- What a bucket has to be settled goes into the indexes now: somebody is about to read them.
--
-- KEYS: the head; in a cluster one more, as for a swap
-- ARGV: how long a removal is remembered (ms)
local base = sub(KEYS[1], 1, -2)
local state = redis.call('GET', KEYS[1])
if state and byte(state) ~= 125 or redis.call('EXISTS', base .. 'p') == 0 then return 0 end
local time = redis.call('TIME')
settle(base, time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return 1
