"""Lua scripts of the store on Redis. Every key is declared: `keys` maps names to declared keys."""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local keys, lives = {}, {}
local function declare(names)
  for i, each in ipairs(names) do keys[each[1]], lives[each[1]] = KEYS[i], each[2] end
end
local function vector(text)
  local found = {struct.unpack('<' .. string.rep('d', #text / 8), text)}
  table.remove(found)  -- the last is where it stopped reading
  return found
end
local function add(name, field, row)
  local known = redis.call('HGET', keys[name], field)
  if known then
    local a, b = vector(known), vector(row)
    for i = 1, #a do a[i] = a[i] + b[i] end
    row = struct.pack('<' .. string.rep('d', #a), unpack(a))
  end
  redis.call('HSET', keys[name], field, row)
end
local function named(name)
  redis.call('ZADD', keys['names'], 0, name)
  redis.call('EXPIRE', keys['names'], lives['names'])
  redis.call('EXPIRE', keys[name], lives[name])
end
"""
# ARGV: declared names, the bucket of draws, increments, settlements. Returns 0 and the number of
# late bets; 1 and what is refused; 2 and the last closed bucket where that of draws is closed.
ADD: Final = (
    _COMMON
    + """
declare(cmsgpack.unpack(ARGV[1]))
local current = tonumber(ARGV[2])
local closed = tonumber(redis.call('HGET', keys['state'], 'closed') or '-1')
if closed >= current then return {2, closed} end
local increments, settlements = cmsgpack.unpack(ARGV[3]), cmsgpack.unpack(ARGV[4])
local function acknowledge(entry)
  if entry ~= '' then
    redis.call('XACK', keys['records'], 'workers', entry)
    redis.call('XDEL', keys['records'], entry)
  end
end
local refused = {}
for _, each in ipairs(settlements) do
  local id, entry, decision = each[1], each[2], each[3]
  local known = redis.call('GET', keys['record' .. id])
  if known == '' then acknowledge(entry) end  -- put twice by its producer
  if known and (known == '' or decision ~= '') then
    table.insert(refused, id)
  end
end
if #refused > 0 then return {1, refused} end
local seen, late = {}, 0
for _, each in ipairs(increments) do
  local name = each[1]
  local start = string.match(name, '^b(%d+)$')
  if name == 'b' then name = 'b' .. current end
  if start and tonumber(start) <= closed then
    late = late + 1
  else
    add(name, each[2], each[3])
    seen[name] = true
  end
end
for name in pairs(seen) do named(name) end
for _, each in ipairs(settlements) do
  local id, entry, decision = each[1], each[2], each[3]
  if decision ~= '' then
    redis.call('SET', keys['record' .. id], current .. ' ' .. decision, 'EX', ARGV[5])
  else
    redis.call('SET', keys['record' .. id], '', 'EX', ARGV[6])
    acknowledge(entry)
  end
end
return {0, late}
"""
)
# ARGV: declared names, version, last closed bucket, document, moves, drops, increments, rows.
COMMIT: Final = (
    _COMMON
    + """
declare(cmsgpack.unpack(ARGV[1]))
local version = ARGV[2]
if (redis.call('HGET', keys['state'], 'version') or '0') ~= version then return 0 end
redis.call('HSET', keys['state'], 'version', version + 1, 'closed', ARGV[3], 'document', ARGV[4])
redis.call('EXPIRE', keys['state'], lives['state'])
for _, move in ipairs(cmsgpack.unpack(ARGV[5])) do
  local rows = redis.call('HGETALL', keys[move[1]])
  for i = 1, #rows, 2 do add(move[2], rows[i], rows[i + 1]) end
  redis.call('DEL', keys[move[1]])
  redis.call('ZREM', keys['names'], move[1])
  if #rows > 0 then named(move[2]) end
end
for _, name in ipairs(cmsgpack.unpack(ARGV[6])) do
  redis.call('DEL', keys[name])
  redis.call('ZREM', keys['names'], name)
end
for _, each in ipairs(cmsgpack.unpack(ARGV[7])) do
  add(each[1], each[2], each[3])
  named(each[1])
end
local rows = cmsgpack.unpack(ARGV[8])
for _, each in ipairs(rows) do redis.call('HSET', keys['rows'], each[1], each[2]) end
if #rows > 0 then redis.call('EXPIRE', keys['rows'], lives['rows']) end
return 1
"""
)
# KEYS: rows, their order. ARGV: rows by key, each in a list, which is empty where the row is to go;
# what is expected of each (`any`, `none`, `row`), that row, most rows, seconds to live.
KEEP: Final = """
local rows = cmsgpack.unpack(ARGV[1])
for _, each in ipairs(rows) do
  local known = redis.call('HGET', KEYS[1], each[1])
  if ARGV[2] == 'none' and known then return 0 end
  if ARGV[2] == 'row' and known ~= ARGV[3] then return 0 end
end
local newest = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local order = tonumber(newest[2]) or 0
for at, each in ipairs(rows) do
  local key, row = each[1], each[2][1]
  if row then
    redis.call('HSET', KEYS[1], key, row)
    redis.call('ZADD', KEYS[2], order + at, key)
  else
    redis.call('HDEL', KEYS[1], key)
    redis.call('ZREM', KEYS[2], key)
  end
end
local excess = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if excess > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', KEYS[2], 0, excess - 1)) do
    redis.call('HDEL', KEYS[1], oldest)
    redis.call('ZREM', KEYS[2], oldest)
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[5])
return 1
"""
