"""The scripts that the servers run, each on one key and atomically.

Every script may run twice: a repeated call changes nothing and returns the same. A server keeps
scripts by their digest; one that does not know a script is given all of them.
"""

import hashlib
from typing import Final

import attrs


@attrs.frozen
class Script:
    """A script in the servers' language, and the digest that it is called by."""

    source: str
    digest: str = attrs.field(init=False)

    @digest.default
    def _find_digest(self) -> str:
        # The protocol names scripts by this digest; nothing is protected by it.
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


_EPOCH_OF = """
local function epoch_of(token)
  return tonumber(string.match(token, '^e(%d+):'))
end
"""

# epoch, token to set or '', number of prefixes, prefixes..., then (from, to, limit)...
STAGE_GROUP: Final = Script(
    _EPOCH_OF
    + """
local known = redis.call('ZRANGEBYLEX', KEYS[1], '[e', '(f')[1]
if ARGV[1] ~= '' then
  local epoch = tonumber(ARGV[1])
  local other = known and epoch_of(known) or -1
  if other > epoch then return redis.error_reply('FENCED ' .. string.format('%.0f', other)) end
  if other < epoch and ARGV[2] ~= '' then
    if known then redis.call('ZREM', KEYS[1], known) end
    known = ARGV[2]
    redis.call('ZADD', KEYS[1], 0, known)
  end
end
local found = {known or ''}
local last = 3 + tonumber(ARGV[3])
local function add(members)
  for at = 1, #members do found[#found + 1] = members[at] end
end
for at = 4, last do
  add(redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[at], '(' .. ARGV[at] .. '\\255'))
end
for at = last + 1, #ARGV, 3 do
  add(redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[at], '(' .. ARGV[at + 1],
                 'LIMIT', 0, ARGV[at + 2]))
end
return found
"""
)

# expected token, new token, number of members to remove, members to remove..., members to add...
WRITE_GROUP: Final = Script(
    _EPOCH_OF
    + """
local known = redis.call('ZRANGEBYLEX', KEYS[1], '[e', '(f')[1] or ''
if known == ARGV[2] then return 1 end
if known ~= ARGV[1] then
  if known ~= '' and epoch_of(known) > epoch_of(ARGV[2]) then
    return redis.error_reply('FENCED ' .. string.format('%.0f', epoch_of(known)))
  end
  return 0
end
local last = 3 + tonumber(ARGV[3])
if known ~= '' then redis.call('ZREM', KEYS[1], known) end
redis.call('ZADD', KEYS[1], 0, ARGV[2])
for from = 4, last, 1000 do
  redis.call('ZREM', KEYS[1], unpack(ARGV, from, math.min(from + 999, last)))
end
for from = last + 1, #ARGV, 1000 do
  local scored = {}
  for at = from, math.min(from + 999, #ARGV) do
    scored[#scored + 1] = 0
    scored[#scored + 1] = ARGV[at]
  end
  redis.call('ZADD', KEYS[1], unpack(scored))
end
return 1
"""
)

# limit, (from, to)...: removes the members of the ranges, and then a group that has none left
DELETE_RANGES: Final = Script(
    """
local limit, removed = tonumber(ARGV[1]), 0
for at = 2, #ARGV, 2 do
  local members = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[at], '(' .. ARGV[at + 1],
                             'LIMIT', 0, limit - removed)
  for from = 1, #members, 1000 do
    redis.call('ZREM', KEYS[1], unpack(members, from, math.min(from + 999, #members)))
  end
  removed = removed + #members
end
if removed < limit and #redis.call('ZRANGEBYLEX', KEYS[1], '[f', '+', 'LIMIT', 0, 1) == 0 then
  redis.call('UNLINK', KEYS[1])
end
return removed
"""
)

# epoch, token to set or '', rows...
STAGE_ROWS: Final = Script(
    _EPOCH_OF
    + """
local known = redis.call('HGET', KEYS[1], 'e') or ''
if ARGV[1] ~= '' then
  local epoch = tonumber(ARGV[1])
  local other = known ~= '' and epoch_of(known) or -1
  if other > epoch then return redis.error_reply('FENCED ' .. string.format('%.0f', other)) end
  if other < epoch then
    known = ARGV[2]
    redis.call('HSET', KEYS[1], 'e', known)
  end
end
local found = {known}
for from = 3, #ARGV, 1000 do
  local values = redis.call('HMGET', KEYS[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
  for at = 1, #values do found[#found + 1] = values[at] or '' end
end
return found
"""
)

# expected token, new token, (row, position)...
WRITE_ROWS: Final = Script(
    _EPOCH_OF
    + """
local known = redis.call('HGET', KEYS[1], 'e') or ''
if known == ARGV[2] then return 1 end
if known ~= ARGV[1] then
  if known ~= '' and epoch_of(known) > epoch_of(ARGV[2]) then
    return redis.error_reply('FENCED ' .. string.format('%.0f', epoch_of(known)))
  end
  return 0
end
redis.call('HSET', KEYS[1], 'e', ARGV[2])
for from = 3, #ARGV, 1000 do
  redis.call('HSET', KEYS[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return 1
"""
)

