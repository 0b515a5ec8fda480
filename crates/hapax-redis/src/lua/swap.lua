-- Compare-and-set of some records. It compares versions and moves bytes; it knows nothing of what they mean.
--
-- KEYS: for each record its own and the head of its bucket; in a cluster one more, which is never there: while a slot is half
--       moved Redis refuses a script of which a key is missing, and all else that is touched lies in the same slot
-- ARGV: the channel of wake-ups; then for each record the expected version (8), what to store behind version and stamp (''
--       removes), and its dues
-- Stored: version (8), stamp (8), tags (length 2), envelope
-- Head: '=', the bucket's highest version (16 digits), until when somebody waits (13 digits), entries that no index has yet
-- Answers for each record version and stamp in one, or what is held and the time.
local n = (#ARGV - 1) / 3
local held = redis.call('MGET', unpack(KEYS, 1, 2 * n))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers, writes, places, heads, woken = {}, {}, {}, {}, {}
for i = 1, n do
  local key, head = KEYS[2 * i - 1], KEYS[2 * i]
  local place, head_place = places[key], places[head]
  -- Somebody before us in this very call may have written either.
  local was = place and writes[place] or held[2 * i - 1]
  local state = head_place and writes[head_place] or held[2 * i] or '=00000000000000000000000000000'
  if string.byte(state) ~= 61 then
    return redis.error_reply('HXLAYOUT an older program has written here, in a layout that this one does not use')
  end
  if (was and string.sub(was, 1, 8) or '\0\0\0\0\0\0\0\0') ~= ARGV[3 * i - 1] then
    answers[i] = {was, now}
  else
    local tail, version, stamp = ARGV[3 * i], time[1] * 1000000 + time[2], now
    local highest = tonumber(string.sub(state, 2, 17))
    if highest >= version then version = highest + 1 end
    local before, after = '\0\0', '\0\0'
    if was then
      stamp = math.max(now, (struct.unpack('>I8', was, 9)))
      before = string.sub(was, 17, 18 + struct.unpack('>I2', was, 17))
    end
    if tail == '' then tail = after else after = string.sub(tail, 1, 2 + struct.unpack('>I2', tail, 1)) end
    local front, digits = struct.pack('>I8I8', version, stamp), string.format('%016d', version)
    if before == after then before = '\255\255' end
    local entry = digits .. string.sub(front, 9) .. string.sub(key, -32) .. ARGV[3 * i + 1] .. after .. before
    if not place then
      place = #writes + 2
      places[key], writes[place - 1] = place, key
    end
    writes[place] = front .. tail
    if not head_place then
      head_place = #writes + 2
      places[head], writes[head_place - 1] = head_place, head
      heads[#heads + 1] = head
    end
    writes[head_place] = '=' .. digits .. string.sub(state, 18) .. struct.pack('>I2', #entry) .. entry
    if tonumber(string.sub(state, 18, 30)) > now then woken[#woken + 1] = i end
    answers[i] = front
  end
end
if #writes == 0 then return answers end

-- So many bytes of entries are carried along with a head before they are settled.
local full = {}
for i = 1, #heads do
  local place = places[heads[i]]
  if #writes[place] > 1030 then
    full[heads[i]] = string.sub(writes[place], 31)
    writes[place] = string.sub(writes[place], 1, 30)
  end
end
redis.call('MSET', unpack(writes))
for i = 1, n do
  -- A removal is forgotten by itself, unless it was written over in this very call.
  local place = ARGV[3 * i] == '' and places[KEYS[2 * i - 1]]
  if place and #writes[place] == 18 then
    redis.call('PEXPIRE', KEYS[2 * i - 1], string.format('%d', (struct.unpack('>I8', ARGV[3 * i + 1], 2))))
  end
end
for head, entries in pairs(full) do settle(string.sub(head, 1, -2), entries, now) end
for i = 1, #woken do
  local id = string.sub(KEYS[2 * woken[i] - 1], -32)
  if redis.call('ZSCORE', string.sub(KEYS[2 * woken[i]], 1, -2) .. 'w', id) then redis.call('PUBLISH', ARGV[1], id) end
end
return answers
