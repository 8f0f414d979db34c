-- Follows the facts of one event. Claims (the keys of seats) follow every fact at once. The projection (bitmaps,
-- counters, the ordered set) follows them strictly in sequence, so that it is always the state of exactly one
-- sequence. Facts that come too early wait in `ahead`.
-- KEYS: the event's keys begin with this. They share a slot, so the rest can be built here.
-- ARGV: what all the event's seat ids begin with; how many facts may wait; how many seats those of them
-- may name that are taken up in one call; how long the projection is kept in ms; then nine values for each fact.
-- A seat is its ordinal in eight hex digits throughout, which is how its id ends.
local base, prefix = KEYS[1], ARGV[1]
local max_ahead, max_seats, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local occupancy, holds, ahead = base .. 'occupancy', base .. 'seat_holds', base .. 'ahead'
local availability, sold = base .. 'availability', base .. 'sold'
local seat_key = base .. 'seat:' .. prefix
local SEQUENCE, KIND, HOLD, USER, HEAD, DEADLINE, EXPIRES, SEATS, AREAS = 1, 2, 3, 4, 5, 6, 7, 8, 9
local WIDTH = 9
local call, sub = redis.call, string.sub
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- For an event that Redis does not have: as long as somebody may be rebuilding it.
local missing_keep = 60000

-- A call from a script costs more than what it does, so changes are gathered here and written at the end, together.
local values, claimed = {}, {}
local members, free_bits, sold_bits = {}, {}, {}

-- Whatever is gathered at most for one call: Lua's stack has an end.
local PIECE = 4000