# Blocks: 'n' from to limit few count (from, to, most)...  the newest entries below `to`, and if
# there are more than `few`, the other ranges: of each the first `most`, or the last if that is
# negative, or all if it is 0; 'r' from to  a whole range; 'i' from to  the entries of the newest
# instant. Each block returns one list of newest entries and one of the others.
READ_GROUP: Final = Script(
    """
local found, at = {}, 1
while at <= #ARGV do
  local kind, from, to = ARGV[at], '[' .. ARGV[at + 1], '(' .. ARGV[at + 2]
  local newest, others = {}, {}
  at = at + 3
  if kind == 'r' then
    others = redis.call('ZRANGEBYLEX', KEYS[1], from, to)
  elseif kind == 'i' then
    newest = redis.call('ZREVRANGEBYLEX', KEYS[1], to, from, 'LIMIT', 0, 1)
    if newest[1] and string.byte(newest[1], -1) > 8 then
      local instant = string.sub(newest[1], 1, 9)
      others = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. instant, '(' .. instant .. '\\255')
    end
  else
    local few, last = tonumber(ARGV[at + 1]), at + 2 + 3 * tonumber(ARGV[at + 2])
    newest = redis.call('ZREVRANGEBYLEX', KEYS[1], to, from, 'LIMIT', 0, ARGV[at])
    if #newest > few then
      for range = at + 3, last, 3 do
        local from, to, most = '[' .. ARGV[range], '(' .. ARGV[range + 1], tonumber(ARGV[range + 2])
        local members
        if most < 0 then
          members = redis.call('ZREVRANGEBYLEX', KEYS[1], to, from, 'LIMIT', 0, -most)
        else
          if most == 0 then most = -1 end
          members = redis.call('ZRANGEBYLEX', KEYS[1], from, to, 'LIMIT', 0, most)
        end
        for each = 1, #members do others[#others + 1] = members[each] end
      end
    end
    at = last + 1
  end
  found[#found + 1] = newest
  found[#found + 1] = others
end
return found
"""
)

# external id, epoch, name of the field of the epoch
RAISE_EPOCH: Final = Script(
    """
local found = redis.call('HGET', KEYS[1], 'external_id')
if found ~= ARGV[1] then return redis.error_reply('REPLACED') end
local known = tonumber(redis.call('HGET', KEYS[1], ARGV[3]) or '-1')
if known > tonumber(ARGV[2]) then
  return redis.error_reply('FENCED ' .. string.format('%.0f', known))
end
if known < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[3], ARGV[2]) end
return 1
"""
)

# epoch, (digest of a row, instant or '')...
STORE_INSTANTS: Final = Script(
    """
local known = redis.call('ZRANGEBYLEX', KEYS[1], '[e', '(f')[1]
local other, epoch = known and tonumber(string.sub(known, 2)) or -1, tonumber(ARGV[1])
if other > epoch then return redis.error_reply('FENCED ' .. string.format('%.0f', other)) end
if other < epoch then
  if known then redis.call('ZREM', KEYS[1], known) end
  redis.call('ZADD', KEYS[1], 0, 'e' .. ARGV[1])
end
local greatest = string.rep('\\255', 8)
for at = 2, #ARGV, 2 do
  local row, instant = ARGV[at], ARGV[at + 1]
  local stored = redis.call('ZRANGEBYLEX', KEYS[1], '[i' .. row, '[i' .. row .. greatest)[1]
  if stored then
    redis.call('ZREM', KEYS[1], stored, 'w' .. string.sub(stored, -8) .. row)
  end
  if instant ~= '' then
    redis.call('ZADD', KEYS[1], 0, 'i' .. row .. instant, 0, 'w' .. instant .. row)
  end
end
return 1
"""
)

# 'w' and the instant before which rows are forgotten, limit
FORGET_INSTANTS: Final = Script(
    """
local found = redis.call('ZRANGEBYLEX', KEYS[1], '[w', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
for at = 1, #found do
  local row = string.sub(found[at], 10)
  redis.call('ZREM', KEYS[1], found[at], 'i' .. row .. string.sub(found[at], 2, 9))
end
return #found
"""
)

# external id, epoch, name of the field of the epoch, name of the field of this shard's newest row
# or '', its event time or '', (field that never goes back, number)...
ADVANCE: Final = Script(
    RAISE_EPOCH.source.replace(
        "return 1\n",
        """
for at = 6, #ARGV, 2 do
  local stored = redis.call('HGET', KEYS[1], ARGV[at])
  if not stored or tonumber(stored) < tonumber(ARGV[at + 1]) then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  end
end
if ARGV[4] ~= '' then
  redis.call('HDEL', KEYS[1], ARGV[4], 'newest')
  if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], ARGV[4], ARGV[5]) end
  local fields, newest = redis.call('HGETALL', KEYS[1]), nil
  for at = 1, #fields, 2 do
    local is_newest = string.sub(fields[at], 1, 10) == 'newest of '
    if is_newest and (not newest or tonumber(newest) < tonumber(fields[at + 1])) then
      newest = fields[at + 1]
    end
  end
  if newest then redis.call('HSET', KEYS[1], 'newest', newest) end
end
return 1
""",
    )
)

# external id, spec, asset id, name
CREATE: Final = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'external_id', ARGV[1], 'spec', ARGV[2], 'asset_id', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'external_id', 'spec', 'ready')
"""
)

# external id
READY: Final = Script(
    """
if redis.call('HGET', KEYS[1], 'external_id') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'ready', '1')
end
return 1
"""
)

# external id
REMOVE: Final = Script(
    """
if redis.call('HGET', KEYS[1], 'external_id') == ARGV[1] then redis.call('UNLINK', KEYS[1]) end
return 1
"""
)

SCRIPTS: Final = (
    STAGE_GROUP,
    WRITE_GROUP,
    DELETE_RANGES,
    STAGE_ROWS,
    WRITE_ROWS,
    READ_GROUP,
    RAISE_EPOCH,
    STORE_INSTANTS,
    FORGET_INSTANTS,
    ADVANCE,
    CREATE,
    READY,
    REMOVE,
)
