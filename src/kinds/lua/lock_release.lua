#!lua flags=allow-oom
-- Sets an owner's hold count to what the owner still holds: a release says
-- one less than before, the repair of a lost reply says what was confirmed.
-- To say it twice changes nothing, so it may be resent. Works when the
-- server is out of memory, for a release frees some.
-- KEYS[1]  name
-- ARGV[1]  owner
-- ARGV[2]  hold count that shall remain
-- ARGV[3]  lease in milliseconds of what remains
-- ARGV[4]  channel; empty: nobody is told
-- Reply    1: released; 0: still held; nil: the owner holds nothing here
-- Message  "0" on the channel when released
-- Redisson RedissonLock.unlockInnerAsync.
local call, key, owner = redis.call, KEYS[1], ARGV[1]
if ARGV[2] == '0' then
    if call('hdel', key, owner) == 0 then
        return nil
    end
    if ARGV[4] ~= '' then
        call('publish', ARGV[4], '0')
    end
    return 1
end
if call('hexists', key, owner) == 0 then
    return nil
end
call('hset', key, owner, ARGV[2])
call('pexpire', key, ARGV[3])
return 0
