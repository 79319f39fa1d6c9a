#!lua flags=allow-oom
-- Renews the leases of many permits, each only if it is still listed.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     the permit's id
-- Reply        for each permit 1: held; 0: not listed; -1: the server refused,
--              nothing known
-- Message      none
-- Redisson RedissonPermitExpirableSemaphore.updateLeaseTimeAsync. One bad key
-- must not cost the others their renewal, hence pcall. Who is late but still
-- listed keeps the permit: nobody else was given it.
local pcall = redis.pcall
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
for i, key in ipairs(KEYS) do
    local braced = string.find(key, '{', 1, true)
    local held = (braced and key or '{' .. key .. '}') .. ':timeout'
    local lease, id = ARGV[2 * i - 1], ARGV[2 * i]
    local listed = pcall('zscore', held, id)
    if listed and not listed.err and lease ~= '0' then
        local ends = string.format('%.0f', now + lease)
        listed = pcall('zadd', held, 'xx', ends, id)
    end
    if type(listed) == 'table' then
        listed = string.find(listed.err, 'WRONGTYPE', 1, true) and 0 or -1
    else
        listed = listed and 1 or 0
    end
    found[i] = listed
end
return found
