#!lua flags=allow-oom
-- Sets an owner's hold count to what the owner still holds; an owner that holds
-- nothing any more leaves the queue as well, for it has given up waiting. To
-- say it twice changes nothing, so it may be resent. Works when the server is
-- out of memory, for a release frees some.
-- KEYS[1]  name
-- KEYS[2]  queue: list of owners, the next one first
-- KEYS[3]  time-outs: sorted set of the same owners, in epoch milliseconds
-- ARGV[1]  owner
-- ARGV[2]  hold count that shall remain
-- ARGV[3]  lease in milliseconds of what remains
-- ARGV[4]  wait in milliseconds that the owner has queued with
-- ARGV[5]  channel, without the waiter's name
-- Reply    1: released; 0: still held; nil: the owner holds nothing here
-- Message  "0" on the channel of the first in the queue, if the lock is free
--          now
-- Redisson RedissonFairLock.unlockInnerAsync, acquireFailedAsync. There a lock
-- that is free is released for anyone who says so; here its waiters are told,
-- and that is all.
local call = redis.call
local key, queue, timeouts, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

if ARGV[2] ~= '0' and call('hexists', key, owner) == 1 then
    call('hset', key, owner, ARGV[2])
    call('pexpire', key, ARGV[3])
    return 0
end
local held = call('hdel', key, owner) == 1
local reply = held and 1 or nil
local first = call('lindex', queue, '0')
if not first then
    return reply
end

local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function timeout_of(waiter)
    return tonumber(call('zscore', timeouts, waiter))
end

-- Those behind get forward by its wait, but not before those ahead of it, and
-- each is left its own at least.
local mine = ARGV[2] == '0' and timeout_of(owner)
local place = mine and call('lpos', queue, owner)
if place then
    local by = math.max(-ARGV[4], now - mine)
    local before = place > 0 and timeout_of(call('lindex', queue, place - 1))
    if before then
        by = math.max(by, math.min(before - mine, 0))
    end
    for _, waiter in ipairs(call('lrange', queue, place + 1, '-1')) do
        call('zincrby', timeouts, by, waiter)
    end
    call('lrem', queue, '0', owner)
end
if mine then
    call('zrem', timeouts, owner)
end
if not held and call('exists', key) == 1 then
    return reply
end

first = call('lindex', queue, '0')
while first do
    local firsts = timeout_of(first)
    if firsts and firsts > now then
        call('publish', ARGV[5] .. ':' .. first, '0')
        break
    end
    call('lpop', queue)
    call('zrem', timeouts, first)
    first = call('lindex', queue, '0')
end
return reply
