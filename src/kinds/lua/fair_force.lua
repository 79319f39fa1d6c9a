-- Deletes a fair lock whoever holds it.
-- KEYS[1]  name
-- KEYS[2]  queue: list of owners, the next one first
-- KEYS[3]  time-outs: sorted set of the same owners, in epoch milliseconds
-- ARGV[1]  channel, without the waiter's name
-- Reply    1: deleted; 0: was not locked; an error if the key is no lock
-- Message  "0" on the channel of the first in the queue when deleted
-- Redisson RedissonFairLock.forceUnlockAsync. HLEN refuses a key of another
-- type, which DEL would destroy.
local call = redis.call
local key, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]
local locked = call('hlen', key) > 0
local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first = call('lindex', queue, '0')
while first do
    local firsts = tonumber(call('zscore', timeouts, first))
    if firsts and firsts > now then
        break
    end
    call('lpop', queue)
    call('zrem', timeouts, first)
    first = call('lindex', queue, '0')
end
if not locked then
    return 0
end
call('del', key)
if first then
    call('publish', ARGV[1] .. ':' .. first, '0')
end
return 1
