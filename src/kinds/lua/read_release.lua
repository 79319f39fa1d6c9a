#!lua flags=allow-oom
-- Sets a reader's hold count to what it still holds, and gives what remains a
-- lease. To say it twice changes nothing, so it may be resent.
-- KEYS[1]  name
-- ARGV[1]  owner
-- ARGV[2]  hold count that shall remain
-- ARGV[3]  lease in milliseconds of what remains
-- ARGV[4]  channel
-- Reply    1: released; 0: still held; nil: the owner holds nothing here
-- Message  "0" on the channel when nobody holds the lock any more
-- Redisson RedissonReadLock.unlockInnerAsync. The lock's key then lasts as long
-- as the longest hold that is left; shares whose holds have all ended, those of
-- dead readers, do not count. Unlike there, a write lease that the same owner
-- has is never cut short, and a reply tells of this owner alone.
local call, key, owner = redis.call, KEYS[1], ARGV[1]
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local function hold(of, i)
    return base .. ':' .. of .. ':rwlock_timeout:' .. i
end
local count = tonumber(call('hget', key, owner))
if not count then
    return nil
end
local left, lease = tonumber(ARGV[2]), tonumber(ARGV[3])
for i = left + 1, count do
    call('del', hold(owner, i))
end
for i = 1, left do
    if call('pttl', hold(owner, i)) < lease then
        call('set', hold(owner, i), '1', 'px', lease)
    end
end
if left > 0 then
    call('hset', key, owner, ARGV[2])
else
    call('hdel', key, owner)
end
local longest, mode = 0, nil
local fields = call('hgetall', key)
for f = 1, #fields, 2 do
    if fields[f] == 'mode' then
        mode = fields[f + 1]
    end
    for i = 1, tonumber(fields[f + 1]) or 0 do
        longest = math.max(longest, call('pttl', hold(fields[f], i)))
    end
end
if mode == 'write' then
    if left > 0 and call('pttl', key) < longest then
        call('pexpire', key, longest)
    end
elseif longest > 0 then
    call('pexpire', key, longest)
else
    call('del', key)
    call('publish', ARGV[4], '0')
end
return left > 0 and 0 or 1
