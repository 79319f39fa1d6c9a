#!lua flags=allow-oom
-- Counts the permits, after those whose time is over have been given back.
-- KEYS[1]  name
-- KEYS[2]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  channel
-- Reply    "AVAILABLE ACQUIRED TOTAL"
-- Message  how many there are by now, when some were given back
-- Redisson RedissonPermitExpirableSemaphore.availablePermitsAsync,
-- acquiredPermitsAsync, getPermitsAsync: the total of one that was never made
-- is 0.
local call, key, held = redis.call, KEYS[1], KEYS[2]
local time = call('time')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local ended = call('zcount', held, '0', now)
if ended > 0 then
    local total = call('incrby', key, ended)
    call('zremrangebyscore', held, '0', now)
    if total > 0 then
        call('publish', ARGV[1], string.format('%.0f', total))
    end
end
local available = call('get', key)
local acquired = call('zcount', held, '0', '+inf')
local total = available and available + acquired or 0
return string.format('%s %d %.0f', available or '0', acquired, total)
