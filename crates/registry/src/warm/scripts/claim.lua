-- Claims all the seats or none. KEYS: a key for each seat.
-- ARGV: the beginning of the value, the user, how long the claim lives in ms.
local values = redis.call('MGET', unpack(KEYS))
local free, taken = {}, {}
for i = 1, #KEYS do
  local value = values[i]
  if not value then
    free[#free + 1] = i
  else
    -- What can't be read is somebody else's: the truth is asked about it.
    local readable, owner = pcall(cjson.decode, value)
    if not readable or type(owner) ~= 'table' or owner.user ~= ARGV[2] then
      taken[#taken + 1] = i
      taken[#taken + 1] = value
    end
  end
end
if #taken > 0 then
  return {0, taken}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = ARGV[1]
  .. string.format(',"held_at":%.0f,"expires_at":%.0f,"pending":true}', now, now + ARGV[3])
for _, i in ipairs(free) do
  redis.call('SET', KEYS[i], value, 'PX', ARGV[3])
end
return {1, free}
