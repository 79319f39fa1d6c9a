-- Takes a fair lock, or adds one to its owner's hold count; or joins the queue,
-- of which only the first may take the lock. Each waiter has a time after which
-- it is believed to be dead, and it is passed over when it is the first.
-- KEYS[1]  name
-- KEYS[2]  queue: list of owners, the next one first
-- KEYS[3]  time-outs: sorted set of the same owners, in epoch milliseconds
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  wait in milliseconds; "0": a single try, which does not queue; below
--          0: without an end, by one who is believed to live for so long after
--          a try
-- ARGV[4]  optional. "once": the owner shall not have it twice; "again": it
--          has it already, or else this changes nothing
-- Reply    nil: granted, the key was free; -2: the owner should have it, and
--          has it not; below -2: granted again, -1 minus the hold count (that
--          it would have got, if it shall not have it twice); n: ask again in n
--          milliseconds at the latest; -1: another's key has no end
-- Message  none
-- Redisson RedissonFairLock.tryLockInnerAsync. What differs from it: the time
-- is the server's; a first one without time-out is passed over; nobody is told
-- to ask again at once; and who asks is alive: it is not passed over, and gets
-- a new time-out before the old one ends, as do those behind it. Who takes the
-- lock takes its wait off the others' time-outs as there, but leaves to each at
-- least its own.
local call = redis.call
local key, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, wait = ARGV[1], ARGV[2], math.abs(ARGV[3])

local remaining = call('pttl', key)
local free = remaining == -2
if not free and call('hexists', key, owner) == 1 then
    if ARGV[4] == 'once' then
        return -3
    end
    local count = call('hincrby', key, owner, '1')
    call('pexpire', key, lease)
    return -1 - count
elseif ARGV[4] == 'again' then
    return -2
elseif not free and wait == 0 then
    return remaining
end

local function take()
    call('hset', key, owner, '1')
    call('pexpire', key, lease)
end
local first = call('lindex', queue, '0')
if free and not first then
    return take()
end

local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function timeout_of(waiter)
    return tonumber(call('zscore', timeouts, waiter))
end
local function shift(waiters, by)
    for _, waiter in ipairs(waiters) do
        call('zincrby', timeouts, by, waiter)
    end
end

local firsts
while first and first ~= owner do
    firsts = timeout_of(first)
    if firsts and firsts > now then
        break
    end
    call('lpop', queue)
    call('zrem', timeouts, first)
    first = call('lindex', queue, '0')
end

local mine = timeout_of(owner)
if free and (not first or first == owner) then
    if first then
        call('lpop', queue)
    end
    if mine then
        call('zrem', timeouts, owner)
        shift(call('zrange', timeouts, '0', '-1'), math.max(-wait, now - mine))
    end
    return take()
end

local reply = free and firsts - now or remaining
if wait == 0 then
    return reply
end
local holds = math.max(remaining, 0)
if mine and mine < now + wait / 2 then
    local place = call('lpos', queue, owner)
    if place then
        shift(call('lrange', queue, place, '-1'), now + holds + wait - mine)
    else
        mine = nil -- the queue was deleted: its end is where it begins anew
    end
end
if not mine then
    local last = call('lindex', queue, '-1')
    local lasts = last and timeout_of(last)
    local before = math.max(holds, lasts and lasts - now or 0)
    call('zadd', timeouts, now + before + wait, owner)
    call('rpush', queue, owner)
    if remaining >= 0 then
        reply = before
    end
end
if reply == -1 then
    return reply
end
if tonumber(ARGV[3]) < 0 then
    reply = math.min(reply, wait / 4)
end
return math.max(reply, 1)
