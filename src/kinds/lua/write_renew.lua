-- Renews the leases of many writers, each only if it still holds its lock. The
-- lock's key is never made to end earlier: the writer may read as well, for a
-- longer time.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     owner, "uuid:thread:write"
-- Reply        for each lock 1: held; 0: the owner is not listed; -1: the
--              server refused, nothing known
-- Message      none
-- Redisson renewal.LockTask.renew. One bad key must not cost the others
-- their renewal, hence pcall.
local call = redis.call
local function renew(key, lease, owner)
    local held = call('hexists', key, owner)
    if held == 1 and call('pttl', key) < tonumber(lease) then
        call('pexpire', key, lease)
    end
    return held
end
local found = {}
for i, key in ipairs(KEYS) do
    local known, held = pcall(renew, key, ARGV[2 * i - 1], ARGV[2 * i])
    if not known then
        held = string.find(tostring(held), 'WRONGTYPE', 1, true) and 0 or -1
    end
    found[i] = held
end
return found
