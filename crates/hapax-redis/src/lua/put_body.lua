-- KEYS: the body; the list of bodies
-- ARGV: the owner; the bytes; the body's id
local time = redis.call('TIME')
local stamp = struct.pack('>I8', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('SET', KEYS[1], ARGV[1] .. stamp .. ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[3])
return 1
