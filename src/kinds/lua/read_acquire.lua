-- Takes a share of a read/write lock, or adds one to its owner's hold count.
-- Each hold has a key of its own, which ends with its lease; the lock's key
-- lasts as long as the longest of them.
-- KEYS[1]  name
-- KEYS[2]  mark of a waiting writer, which Redisson does not know
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  "1": gives way to a waiting writer, unless the owner holds something
-- ARGV[4]  optional, "again": the owner has a share already, or else this
--          changes nothing
-- Reply    nil: granted, the owner had no share; -2: it should have had one;
--          below -2: granted again, -1 minus the hold count; n: a writer's for
--          n more milliseconds, -1 when there is no end
-- Message  none
-- Redisson RedissonReadLock.tryLockInnerAsync. A hash without a mode is another
-- kind's lock, and busy.
local call, key, lease, owner = redis.call, KEYS[1], ARGV[1], ARGV[2]
if ARGV[4] == 'again' and call('hexists', key, owner) == 0 then
    return -2
end
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local remaining = call('pttl', key)
local writes = false
if remaining ~= -2 then
    local mode = call('hget', key, 'mode')
    writes = mode == 'write' and call('hexists', key, owner .. ':write') == 1
    if mode ~= 'read' and not writes then
        return remaining
    end
end
if ARGV[3] == '1' and not writes and call('hexists', key, owner) == 0 then
    local waits = call('pttl', KEYS[2])
    if waits ~= -2 then
        return waits
    end
end
local count = 1
if remaining == -2 then
    call('hset', key, 'mode', 'read', owner, '1')
else
    count = call('hincrby', key, owner, '1')
end
call('set', base .. ':' .. owner .. ':rwlock_timeout:' .. count, '1', 'px', lease)
if remaining < tonumber(lease) then
    call('pexpire', key, lease)
end
if count == 1 then
    return nil
end
return -1 - count
