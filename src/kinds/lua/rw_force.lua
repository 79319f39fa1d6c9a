-- Takes a read/write lock from all who hold it in one mode.
-- KEYS[1]  name
-- ARGV[1]  channel
-- ARGV[2]  "read": only from readers; "write": only from a writer, who may
--          read as well
-- ARGV[3]  message
-- Reply    1: deleted; 0: was not locked so
-- Message  the third argument on the channel when deleted
-- Redisson RedissonReadLock.forceUnlockAsync, RedissonWriteLock. There the keys
-- of the holds are left to end by themselves.
local call, key = redis.call, KEYS[1]
if call('hget', key, 'mode') ~= ARGV[2] then
    return 0
end
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local fields = call('hgetall', key)
for f = 1, #fields, 2 do
    for i = 1, tonumber(fields[f + 1]) or 0 do
        call('del', base .. ':' .. fields[f] .. ':rwlock_timeout:' .. i)
    end
end
call('del', key)
call('publish', ARGV[1], ARGV[3])
return 1
