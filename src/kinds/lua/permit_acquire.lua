-- Takes a permit for the time of a lease.
-- KEYS[1]  name
-- KEYS[2]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the permit's id, 16 bytes
-- ARGV[3]  channel
-- Reply    nil: taken; n: the first permit ends in n milliseconds; -2: no end
--          is known
-- Message  how many there are, when some had ended
-- Redisson RedissonPermitExpirableSemaphore.tryAcquireAsync. Only when none is
-- left are those of holders that are gone looked for. They are counted before
-- they are taken out: should the server refuse that, nothing is half done.
local call, key, held = redis.call, KEYS[1], KEYS[2]
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number)
    return string.format('%.0f', number)
end
local available = call('get', key) or '0'
if not string.find(available, '^%-?%d+$') then
    return call('decrby', key, '1')
end
available = tonumber(available)
if available < 1 then
    local ended = call('zcount', held, '0', text(now))
    if ended > 0 then
        available = call('incrby', key, ended)
        call('zremrangebyscore', held, '0', text(now))
        if available > 0 then
            call('publish', ARGV[3], text(available))
        end
    end
end
if available > 0 then
    call('zadd', held, text(now + ARGV[1]), ARGV[2])
    call('decrby', key, '1')
    local life = call('pttl', key)
    if life > 0 then
        call('pexpire', held, life)
    end
    return nil
end
local first = call('zrange', held, '0', '0', 'withscores')
local ends = tonumber(first[2])
if not ends or ends >= 922337203685477 then
    return -2
end
return math.max(ends - now, 0)
