-- Follows the facts of one event. Claims (the keys of seats) follow every fact at once. The projection (bitmaps,
-- counters, the ordered set, the hashes of holds) follows them strictly in sequence, so that it is always the state
-- of exactly one sequence. Facts that come too early wait in `ahead`.
-- KEYS: the event's keys begin with this. They share a slot, so the rest can be built here.
-- ARGV: what all the event's seat ids begin with; grace in ms; how many facts may wait; how many of them are taken
-- up in one call; how long the projection is kept in ms; then ten values for each fact.
local base, prefix = KEYS[1], ARGV[1]
local grace, max_ahead, max_drain, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local occupancy, holds, ahead = base .. 'occupancy', base .. 'seat_holds', base .. 'ahead'
local availability, sold = base .. 'availability', base .. 'sold'
local SEQUENCE, KIND, HOLD, USER, HEAD, DEADLINE, EXPIRES, SEATS, AREAS, MORE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local WIDTH = 10
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local missing_keep = 60000

local function id(ordinal)
  return prefix .. string.format('%08x', ordinal)
end

local function each_seat(fact, visit)
  for ordinal in string.gmatch(fact[SEATS], '%d+') do
    visit(tonumber(ordinal))
  end
end

-- What the truth says of a seat, and since which sequence. Nothing for a pending claim.
local function of_hold(value)
  if value and string.sub(value, 1, 9) == '{"hold":"' then
    return string.sub(value, 10, 45), tonumber(string.match(value, '"sequence":(%d+)}$'))
  end
end

local function write_claim(key, fact, head)
  local value = head .. ',"expires_at":' .. fact[EXPIRES] .. ',"sequence":' .. fact[SEQUENCE] .. '}'
  call('SET', key, value, 'PXAT', fact[DEADLINE])
end

local function claims(fact)
  local kind, sequence = fact[KIND], tonumber(fact[SEQUENCE])
  local takes = kind == 'take' or kind == 'more' or kind == 'move'
  if not takes and kind ~= 'free' and kind ~= 'expire' and kind ~= 'sell' then
    return
  end
  each_seat(fact, function(ordinal)
    local key = base .. 'seat:' .. id(ordinal)
    local value = call('GET', key)
    local hold, since = of_hold(value)
    if since and since > sequence then
      return
    end
    if not takes then
      if hold == fact[HOLD] then
        call('DEL', key)
      end
    elseif kind == 'move' and hold == fact[HOLD] then
      write_claim(key, fact, string.gsub(value, ',"expires_at":%d+,"sequence":%d+}$', ''))
    else
      write_claim(key, fact, fact[HEAD])
    end
  end)
end

local counts = {}
local function count(name, by)
  counts[name] = (counts[name] or 0) + by
end

local function count_areas(fact, held, sells)
  for area, quantity in string.gmatch(fact[AREAS], '([^,=]+)=(%d+)') do
    count('area:' .. area .. ':held', held * quantity)
    count('area:' .. area .. ':sold', sells * quantity)
  end
end

local function status(fact, word)
  local key = base .. 'hold:' .. fact[HOLD]
  if call('EXISTS', key) == 1 then
    call('HSET', key, 'status', word)
    call('PEXPIRE', key, grace)
  end
end

