-- Deletes the projection of an event, if it is of the sequence given, or of any when none is.
local base = KEYS[1]
if ARGV[1] ~= '' and redis.call('HGET', base .. 'occupancy', 'sequence') ~= ARGV[1] then
  return 0
end
return redis.call('UNLINK', base .. 'occupancy', base .. 'seat_holds', base .. 'availability', base .. 'sold', base .. 'ahead')
