#!lua flags=allow-oom
-- Sets a writer's hold count to what it still holds. To say it twice changes
-- nothing, so it may be resent. A writer that gives up waiting says none.
-- KEYS[1]  name
-- KEYS[2]  mark of a waiting writer, which Redisson does not know
-- ARGV[1]  owner, "uuid:thread:write"
-- ARGV[2]  hold count that shall remain
-- ARGV[3]  lease in milliseconds of what remains
-- ARGV[4]  channel
-- Reply    1: released; 0: still held; nil: the owner holds nothing here
-- Message  "1" on the channel when released, or when the mark of one that gives
--          up is gone: readers may come in
-- Redisson RedissonWriteLock.unlockInnerAsync. An owner who reads as well goes
-- on as a reader, for as long as its holds there last; Redisson tells nobody of
-- that, and other readers go on waiting. A part given back shortens nothing.
local call, key, mark, owner = redis.call, KEYS[1], KEYS[2], ARGV[1]
if ARGV[2] ~= '0' then
    if call('hexists', key, owner) == 0 then
        return nil
    end
    call('hset', key, owner, ARGV[2])
    if call('pttl', key) < tonumber(ARGV[3]) then
        call('pexpire', key, ARGV[3])
    end
    return 0
end
if call('hdel', key, owner) == 0 then
    if call('get', mark) == owner then
        call('del', mark)
        call('publish', ARGV[4], '1')
    end
    return nil
end
local reader = string.sub(owner, 1, -1 - #':write')
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local longest = 0
for i = 1, tonumber(call('hget', key, reader)) or 0 do
    local hold = base .. ':' .. reader .. ':rwlock_timeout:' .. i
    longest = math.max(longest, call('pttl', hold))
end
if longest > 0 then
    call('hset', key, 'mode', 'read')
    call('pexpire', key, longest)
else
    call('del', key)
end
call('publish', ARGV[4], '1')
return 1
