-- Renews the leases of many locks, each only if its owner still holds it.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     owner
-- Reply        for each lock 1: held; 0: the owner is not listed; -1: the
--              server refused, nothing known
-- Message      none
-- Redisson renewal.LockTask.renew. One bad key must not cost the others
-- their renewal, hence pcall.
local pcall = redis.pcall
local found = {}
for i, key in ipairs(KEYS) do
    local held = pcall('hexists', key, ARGV[2 * i])
    if held == 1 and ARGV[2 * i - 1] ~= '0' then
        held = pcall('pexpire', key, ARGV[2 * i - 1])
    end
    if type(held) == 'table' then
        held = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or -1
    end
    found[i] = held
end
return found