local function in_pieces(list, write)
  for first = 1, #list, PIECE do
    write(unpack(list, first, math.min(first + PIECE - 1, #list)))
  end
end

local function seats_of(fact)
  local text, seats = fact[SEATS], {}
  for i = 1, #text, 8 do
    seats[#seats + 1] = sub(text, i, i + 7)
  end
  return seats
end

-- Holds that are made together end together.
local deadlines = {}
local function deadline(lives)
  local at = deadlines[lives]
  if not at then
    at = string.format('%.0f', now + lives)
    deadlines[lives] = at
  end
  return at
end

local TAKES = {take = true, more = true, move = true}
local ENDS = {free = true, sell = true}

-- Reads the claims that the facts are about, all at once.
local function read_claims(facts)
  local keys, ids = {}, {}
  for _, fact in ipairs(facts) do
    if TAKES[fact[KIND]] or ENDS[fact[KIND]] then
      for _, seat in ipairs(fact.seats) do
        if values[seat] == nil then
          values[seat] = false
          keys[#keys + 1] = seat_key .. seat
          ids[#ids + 1] = seat
        end
      end
    end
  end
  local place = 0
  in_pieces(keys, function(...)
    for _, value in ipairs(call('MGET', ...)) do
      place = place + 1
      values[ids[place]] = value
    end
  end)
end

local function claims(fact)
  local takes = TAKES[fact[KIND]]
  if not takes and not ENDS[fact[KIND]] then
    return
  end
  local sequence = tonumber(fact[SEQUENCE])
  local rest = ',"expires_at":' .. fact[EXPIRES] .. ',"sequence":' .. fact[SEQUENCE] .. '}'
  for _, seat in ipairs(fact.seats) do
    local value = values[seat]
    local hold, since
    -- What the truth says of the seat, and since which sequence. A pending claim says neither.
    if value and sub(value, 1, 9) == '{"hold":"' then
      hold, since = sub(value, 10, 45), tonumber(string.match(value, '"sequence":(%d+)}$'))
    end
    local new
    if since and since > sequence then
      new = nil
    elseif not takes then
      if hold == fact[HOLD] then new = false end
    elseif fact[KIND] == 'move' and hold == fact[HOLD] then
      new = string.gsub(value, ',"expires_at":%d+,"sequence":%d+}$', '') .. rest
    else
      new = fact[HEAD] .. rest
    end
    if new ~= nil then
      values[seat] = new
      claimed[seat] = fact[DEADLINE]
    end
  end
end

local at = tonumber(call('HGET', occupancy, 'sequence') or nil)
local counts = {}
local function count(name, by)
  counts[name] = (counts[name] or 0) + by
end

local function count_areas(areas, held, sells)
  for area, quantity in string.gmatch(areas, '([^,=]+)=(%d+)') do
    count('area:' .. area .. ':held', held * quantity)
    count('area:' .. area .. ':sold', sells * quantity)
  end
end

local function member(fact, seat)
  return prefix .. seat .. ':' .. fact[HOLD] .. ':' .. fact[USER]
end

local function take(fact)
  for _, seat in ipairs(fact.seats) do
    members[member(fact, seat)] = fact[EXPIRES]
    free_bits[seat] = 0
  end
  count('available', -#fact.seats)
  count('held', #fact.seats)
  count_areas(fact[AREAS], 1, 0)
end

local function give_back(fact)
  for _, seat in ipairs(fact.seats) do
    members[member(fact, seat)] = false
    free_bits[seat] = 1
  end
  count('available', #fact.seats)
  count('held', -#fact.seats)
  count_areas(fact[AREAS], -1, 0)
end

local function move(fact)
  for _, seat in ipairs(fact.seats) do
    members[member(fact, seat)] = fact[EXPIRES]
  end
end

local function sell(fact)
  for _, seat in ipairs(fact.seats) do
    members[member(fact, seat)] = false
    sold_bits[seat] = 1
  end
  count('held', -#fact.seats)
  count('sold', #fact.seats)
  count_areas(fact[AREAS], -1, 1)
end

-- Moves free seats between what is counted as `from` and what is counted as `to`.
local function turn(fact, from, to)
  for _, seat in ipairs(fact.seats) do
    free_bits[seat] = to == 'available' and 1 or 0
    if from == 'sold' then
      sold_bits[seat] = 0
    end
  end
  count(from, -#fact.seats)
  count(to, #fact.seats)
end

-- Sets a range of bits, whole bytes at once.
local function add_seats(fact)
  local first, number = tonumber(fact.seats[1], 16), tonumber(fact.seats[2], 16)
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
  elseif kind == 'free' then give_back(fact)
  elseif kind == 'move' then move(fact)
  elseif kind == 'sell' then sell(fact)
  elseif kind == 'cancel' then
    turn(fact, 'sold', 'available')
    count_areas(fact[AREAS], 0, -1)
  elseif kind == 'block' then turn(fact, 'available', 'blocked')
  elseif kind == 'unblock' then turn(fact, 'blocked', 'available')
  elseif kind == 'seats' then add_seats(fact)
  elseif kind == 'area' then count_areas(fact[AREAS], 0, 0)
  end
end

local function write_bits(key, bits)
  local list = {}
  for seat, bit in pairs(bits) do
    local n = #list
    list[n + 1], list[n + 2], list[n + 3], list[n + 4] = 'SET', 'u1', tonumber(seat, 16), bit
  end
  in_pieces(list, function(...) call('BITFIELD', key, ...) end)
end

local function write_all()
  local gone, added, removed = {}, {}, {}
  for seat, ends_at in pairs(claimed) do
    if values[seat] then
      call('SET', seat_key .. seat, values[seat], 'PXAT', ends_at)
    else
      gone[#gone + 1] = seat_key .. seat
    end
  end
  in_pieces(gone, function(...) call('DEL', ...) end)
  for name, score in pairs(members) do
    if score then
      added[#added + 1] = score
      added[#added + 1] = name
    else
      removed[#removed + 1] = name
    end
  end
  in_pieces(added, function(...) call('ZADD', holds, ...) end)
  in_pieces(removed, function(...) call('ZREM', holds, ...) end)
  write_bits(availability, free_bits)
  write_bits(sold, sold_bits)
end

-- Holds in their turn, while nothing waits: what most calls are about, without tables that cost more than the writing. No
-- later fact has been here, so whatever the claims say is older. Returns where the rest of the facts begin.
local function take_at_once(first)
  local added, bits, n, b = {}, {}, 0, 0
  while ARGV[first + KIND - 1] == 'take' and tonumber(ARGV[first]) == at + 1 do
    local expires, seats, areas = ARGV[first + EXPIRES - 1], ARGV[first + SEATS - 1], ARGV[first + AREAS - 1]
    local value = ARGV[first + HEAD - 1] .. ',"expires_at":' .. expires .. ',"sequence":' .. ARGV[first] .. '}'
    local owner = ':' .. ARGV[first + HOLD - 1] .. ':' .. ARGV[first + USER - 1]
    local ends_at = deadline(ARGV[first + DEADLINE - 1])
    for i = 1, #seats, 8 do
      local seat = sub(seats, i, i + 7)
      call('SET', seat_key .. seat, value, 'PXAT', ends_at)
      added[n + 1], added[n + 2] = expires, prefix .. seat .. owner
      bits[b + 1], bits[b + 2], bits[b + 3], bits[b + 4] = 'SET', 'u1', tonumber(seat, 16), 0
      n, b = n + 2, b + 4
    end
    if areas ~= '' then
      count_areas(areas, 1, 0)
    end
    at, first = at + 1, first + WIDTH
  end
  if n > 0 then
    in_pieces(added, function(...) call('ZADD', holds, ...) end)
    in_pieces(bits, function(...) call('BITFIELD', availability, ...) end)
    count('available', -n / 2)
    count('held', n / 2)
  end
  return first
end

local before, wait = at, false
local facts, rest = {}, 5
if at and call('EXISTS', ahead) == 0 then
  rest = take_at_once(rest)
end
for first = rest, #ARGV, WIDTH do
  local sequence = tonumber(ARGV[first])
  if not at and sequence == 1 then
    -- The first fact of an event: there is nothing before it that could be missing here.
    at, before = 0, 0
    for _, name in ipairs({'available', 'held', 'sold', 'blocked'}) do
      count(name, 0)
    end
  end
  if not at or sequence > at then
    local fact = {unpack(ARGV, first, first + WIDTH - 1)}
    fact[DEADLINE] = deadline(fact[DEADLINE])
    fact.seats = seats_of(fact)
    facts[#facts + 1] = fact
  end
end
read_claims(facts)
for _, fact in ipairs(facts) do
  local sequence = tonumber(fact[SEQUENCE])
  if not at or sequence > at then
    claims(fact)
    if at and sequence == at + 1 then
      project(fact)
      at = sequence
    else
      local seats = fact.seats
      fact.seats = nil
      call('ZADD', ahead, sequence, cmsgpack.pack(fact))
      fact.seats = seats
      wait = true
    end
  end
end
if at then
  -- One after another, so that nothing is read in vain while the next one is missing.
  local seats = 0
  while seats < max_seats do
    local packed = call('ZRANGEBYSCORE', ahead, at + 1, at + 1)[1]
    if not packed then
      break
    end
    local fact = cmsgpack.unpack(packed)
    fact.seats = seats_of(fact)
    read_claims({fact})
    claims(fact)
    project(fact)
    at = at + 1
    seats = seats + math.max(#fact.seats, 1)
  end
end
write_all()
if at then
  if at ~= before then
    call('ZREMRANGEBYSCORE', ahead, '-inf', at)
    for name, by in pairs(counts) do
      call('HINCRBY', occupancy, name, by)
    end
    call('HSET', occupancy, 'sequence', string.format('%.0f', at))
    for _, key in ipairs({occupancy, holds, availability, sold, ahead, base .. 'layout'}) do
      call('PEXPIRE', key, keep)
    end
  end
end
local waiting = call('ZCARD', ahead)
if waiting > max_ahead then
  if at then
    -- The fact that is missing will not come any more. Better nothing than something old.
    call('UNLINK', occupancy, holds, availability, sold, ahead)
    return {-1, 0}
  end
  call('ZREMRANGEBYRANK', ahead, 0, waiting - max_ahead - 1)
end
if wait then
  call('PEXPIRE', ahead, at and keep or missing_keep)
end
return {at or -1, waiting}
