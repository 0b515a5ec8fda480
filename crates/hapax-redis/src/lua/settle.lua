-- What a bucket's head carries goes into the indexes now: somebody is about to read them.
--
-- KEYS: the head; in a cluster one more, as for a swap
local state = redis.call('GET', KEYS[1])
if not state or #state <= 30 then return 0 end
if string.byte(state) ~= 61 then return 0 end
local time = redis.call('TIME')
redis.call('SET', KEYS[1], string.sub(state, 1, 30))
settle(string.sub(KEYS[1], 1, -2), string.sub(state, 31), time[1] * 1000 + math.floor(time[2] / 1000))
return 1
