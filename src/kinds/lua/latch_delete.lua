#!lua flags=allow-oom
-- Deletes a latch; those who wait go on.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- ARGV[3]  channel
-- Reply    1: deleted; 0: there was none
-- Message  "0" when deleted
-- Redisson RedissonCountDownLatch.deleteAsync, whose "1" wakes nobody. GETDEL
-- refuses a key of another type, which DEL would destroy. A change that is
-- said again because its reply was lost is known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local number, reply = string.match(call('get', record) or '', '^(%d+) (%d+)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return tonumber(reply)
end
if not call('getdel', key) then
    return 0
end
call('set', record, ARGV[2] .. ' 1', 'px', 600000)
call('publish', ARGV[3], '0')
return 1
