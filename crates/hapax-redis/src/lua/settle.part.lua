-- Writes into its indexes what a bucket has to be settled, each record as it is now. The commands take many members at once: that
-- is what makes it cheap to leave this for later.
--
-- An entry is a letter and an id (32). The first one of an id says what the indexes know of it: 'n' nothing, 'S' its weight (8)
-- and the tags that it still has, 'C' its weight and the tags (length 2) that follow. An 'S' is followed by a 'C' once its tags
-- change; what else follows of an id says nothing new. 'x' is a removal, with version and stamp (16), for when the record itself
-- is forgotten. A program from before there were weights has left 's' and 'c' without one.
local sub, byte, number, format = string.sub, string.byte, struct.unpack, string.format
local function settle(base, now, memory)
  local entries, state = unpack(redis.call('MGET', base .. 'p', base .. 'h'))
  state = state or '}00000000000000000000000000000'
  local ids, known, weighed, gone = {}, {}, {}, {}
  local at, stop = 1, #entries
  while at <= stop do
    local letter, id = byte(entries, at), sub(entries, at + 1, at + 32)
    at = at + 33
    if letter < 97 then
      if known[id] == nil then weighed[id] = number('>I8', entries, at) end
      letter, at = letter + 32, at + 8
    end
    if known[id] == nil then
      ids[#ids + 1] = id
      known[id] = letter == 110 and ''
    end
    if letter == 99 then
      local length = number('>I2', entries, at)
      known[id] = known[id] or sub(entries, at + 2, at + 1 + length)
      at = at + 2 + length
    elseif letter == 120 then
      gone[id] = sub(entries, at, at + 15)
      at = at + 16
    end
  end

  local adds, drops, counts, weights, removed = {}, {}, {}, {}, 0
  local function add(set, score, member)
    local to = adds[set]
    if not to then
      to = {base .. set}
      adds[set] = to
    end
    local last = #to
    to[last + 1], to[last + 2] = score, member
  end
  local function drop(set, member)
    local from = drops[set]
    if not from then
      from = {base .. set}
      drops[set] = from
    end
    from[#from + 1] = member
  end
  local settled = tonumber(sub(state, 2, 17))
  local highest, taken, records, feed = settled, {}, base .. 'r', {base .. 'f'}
  for i = 1, #ids do
    local id = ids[i]
    -- Dues and tags of most records are within these bytes; lists make them longer.
    local held = redis.call('GETRANGE', records .. id, 0, 77)
    -- A record that is there no more and was not removed by us was taken away behind our back: nothing is left of it.
    if #held < 18 then held = (gone[id] or string.rep('\0', 16)) .. '\0\0' end
    local version, stamp, length = number('>I8I8I2', held)
    if length > 60 then held = redis.call('GETRANGE', records .. id, 0, 17 + length) end
    local version_digits = format('%d', version)
    -- Whoever reads the feed goes on behind the highest that was there: what comes now stands above it, each in its own place.
    local place = version
    if place <= settled or taken[place] then
      place = math.max(place, settled + 1)
      while taken[place] do place = place + 1 end
    end
    taken[place] = true
    if place > highest then highest = place end
    feed[2 * i], feed[2 * i + 1] = place == version and version_digits or format('%d', place), id
    local doubt, tagged, weight = byte(held, 37), 38, 0
    if doubt and doubt > 49 then
      tagged, weight = 46, number('>I8', held, 38)
    end
    local after = sub(held, tagged, 18 + length)
    local before = known[id] or after
    if after == '' then
      removed = removed + 1
      add('x', format('%d', stamp + memory), id)
    else
      add('t' .. sub(after, 18, 33), version_digits, id)
    end
    for due = 0, 1 do
      local set, how = due == 0 and 'l' or 'e', byte(held, 19 + 9 * due)
      if after ~= '' and how ~= 45 then
        local score = number('>I8', held, 20 + 9 * due)
        if how == 43 then score = score + stamp end
        add(set, format('%d', score), id)
      elseif before ~= '' then
        drop(set, id)
      end
    end
    if after ~= '' and (doubt == 49 or doubt == 51) then
      add('d', version_digits, id)
    elseif before ~= '' then
      drop('d', id)
    end
    if before == after then
      if after ~= '' then
        local what = sub(after, 1, 33)
        weights[what] = (weights[what] or 0) + weight - (weighed[id] or 0)
      end
    else
      if before ~= '' then
        local what = sub(before, 1, 33)
        counts[what] = (counts[what] or 0) - 1
        weights[what] = (weights[what] or 0) - (weighed[id] or 0)
        if sub(before, 18, 33) ~= sub(after, 18, 33) then drop('t' .. sub(before, 18, 33), id) end
        for list = 34, #before, 25 do
          drop(sub(before, list, list + 16), sub(before, list + 17, list + 24) .. id)
        end
      end
      if after ~= '' then
        local what = sub(after, 1, 33)
        counts[what] = (counts[what] or 0) + 1
        weights[what] = (weights[what] or 0) + weight
        for list = 34, #after, 25 do
          add(sub(after, list, list + 16), '0', sub(after, list + 17, list + 24) .. id)
        end
      end
    end
  end

  redis.call('SET', base .. 'h', '}' .. format('%016d', highest) .. sub(state, 18, 30))
  redis.call('DEL', base .. 'p')
  redis.call('ZADD', unpack(feed))
  -- First out, then in: what stays in a list was named in both.
  for _, call in pairs(drops) do redis.call('ZREM', unpack(call)) end
  for _, call in pairs(adds) do redis.call('ZADD', unpack(call)) end
  local function count(kind, what, by)
    if by == 0 then return end
    local surface, tenant = sub(what, 2, 17), sub(what, 18, 33)
    for i = 1, tenant == surface and 1 or 2 do
      local field = kind .. (i == 1 and surface or tenant)
      if redis.call('HINCRBY', base .. 'u', field, format('%d', by)) == 0 then redis.call('HDEL', base .. 'u', field) end
    end
  end
  for what, by in pairs(counts) do count(sub(what, 1, 1), what, by) end
  -- Of tombstones only the number is counted.
  for what, by in pairs(weights) do
    if byte(what) == 114 then count('b', what, by) end
  end
  if removed > 0 then
    -- What was removed so long ago that even its version is forgotten leaves the feed; who reads it has a gap then.
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'x', '-inf', now, 'LIMIT', 0, 3 * removed)) do
      redis.call('ZREM', base .. 'x', old)
      if redis.call('EXISTS', base .. 'r' .. old) == 0 then
        local last = redis.call('ZSCORE', base .. 'f', old)
        redis.call('ZREM', base .. 'f', old)
        local through = redis.call('GET', base .. 'z')
        if last and (not through or tonumber(through) < tonumber(last)) then redis.call('SET', base .. 'z', last) end
      end
    end
  end
end
