"""The Lua script of the store on Redis: a `Change`, whole or not at all."""

from __future__ import annotations

from typing import Final

# Also on a server that is full: only sums that are added make room on a stream. Every key is
# declared: `keys` maps names to declared keys. ARGV: names with how long each lives in seconds;
# then a `Change` in the order of its fields, from what is expected on.
CHANGE: Final = """#!lua flags=allow-oom
local keys, lives = {}, {}
for i, each in ipairs(cmsgpack.unpack(ARGV[1])) do
  keys[each[1]], lives[each[1]] = KEYS[i], each[2]
end
for _, each in ipairs(cmsgpack.unpack(ARGV[2])) do
  local kind, key, row = each[1], each[2], each[3][1] or false
  local known
  if kind == 'record' then
    known = redis.call('GET', keys['record:' .. key])
  else
    known = redis.call('HGET', keys['rows:' .. kind], key)
  end
  if known ~= row then return 0 end
end

local function vector(text)
  local found = {struct.unpack('<' .. string.rep('d', #text / 8), text)}
  table.remove(found)  -- the last is where it stopped reading
  return found
end
local added = {}
local function add(name, field, row)
  local known = redis.call('HGET', keys[name], field)
  if known then
    local a, b = vector(known), vector(row)
    for i = 1, #a do a[i] = a[i] + b[i] end
    row = struct.pack('<' .. string.rep('d', #a), unpack(a))
  end
  redis.call('HSET', keys[name], field, row)
  added[name] = true
end
local function drop(name)
  redis.call('DEL', keys[name])
  redis.call('ZREM', keys['names'], name)
end
for _, move in ipairs(cmsgpack.unpack(ARGV[3])) do
  local rows = redis.call('HGETALL', keys[move[1]])
  for i = 1, #rows, 2 do add(move[2], rows[i], rows[i + 1]) end
  drop(move[1])
end
for _, name in ipairs(cmsgpack.unpack(ARGV[4])) do drop(name) end
for _, each in ipairs(cmsgpack.unpack(ARGV[5])) do add(each[1], each[2], each[3]) end
for name in pairs(added) do
  redis.call('ZADD', keys['names'], 0, name)
  redis.call('EXPIRE', keys['names'], lives['names'])
  redis.call('EXPIRE', keys[name], lives[name])
end

local kinds = {}
for _, each in ipairs(cmsgpack.unpack(ARGV[6])) do
  local kind, key, row = each[1], each[2], each[3][1]
  if kind == 'record' then
    redis.call('SET', keys['record:' .. key], row, 'EX', lives['record:' .. key])
  else
    local rows, order = keys['rows:' .. kind], keys['order:' .. kind]
    kinds[kind] = kinds[kind] or tonumber(redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')[2]) or 0
    kinds[kind] = kinds[kind] + 1
    if row then
      redis.call('HSET', rows, key, row)
      redis.call('ZADD', order, kinds[kind], key)
    else
      redis.call('HDEL', rows, key)
      redis.call('ZREM', order, key)
    end
  end
end
for kind in pairs(kinds) do
  local rows, order = keys['rows:' .. kind], keys['order:' .. kind]
  local excess = redis.call('ZCARD', order) - cmsgpack.unpack(ARGV[8])
  if excess > 0 then
    for _, oldest in ipairs(redis.call('ZRANGE', order, 0, excess - 1)) do
      redis.call('HDEL', rows, oldest)
      redis.call('ZREM', order, oldest)
    end
  end
  redis.call('EXPIRE', rows, lives['rows:' .. kind])
  redis.call('EXPIRE', order, lives['order:' .. kind])
end

for _, entry in ipairs(cmsgpack.unpack(ARGV[7])) do
  redis.call('XACK', keys['records'], 'workers', entry)
  redis.call('XDEL', keys['records'], entry)
end
return 1
"""
