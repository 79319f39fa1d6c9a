-- Takes permits of a semaphore, if there are so many.
-- KEYS[1]  name
-- KEYS[2]  records of what was taken: `KEYS[2]:owner` is the owner's
-- ARGV[1]  how many
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  number of this acquisition, not that of another of the owner's
-- Reply    nil: taken; -2: there are not so many
-- Message  none
-- Redisson RedissonSemaphore.tryAcquireAsync. The record tells, should the
-- reply be lost, whether anything was taken. It comes first, so that nothing
-- is half done if it is refused. What is no number is DECRBY's to refuse.
local call, key = redis.call, KEYS[1]
local available = call('get', key)
if not available or (tonumber(available) or math.huge) < tonumber(ARGV[1]) then
    return -2
end
call('set', KEYS[2] .. ':' .. ARGV[2], ARGV[3] .. ' ' .. ARGV[1], 'px', 600000)
call('decrby', key, ARGV[1])
return nil
