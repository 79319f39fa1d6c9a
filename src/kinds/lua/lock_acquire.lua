-- Takes a reentrant lock, or adds one to its owner's hold count.
-- KEYS[1]  name
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  optional. "once": the owner shall not have it twice; "again": it
--          has it already, or else this changes nothing
-- Reply    nil: granted, the key was free; -2: free, so the owner has it not;
--          below -2: granted again, -1 minus the hold count (that it would have
--          got, if it shall not have it twice); n: another owner's for n more
--          milliseconds, -1 when its key has no end
-- Message  none
-- Redisson RedissonLock.tryLockInnerAsync. PTTL comes first because it alone
-- settles the two frequent cases: free, and somebody else's.
local call, key, owner = redis.call, KEYS[1], ARGV[2]
local remaining = call('pttl', key)
if remaining == -2 then
    if ARGV[3] == 'again' then
        return -2
    end
    call('hset', key, owner, '1')
    call('pexpire', key, ARGV[1])
    return nil
end
if call('hexists', key, owner) == 1 then
    if ARGV[3] == 'once' then
        return -3
    end
    local count = call('hincrby', key, owner, '1')
    call('pexpire', key, ARGV[1])
    return -1 - count
end
return remaining
