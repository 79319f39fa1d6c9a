-- Deletes a lock whoever holds it.
-- KEYS[1]  name
-- ARGV[1]  channel; empty: nobody is told
-- Reply    1: deleted; 0: was not locked; an error if the key is no lock
-- Message  "0" on the channel when deleted
-- Redisson RedissonLock.forceUnlockAsync. HLEN refuses a key of another type,
-- which DEL would destroy.
local call, key = redis.call, KEYS[1]
if call('hlen', key) == 0 then
    return 0
end
call('del', key)
if ARGV[1] ~= '' then
    call('publish', ARGV[1], '0')
end
return 1
