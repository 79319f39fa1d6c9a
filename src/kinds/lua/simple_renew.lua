-- Renews the leases of many simple locks, each only if its owner still has it.
-- KEYS[i]      name
-- ARGV[2i-1]   lease in milliseconds; "0" asks without renewing
-- ARGV[2i]     owner
-- Reply        for each lock 1: held; 0: not the owner's; -1: the server
--              refused, nothing known
-- Message      none
-- One bad key must not cost the others their renewal, hence pcall.
local pcall = redis.pcall
local found = {}
for i, key in ipairs(KEYS) do
    local held = pcall('get', key)
    if type(held) ~= 'table' then
        held = held == ARGV[2 * i] and 1 or 0
    end
    if held == 1 and ARGV[2 * i - 1] ~= '0' then
        held = pcall('pexpire', key, ARGV[2 * i - 1])
    end
    if type(held) == 'table' then
        held = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or -1
    end
    found[i] = held
end
return found
