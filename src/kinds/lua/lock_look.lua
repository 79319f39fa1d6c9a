-- Looks at a lock.
-- KEYS[1]  name
-- ARGV[1]  owner
-- Reply    "LOCKED COUNT REMAINING": 1 or 0; the owner's hold count; PTTL
-- Message  none
-- Redisson RedissonLock.isLocked, getHoldCount, remainTimeToLive.
local call, key = redis.call, KEYS[1]
local locked = call('hlen', key) > 0 and '1' or '0'
local count = call('hget', key, ARGV[1]) or '0'
return locked .. ' ' .. count .. ' ' .. call('pttl', key)
