-- KEYS: the record
local held = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
return {held, time[1] * 1000 + math.floor(time[2] / 1000)}
