-- Writes a bucket's unsettled entries into its indexes, those of one id folded into one. The commands take many members at once:
-- that is what makes it cheap to leave this for later.
--
-- An entry: its length (2), version (16 digits), stamp (8), id (32), dues (19), tags (length 2), and the tags that the record
-- had before (length 2, 65535 for the same ones); no tags stand for no record.
-- Dues: a letter and a number (8) for lease end and for expiry, '-' none, '+' after the stamp, '=' as it is; '1' in doubt. Of a
-- removal only '+' and for how long it is remembered.
-- Tags: 'r' a record or 't' a tombstone, surface (16), tenant (16), then for each list its letter, tag (16) and order (8).
local function settle(base, entries, now)
  local ids, befores, afters = {}, {}, {}
  local at, stop = 1, #entries
  while at <= stop do
    local length = struct.unpack('>I2', entries, at)
    local id = string.sub(entries, at + 26, at + 57)
    if not afters[id] then
      ids[#ids + 1] = id
      local tags = struct.unpack('>I2', entries, at + 77)
      if struct.unpack('>I2', entries, at + 79 + tags) == 65535 then
        befores[id] = string.sub(entries, at + 79, at + 78 + tags)
      else
        befores[id] = string.sub(entries, at + 81 + tags, at + 1 + length)
      end
    end
    afters[id] = at
    at = at + 2 + length
  end

  local adds, drops, counts = {}, {}, {}
  local function add(set, score, member)
    local to = adds[set]
    if not to then to = {base .. set}; adds[set] = to end
    to[#to + 1] = score
    to[#to + 1] = member
  end
  local function drop(set, member)
    local from = drops[set]
    if not from then from = {base .. set}; drops[set] = from end
    from[#from + 1] = member
  end
  local function count(tags, by)
    local kind, surface, tenant = string.sub(tags, 1, 1), string.sub(tags, 2, 17), string.sub(tags, 18, 33)
    counts[kind .. surface] = (counts[kind .. surface] or 0) + by
    if tenant ~= surface then counts[kind .. tenant] = (counts[kind .. tenant] or 0) + by end
  end
  local removed = 0
  for i = 1, #ids do
    local id = ids[i]
    local before, from = befores[id], afters[id]
    local version = string.sub(entries, from + 2, from + 17)
    local length = struct.unpack('>I2', entries, from + 77)
    local after = string.sub(entries, from + 79, from + 78 + length)
    add('f', version, id)
    if after == '' then
      removed = removed + 1
      add('x', string.format('%d', struct.unpack('>I8', entries, from + 18) + struct.unpack('>I8', entries, from + 59)), id)
    end
    for due = 0, 1 do
      local set, how = due == 0 and 'l' or 'e', string.byte(entries, from + 58 + 9 * due)
      if after ~= '' and how ~= 45 then
        local score = struct.unpack('>I8', entries, from + 59 + 9 * due)
        if how == 43 then score = score + struct.unpack('>I8', entries, from + 18) end
        add(set, string.format('%d', score), id)
      elseif before ~= '' then
        drop(set, id)
      end
    end
    if after ~= '' and string.byte(entries, from + 76) == 49 then
      add('d', version, id)
    elseif before ~= '' then
      drop('d', id)
    end
    local tenant = string.sub(after, 18, 33)
    if before ~= after then
      if before ~= '' then
        count(before, -1)
        if string.sub(before, 18, 33) ~= tenant then drop('t' .. string.sub(before, 18, 33), id) end
        for list = 34, #before, 25 do
          drop(string.sub(before, list, list + 16), string.sub(before, list + 17, list + 24) .. id)
        end
      end
      if after ~= '' then
        count(after, 1)
        for list = 34, #after, 25 do
          add(string.sub(after, list, list + 16), '0', string.sub(after, list + 17, list + 24) .. id)
        end
      end
    end
    if after ~= '' then add('t' .. tenant, version, id) end
  end

  -- First out, then in: what stays in a list was named in both.
  for _, call in pairs(drops) do redis.call('ZREM', unpack(call)) end
  for _, call in pairs(adds) do redis.call('ZADD', unpack(call)) end
  for field, by in pairs(counts) do
    if by ~= 0 and redis.call('HINCRBY', base .. 'u', field, by) == 0 then redis.call('HDEL', base .. 'u', field) end
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
