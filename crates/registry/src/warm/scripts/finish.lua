-- Puts a rebuilt projection in place of whatever is there, unless that is newer.
-- KEYS: the event's keys begin with this; the ordered set of holds as it was built aside.
-- ARGV: sequence, how long to keep it in ms, the two bitmaps, then names and values of the counters.
local base, built = KEYS[1], KEYS[2]
local occupancy, holds, ahead = base .. 'occupancy', base .. 'seat_holds', base .. 'ahead'
local stored = redis.call('HGET', occupancy, 'sequence')
if stored and tonumber(stored) > tonumber(ARGV[1]) then
  redis.call('UNLINK', built)
  return 0
end
redis.call('UNLINK', occupancy, holds)
if redis.call('EXISTS', built) == 1 then
  redis.call('RENAME', built, holds)
end
redis.call('SET', base .. 'availability', ARGV[3])
redis.call('SET', base .. 'sold', ARGV[4])
redis.call('HSET', occupancy, 'sequence', ARGV[1], unpack(ARGV, 5))
redis.call('ZREMRANGEBYSCORE', ahead, '-inf', ARGV[1])
for _, key in ipairs({occupancy, holds, base .. 'availability', base .. 'sold', ahead, base .. 'layout'}) do
  redis.call('PEXPIRE', key, ARGV[2])
end
return 1
