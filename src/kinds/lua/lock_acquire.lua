-- Takes a reentrant lock, or adds one to its owner's hold count.
-- KEYS[1]  name
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread"
-- Reply    nil: granted, the key was free; below -1: granted again, -1 minus
--          the hold count; n: another owner's for n more milliseconds, -1
--          when its key has no end
-- Message  none
-- Redisson RedissonLock.tryLockInnerAsync. PTTL comes first because it alone
-- settles the two frequent cases: free, and somebody else's.
local call, key, owner = redis.call, KEYS[1], ARGV[2]
local remaining = call('pttl', key)
if remaining == -2 then
    call('hset', key, owner, '1')
    call('pexpire', key, ARGV[1])
    return nil
end
if call('hexists', key, owner) == 1 then
    local count = call('hincrby', key, owner, '1')
    call('pexpire', key, ARGV[1])
    return -1 - count
end
return remaining
