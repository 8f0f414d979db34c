-- Deletes each key that still has the value that was seen. KEYS: seat keys. ARGV: a value for each.
local values = redis.call('MGET', unpack(KEYS))
local deleted = 0
for i = 1, #KEYS do
  if values[i] == ARGV[i] then
    deleted = deleted + redis.call('DEL', KEYS[i])
  end
end
return deleted
