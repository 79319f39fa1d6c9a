-- Looks at one side of a read/write lock.
-- KEYS[1]  name
-- ARGV[1]  owner; a writer's ends with ":write"
-- ARGV[2]  "read" or "write"
-- Reply    "LOCKED COUNT REMAINING": 1 or 0; the owner's hold count; PTTL
-- Message  none
-- Redisson RedissonReadLock.isLocked: a writer who reads as well is a reader.
-- RedissonWriteLock.isLocked; getHoldCount, remainTimeToLive.
local call, key = redis.call, KEYS[1]
local mode = call('hget', key, 'mode')
local locked = mode == ARGV[2]
if ARGV[2] == 'read' and mode == 'write' then
    locked = call('hlen', key) > 2
end
local count = call('hget', key, ARGV[1]) or '0'
return (locked and '1 ' or '0 ') .. count .. ' ' .. call('pttl', key)
