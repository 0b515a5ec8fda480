-- Compare-and-set of some records. It compares versions and moves bytes; it knows nothing of what they mean.
--
-- KEYS: for each record its own and the head of its bucket; in a cluster one more, which is never there: while a slot is half
--       moved Redis refuses a script of which a key is missing, and all else that is touched lies in the same slot
-- ARGV: the channel of wake-ups; how long a removal is remembered (ms); then for each record the expected version (8) and
--       what to store behind version and stamp ('' removes)
-- Stored: version (8), stamp (8), dues and tags (length 2), envelope
-- Dues:   a letter and a number (8) for the lease's end and for the expiry, '-' none, '+' after the stamp, '=' as it is; '1' if in doubt
-- Tags:   'r' a record or 't' a tombstone, surface (16), tenant (16), then for each list its letter, tag (16) and order (8)
-- Head:   '=', the bucket's highest version (16 digits), until when somebody waits (13 digits), entries to be settled
-- Answers for each record version and stamp in one, or what is held and the time.
local n = (#ARGV - 2) / 2
local held = redis.call('MGET', unpack(KEYS, 1, 2 * n))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The version of most of them, and what they begin with: numbers are slow to write down.
local clock = time[1] * 1000000 + time[2]
local usual_digits, usual_front = string.format('%016d', clock), struct.pack('>I8I8', clock, now)
local now_digits = string.format('%013d', now)
local answers, writes, places, heads, woken, removals = {}, {}, {}, {}, {}, {}
for i = 1, n do
  local key, head = KEYS[2 * i - 1], KEYS[2 * i]
  local place, head_place = places[key], places[head]
  -- Somebody before us in this very call may have written either.
  local was = place and writes[place] or held[2 * i - 1]
  local state = head_place and writes[head_place] or held[2 * i] or '=00000000000000000000000000000'
  if byte(state) ~= 61 then
    return redis.error_reply('LAYOUT an older program has written here, in a layout that this one does not use')
  end
  if (was and sub(was, 1, 8) or '\0\0\0\0\0\0\0\0') ~= ARGV[2 * i + 1] then
    answers[i] = {was, now}
  else
    local tail, id, digits, front = ARGV[2 * i + 2], sub(key, -32), usual_digits, usual_front
    local highest, version, stamp = sub(state, 2, 17), clock, now
    if highest >= digits then version = highest + 1 end
    local before, after = '', ''
    if was then
      stamp = math.max(now, (number('>I8', was, 9)))
      before = sub(was, 38, 18 + number('>I2', was, 17))
    end
    if tail == '' then
      tail = '\0\0'
      removals[#removals + 1] = key
    else
      after = sub(tail, 22, 2 + number('>I2', tail, 1))
    end
    if version ~= clock or stamp ~= now then
      digits, front = string.format('%016d', version), struct.pack('>I8I8', version, stamp)
    end
    -- An id is a digest: nothing else in a head looks like it.
    local known, entry = string.find(state, id, 31, true), ''
    if known then
      if byte(state, known - 1) == 115 and before ~= after then entry = 'c' .. id .. struct.pack('>I2', #before) .. before end
    elseif before == '' then
      entry = 'n' .. id
    elseif before == after then
      entry = 's' .. id
    else
      entry = 'c' .. id .. struct.pack('>I2', #before) .. before
    end
    if after == '' then entry = entry .. 'x' .. id .. front end
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
    writes[head_place] = '=' .. digits .. sub(state, 18) .. entry
    if sub(state, 18, 30) > now_digits then woken[#woken + 1] = i end
    answers[i] = front
  end
end
if #writes == 0 then return answers end

-- So many bytes of entries are carried along with a head before they are settled.
local full = {}
for i = 1, #heads do
  local place = places[heads[i]]
  if #writes[place] > 400 then
    full[heads[i]] = sub(writes[place], 31)
    writes[place] = sub(writes[place], 1, 30)
  end
end
redis.call('MSET', unpack(writes))
for i = 1, #removals do
  -- It is forgotten by itself, unless it was written over in this very call.
  if #writes[places[removals[i]]] == 18 then redis.call('PEXPIRE', removals[i], ARGV[2]) end
end
for head, entries in pairs(full) do settle(sub(head, 1, -2), entries, now, ARGV[2]) end
for i = 1, #woken do
  local id = sub(KEYS[2 * woken[i] - 1], -32)
  if redis.call('ZSCORE', sub(KEYS[2 * woken[i]], 1, -2) .. 'w', id) then redis.call('PUBLISH', ARGV[1], id) end
end
return answers
