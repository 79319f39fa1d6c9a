-- Renews the leases of many fenced locks, each only if its owner still holds
-- it. A counter of tokens that would end before its lock is given the same end.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     owner
-- Reply        for each lock 1: held; 0: the owner is not listed; -1: the
--              server refused, nothing known
-- Message      none
-- Redisson renewal.LockTask.renew. One bad key must not cost the others
-- their renewal, hence pcall.
local pcall = redis.pcall
local function counter_of(name)
    if string.find(name, '{', 1, true) then
        return 'redisson_lock_token:' .. name
    end
    return 'redisson_lock_token:{' .. name .. '}'
end
local found = {}
for i, key in ipairs(KEYS) do
    local held, lease = pcall('hexists', key, ARGV[2 * i]), ARGV[2 * i - 1]
    if held == 1 and lease ~= '0' then
        held = pcall('pexpire', key, lease)
        pcall('pexpire', counter_of(key), lease, 'gt')
    end
    if type(held) == 'table' then
        held = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or -1
    end
    found[i] = held
end
return found
