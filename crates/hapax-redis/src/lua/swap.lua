-- Compare-and-set of some records. It compares versions and moves bytes; it knows nothing of what they mean.
--
-- KEYS: for each record its own and the head of its bucket; in a cluster one more, which is never there: while a slot is half
--       moved Redis refuses a script of which a key is missing, and all else that is touched lies in the same slot
-- ARGV: the channel of wake-ups; how long a removal is remembered (ms); then for each record the expected version (8) and
--       what to store behind version and stamp ('' removes)
-- Stored: version (8), stamp (8), dues and tags (length 2), envelope
-- Dues:   a letter and a number (8) for the lease's end and for the expiry, '-' none, '+' after the stamp, '=' as it is; '3' if in
--         doubt, else '2'; what it takes (8). A program from before there were weights has left '1' and '0', and no weight
-- Tags:   'r' a record or 't' a tombstone, surface (16), tenant (16), then for each list its letter, tag (16) and order (8)
-- Head:   '}', the highest version that was settled or removed (16 digits), until when somebody waits (13 digits). A version is
--         given out above the highest one of its head. So a record whose version is above it was written since, and has its
--         entry among those to be settled ('p'): writing it again adds none.
-- Answers for each record version and stamp in one, or what is held and the time.
local n = (#ARGV - 2) / 2
local held = redis.call('MGET', unpack(KEYS, 1, 2 * n))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The version of most of them, and what they begin with: numbers are slow to write down.
local clock = time[1] * 1000000 + time[2]
local usual_digits, usual_front = string.format('%016d', clock), struct.pack('>I8I8', clock, now)
local now_digits = string.format('%013d', now)
local answers, writes, places, unlisted, woken, removals = {}, {}, {}, {}, {}, {}
local last = 0
for i = 1, n do
  local at = 2 * i
  local key, head = KEYS[at - 1], KEYS[at]
  local place, head_place = places[key], places[head]
  -- Somebody before us in this very call may have written either.
  local was = place and writes[place] or held[at - 1]
  local state = head_place and writes[head_place] or held[at] or '}00000000000000000000000000000'
  if byte(state) ~= 125 then
    return redis.error_reply('LAYOUT an older program has written here, in a layout that this one does not use')
  end
  if (was and sub(was, 1, 8) or '\0\0\0\0\0\0\0\0') ~= ARGV[at + 1] then
    answers[i] = {was, now}
  else
    local tail, front, digits = ARGV[at + 2], usual_front, usual_digits
    local highest, version, stamp = sub(state, 2, 17), clock, now
    if highest >= digits then version = highest + 1 end
    local before, after, tagged, listed = '', '', 38, false
    if was then
      local old, stamped, length = number('>I8I8I2', was)
      if old >= version then version = old + 1 end
      if stamped > now then stamp = stamped end
      if (byte(was, 37) or 0) > 49 then tagged = 46 end
      before, listed = sub(was, tagged, 18 + length), old > tonumber(highest)
    end
    if tail == '' then
      tail = '\0\0'
      removals[#removals + 1] = key
    else
      local high, low = byte(tail, 1, 2)
      after = sub(tail, 30, 2 + 256 * high + low)
    end
    if version ~= clock or stamp ~= now then
      digits, front = string.format('%016d', version), struct.pack('>I8I8', version, stamp)
    end
    if not place then
      place = last + 2
      places[key], writes[last + 1], last = place, key, place
    end
    writes[place] = front .. tail
    if not listed or before ~= after then
      local entry
      if before == '' then
        entry = 'n' .. sub(key, -32)
      else
        -- What the indexes know of it.
        entry = sub(key, -32) .. sub(was, 38, tagged - 1)
        if before == after then
          entry = (tagged == 38 and 's' or 'S') .. entry
        else
          entry = (tagged == 38 and 'c' or 'C') .. entry .. struct.pack('>I2', #before) .. before
        end
      end
      if after == '' then
        -- The record will be forgotten, its version must not be.
        entry = entry .. 'x' .. sub(key, -32) .. front
        if not head_place then
          head_place = last + 2
          places[head], writes[last + 1], last = head_place, head, head_place
        end
        writes[head_place] = '}' .. digits .. sub(state, 18, 30)
      end
      unlisted[#unlisted + 1] = head
      unlisted[#unlisted + 1] = entry
    end
    if byte(state, 18) ~= 48 and sub(state, 18, 30) > now_digits then woken[#woken + 1] = i end
    answers[i] = front
  end
end
if last == 0 then return answers end

redis.call('MSET', unpack(writes))
for i = 1, #removals do
  -- It is forgotten by itself, unless it was written over in this very call.
  if #writes[places[removals[i]]] == 18 then redis.call('PEXPIRE', removals[i], ARGV[2]) end
end
local full = {}
for i = 1, #unlisted, 2 do
  local base = sub(unlisted[i], 1, -2)
  -- With so many bytes of entries it is time to settle them.
  if redis.call('APPEND', base .. 'p', unlisted[i + 1]) > 1600 then full[base] = true end
end
for base in pairs(full) do settle(base, now, ARGV[2]) end
for i = 1, #woken do
  local id = sub(KEYS[2 * woken[i] - 1], -32)
  -- All is written by now: a wake-up that cannot be sent must not make that unknown.
  if redis.call('ZSCORE', sub(KEYS[2 * woken[i]], 1, -2) .. 'w', id) then redis.pcall('PUBLISH', ARGV[1], id) end
end
return answers