local function take(fact)
  local key, ids = base .. 'hold:' .. fact[HOLD], {}
  each_seat(fact, function(ordinal)
    ids[#ids + 1] = id(ordinal)
    call('ZADD', holds, fact[EXPIRES], id(ordinal) .. ':' .. fact[HOLD] .. ':' .. fact[USER])
    call('SETBIT', availability, ordinal, 0)
    count('available', -1)
    count('held', 1)
  end)
  count_areas(fact, 1, 0)
  if fact[KIND] == 'take' then
    local created, source = string.match(fact[MORE], '^(%d+) (.*)$')
    call('HSET', key, 'seats', table.concat(ids, ','), 'user', fact[USER], 'source', source,
      'status', 'active', 'created', created, 'expires', fact[EXPIRES])
  else
    local before = call('HGET', key, 'seats')
    if before and before ~= '' then
      table.insert(ids, 1, before)
    end
    call('HSET', key, 'seats', table.concat(ids, ','))
  end
  call('PEXPIREAT', key, fact[DEADLINE])
end

local function give_back(fact)
  local gone = {}
  each_seat(fact, function(ordinal)
    gone[id(ordinal)] = true
    call('ZREM', holds, id(ordinal) .. ':' .. fact[HOLD] .. ':' .. fact[USER])
    call('SETBIT', availability, ordinal, 1)
    count('available', 1)
    count('held', -1)
  end)
  count_areas(fact, -1, 0)
  if fact[MORE] == 'ended' then
    status(fact, fact[KIND] == 'expire' and 'expired' or 'cancelled')
    return
  end
  local key, left = base .. 'hold:' .. fact[HOLD], {}
  for seat in string.gmatch(call('HGET', key, 'seats') or '', '[^,]+') do
    if not gone[seat] then
      left[#left + 1] = seat
    end
  end
  if call('EXISTS', key) == 1 then
    call('HSET', key, 'seats', table.concat(left, ','))
  end
end

local function move(fact)
  local key = base .. 'hold:' .. fact[HOLD]
  each_seat(fact, function(ordinal)
    call('ZADD', holds, fact[EXPIRES], id(ordinal) .. ':' .. fact[HOLD] .. ':' .. fact[USER])
  end)
  if call('EXISTS', key) == 1 then
    call('HSET', key, 'expires', fact[EXPIRES])
    call('PEXPIREAT', key, fact[DEADLINE])
  end
end

local function sell(fact)
  each_seat(fact, function(ordinal)
    call('ZREM', holds, id(ordinal) .. ':' .. fact[HOLD] .. ':' .. fact[USER])
    call('SETBIT', sold, ordinal, 1)
    count('held', -1)
    count('sold', 1)
  end)
  count_areas(fact, -1, 1)
  status(fact, 'converted')
end

-- Moves free seats between what is counted as `from` and what is counted as `to`.
local function turn(fact, from, to)
  each_seat(fact, function(ordinal)
    call('SETBIT', availability, ordinal, to == 'available' and 1 or 0)
    if from == 'sold' then
      call('SETBIT', sold, ordinal, 0)
    end
    count(from, -1)
    count(to, 1)
  end)
end

-- Sets a range of bits, whole bytes at once.
local function add_seats(fact)
  local first, number = string.match(fact[SEATS], '(%d+),(%d+)')
  first, number = tonumber(first), tonumber(number)
  local after = first + number
  local first_byte, after_byte = math.ceil(first / 8), math.floor(after / 8)
  if after_byte > first_byte then
    call('SETRANGE', availability, first_byte, string.rep('\255', after_byte - first_byte))
  end
  for ordinal = first, math.min(first_byte * 8, after) - 1 do
    call('SETBIT', availability, ordinal, 1)
  end
  for ordinal = math.max(after_byte * 8, first), after - 1 do
    call('SETBIT', availability, ordinal, 1)
  end
  count('available', number)
end

local function project(fact)
  local kind = fact[KIND]
  if kind == 'take' or kind == 'more' then take(fact)
  elseif kind == 'free' or kind == 'expire' then give_back(fact)
  elseif kind == 'move' then move(fact)
  elseif kind == 'sell' then sell(fact)
  elseif kind == 'cancel' then
    turn(fact, 'sold', 'available')
    count_areas(fact, 0, -1)
  elseif kind == 'block' then turn(fact, 'available', 'blocked')
  elseif kind == 'unblock' then turn(fact, 'blocked', 'available')
  elseif kind == 'seats' then add_seats(fact)
  elseif kind == 'area' then count_areas(fact, 0, 0)
  end
end

local at = tonumber(call('HGET', occupancy, 'sequence') or nil)
local before, wait = at, false
for first = 6, #ARGV, WIDTH do
  local fact = {unpack(ARGV, first, first + WIDTH - 1)}
  local sequence = tonumber(fact[SEQUENCE])
  if not at and sequence == 1 then
    -- The first fact of an event: there is nothing before it that could be missing here.
    at, before = 0, 0
    for _, name in ipairs({'available', 'held', 'sold', 'blocked'}) do
      count(name, 0)
    end
  end
  if not at or sequence > at then
    fact[DEADLINE] = string.format('%.0f', now + fact[DEADLINE])
    claims(fact)
    if at and sequence == at + 1 then
      project(fact)
      at = sequence
    else
      call('ZADD', ahead, sequence, cmsgpack.pack(fact))
      wait = true
    end
  end
end
if at then
  for _, packed in ipairs(call('ZRANGEBYSCORE', ahead, at + 1, at + max_drain)) do
    local fact = cmsgpack.unpack(packed)
    if tonumber(fact[SEQUENCE]) == at + 1 then
      claims(fact)
      project(fact)
      at = at + 1
    end
  end
  if at ~= before then
    call('ZREMRANGEBYSCORE', ahead, '-inf', at)
    for name, by in pairs(counts) do
      call('HINCRBY', occupancy, name, by)
    end
    call('HSET', occupancy, 'sequence', string.format('%.0f', at))
    for _, key in ipairs({occupancy, holds, availability, sold, ahead}) do
      call('PEXPIRE', key, keep)
    end
  end
end
local waiting = call('ZCARD', ahead)
if waiting > max_ahead then
  if at then
    -- The fact that is missing will not come any more. Better nothing than something old.
    call('DEL', occupancy, holds, availability, sold, ahead)
    return {-1, 0}
  end
  call('ZREMRANGEBYRANK', ahead, 0, waiting - max_ahead - 1)
end
if wait then
  call('PEXPIRE', ahead, at and keep or missing_keep)
end
return {at or -1, waiting}
