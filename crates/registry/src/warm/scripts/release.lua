-- Deletes the keys whose values begin as ours do. KEYS: seat keys. ARGV: that beginning.
local values = redis.call('MGET', unpack(KEYS))
local deleted = 0
for i = 1, #KEYS do
  if values[i] and string.sub(values[i], 1, #ARGV[1]) == ARGV[1] then
    deleted = deleted + redis.call('DEL', KEYS[i])
  end
end
return deleted
