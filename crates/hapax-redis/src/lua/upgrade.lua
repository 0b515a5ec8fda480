-- From here on records have weights. A program that knows nothing of them is turned away by the head.
--
-- KEYS: the head; in a cluster one more, as for a swap
local state = redis.call('GET', KEYS[1])
if state and string.byte(state) == 126 then redis.call('SET', KEYS[1], '}' .. string.sub(state, 2)) end
return 1
