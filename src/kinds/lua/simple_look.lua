-- Looks at a simple lock.
-- KEYS[1]  name
-- ARGV[1]  owner
-- Reply    "LOCKED COUNT REMAINING": 1 or 0; 1 if it is the owner's; PTTL
-- Message  none
local call, key = redis.call, KEYS[1]
local owner = call('get', key)
local locked, count = owner and '1' or '0', owner == ARGV[1] and '1' or '0'
return locked .. ' ' .. count .. ' ' .. call('pttl', key)
