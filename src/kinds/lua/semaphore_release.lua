#!lua flags=allow-oom
-- Undoes an acquire whose reply was lost: gives back exactly what it took, if
-- it took anything, and the owner's place in the queue. To say it twice
-- changes nothing; what belonged to a semaphore that is gone, is gone.
-- KEYS[1]  name
-- KEYS[2]  records of what was taken: `KEYS[2]:owner` is the owner's
-- KEYS[3]  queue, if there is one; see semaphore_acquire_in_turn.lua
-- ARGV[1]  owner
-- ARGV[2]  channel
-- ARGV[3]  number of the acquisition
-- Reply    1: given back, or left; nil: the owner had taken nothing
-- Message  how many there are by now, if there are any and it was changed
-- Redisson RedissonSemaphore.releaseAsync.
local call, key, queue, owner = redis.call, KEYS[1], KEYS[3], ARGV[1]
local record = KEYS[2] .. ':' .. owner
local number, taken = string.match(call('get', record) or '', '^(%d+) (%d+)$')
taken = number == ARGV[3] and taken
local was_head = queue and call('zrange', queue, '0', '0')[1] == owner
local left = queue and call('zrem', queue, owner) == 1
if was_head and call('zcard', queue) > 0 then
    call('set', queue .. ':head', '1', 'px', 5000)
end
if not taken and not left then
    return nil
end
local total = call('get', key)
if taken then
    total = total and call('incrby', key, taken)
    call('del', record)
end
if (tonumber(total) or 0) > 0 then
    call('publish', ARGV[2], total)
end
return 1
