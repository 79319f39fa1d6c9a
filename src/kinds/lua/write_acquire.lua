-- Takes the write side of a read/write lock, or adds one to its owner's hold
-- count. A writer that waits leaves a mark, to which readers that prefer
-- writers give way; the mark ends by itself unless each try makes it anew.
-- KEYS[1]  name
-- KEYS[2]  mark of a waiting writer, which Redisson does not know
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread:write"
-- ARGV[3]  time to live of the mark; "0": does not wait
-- ARGV[4]  optional, "again": the owner has it already, or else this changes
--          nothing
-- Reply    nil: granted, the key was free; -2: free, so the owner has it not;
--          below -2: granted again, -1 minus the hold count; n: others' for n
--          more milliseconds, -1 when the key has no end
-- Message  none
-- Redisson RedissonWriteLock.tryLockInnerAsync. There another hold adds its
-- lease to the one that runs; here the longer of the two counts. Nobody becomes
-- a writer while there are readers, the owner among them.
local call, key, mark, lease, owner = redis.call, KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local remaining = call('pttl', key)
if remaining == -2 then
    if ARGV[4] == 'again' then
        return -2
    end
    call('hset', key, 'mode', 'write', owner, '1')
    call('pexpire', key, lease)
    if ARGV[3] ~= '0' and call('get', mark) == owner then
        call('del', mark)
    end
    return nil
end
if call('hexists', key, owner) == 1 then
    local count = call('hincrby', key, owner, '1')
    if remaining < tonumber(lease) then
        call('pexpire', key, lease)
    end
    return -1 - count
end
if ARGV[3] ~= '0' then
    call('set', mark, owner, 'px', ARGV[3])
end
return remaining
