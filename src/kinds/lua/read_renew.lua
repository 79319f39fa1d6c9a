-- Renews the leases of many readers, each only if one of its holds still lives:
-- the keys of its own holds, and the lock's, if that would end earlier. Other
-- readers' holds are their own affair, or dead readers would never end.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     owner
-- Reply        for each lock 1: held; 0: the owner is not listed, or its holds
--              have ended; -1: the server refused, nothing known
-- Message      none
-- Redisson renewal.ReadLockTask.renew. One bad key must not cost the others
-- their renewal, hence pcall.
local call = redis.call
local function renew(key, lease, owner)
    local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
    local living = 0
    for i = 1, tonumber(call('hget', key, owner)) or 0 do
        local hold = base .. ':' .. owner .. ':rwlock_timeout:' .. i
        if lease == '0' then
            living = living + call('exists', hold)
        else
            living = living + call('pexpire', hold, lease)
        end
    end
    if living == 0 then
        return 0
    end
    if call('pttl', key) < tonumber(lease) then
        call('pexpire', key, lease)
    end
    return 1
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
