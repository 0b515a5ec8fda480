-- What a bucket's head names goes into the indexes now: somebody is about to read them.
--
-- KEYS: the head; in a cluster one more, as for a swap
-- ARGV: how long a removal is remembered (ms)
local state = redis.call('GET', KEYS[1])
if not state or #state <= 30 or byte(state) ~= 61 then return 0 end
local time = redis.call('TIME')
redis.call('SET', KEYS[1], sub(state, 1, 30))
settle(sub(KEYS[1], 1, -2), sub(state, 31), time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return 1
