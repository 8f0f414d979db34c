-- Writes claims that the truth has. KEYS: seat keys. ARGV: the journal sequence they are of, then for each key its
-- value and how long it lives in ms. A claim of a later sequence stays.
local sequence = tonumber(ARGV[1])
local values = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local later = values[i] and string.match(values[i], '^{"hold":.*"sequence":(%d+)}$')
  if not later or tonumber(later) <= sequence then
    redis.call('SET', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1])
  end
end
return #KEYS
