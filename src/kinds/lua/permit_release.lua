#!lua flags=allow-oom
-- Gives back a permit. To say it twice changes nothing, so it may be resent.
-- KEYS[1]  name
-- KEYS[2]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  the permit's id
-- ARGV[2]  "0": give it back; else it is still held
-- ARGV[3]  lease in milliseconds of what is still held
-- ARGV[4]  channel
-- Reply    1: given back; 0: still held; nil: not held, or its time was over
-- Message  how many there are by now, when given back
-- Redisson RedissonPermitExpirableSemaphore.tryReleaseAsync. The number comes
-- first: should the server refuse it, nothing is half done.
local call, key, held, id = redis.call, KEYS[1], KEYS[2], ARGV[1]
local ends = call('zscore', held, id)
if not ends then
    return nil
end
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] ~= '0' then
    call('zadd', held, 'xx', string.format('%.0f', now + ARGV[3]), id)
    return 0
end
local available = call('incrby', key, '1')
call('zrem', held, id)
if available > 0 then
    call('publish', ARGV[4], string.format('%.0f', available))
end
if tonumber(ends) <= now then
    return nil
end
return 1
