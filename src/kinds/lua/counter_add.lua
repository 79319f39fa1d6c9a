#!lua flags=allow-oom
-- Adds to the number of a semaphore's permits: gives some back, or changes how
-- many there are. Its time to live stays what it is.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- ARGV[3]  how many, may be below 0
-- ARGV[4]  channel
-- ARGV[5]  "1": only if there is such a semaphore
-- Reply    1: done; 0: there was none
-- Message  how many there are by now, if there are any
-- Redisson RedissonSemaphore.releaseAsync, releaseIfExistsAsync,
-- addPermitsAsync. A change that is said again because its reply was lost is
-- known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local number, reply = string.match(call('get', record) or '', '^(%d+) (%d+)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return tonumber(reply)
end
if ARGV[5] == '1' and call('exists', key) == 0 then
    return 0
end
local total = call('incrby', key, ARGV[3])
call('set', record, ARGV[2] .. ' 1', 'px', 600000)
if total > 0 then
    call('publish', ARGV[4], string.format('%.0f', total))
end
return 1
