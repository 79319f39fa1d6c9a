-- Looks at the permits that are held.
-- KEYS[1]  name
-- KEYS[2]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  a permit's id
-- Reply    "LOCKED COUNT REMAINING": 1 if anybody has one, else 0; 1 if that
--          permit is held, else 0; milliseconds until the first ends, -1 if
--          none ends, -2 if none is held
-- Message  none
-- Redisson RedissonPermitExpirableSemaphore.acquiredPermits, getLeaseTime.
local call, held = redis.call, KEYS[2]
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local after = string.format('(%.0f', now)
local first = call('zrangebyscore', held, after, '+inf', 'withscores',
    'limit', '0', '1')
local ends = tonumber(first[2])
local remaining = -2
if ends then
    remaining = ends >= 922337203685477 and -1 or ends - now
end
local mine = tonumber(call('zscore', held, ARGV[1]) or '0') > now
return string.format('%d %d %.0f', ends and 1 or 0, mine and 1 or 0, remaining)
