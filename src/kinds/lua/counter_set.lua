-- Makes a synchronizer with its number, unless there is one of that name.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- ARGV[3]  permits of a semaphore, count of a latch
-- ARGV[4]  channel
-- ARGV[5]  milliseconds that it shall live; "0": for ever
-- ARGV[6]  message
-- Reply    1: made; 0: there is one
-- Message  ARGV[6] when made
-- Redisson RedissonSemaphore.trySetPermitsAsync, RedissonCountDownLatch.
-- trySetCountAsync, RedissonPermitExpirableSemaphore.trySetPermitsAsync. A
-- change that is said again because its reply was lost is known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local number, reply = string.match(call('get', record) or '', '^(%d+) (%d+)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return tonumber(reply)
end
if call('exists', key) == 1 then
    return 0
end
call('set', record, ARGV[2] .. ' 1', 'px', 600000)
if ARGV[5] == '0' then
    call('set', key, ARGV[3])
else
    call('set', key, ARGV[3], 'px', ARGV[5])
end
call('publish', ARGV[4], ARGV[6])
return 1
