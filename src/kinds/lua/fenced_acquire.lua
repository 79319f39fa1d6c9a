-- Takes a fenced lock, or adds one to its owner's hold count. A fresh grant's
-- token is larger than any before: the counter's next, or the server's time if
-- that is larger, for a counter may be lost with the server that had it. Set
-- as a decimal, so that Redisson's INCR goes on from there.
-- KEYS[1]  name
-- KEYS[2]  counter of tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  milliseconds that the counter shall live, no less than the lease;
--          "0": for ever
-- ARGV[4]  optional, "again": the owner has it already, or else this changes
--          nothing
-- Reply    -2: free, so the owner has it not; "COUNT TOKEN": granted, the
--          owner's hold count (1: the key was free) and its token, which is the
--          same when it is granted again; n: another owner's for n more
--          milliseconds, -1 when its key has no end
-- Message  none
-- Redisson RedissonFencedLock.tryLockInnerAsync. The counter is set before the
-- hash: should it be refused, nothing is half done. As a double a time in
-- microseconds is exact; what was counted beyond that INCR counts on.
local call, key, counter, owner = redis.call, KEYS[1], KEYS[2], ARGV[2]
local function next_token()
    local time = call('time')
    local now = time[1] * 1000000 + time[2]
    local token, last = string.format('%.0f', now), call('get', counter)
    if last and not (tonumber(last) and tonumber(last) < now) then
        call('incr', counter)
        token = call('get', counter)
    end
    if ARGV[3] == '0' then
        call('set', counter, token)
    else
        call('set', counter, token, 'px', ARGV[3])
    end
    return token
end
local remaining = call('pttl', key)
if remaining ~= -2 and call('hexists', key, owner) == 0 then
    return remaining
end
if remaining == -2 and ARGV[4] == 'again' then
    return -2
end
local token
if remaining == -2 then
    token = next_token()
else
    token = call('get', counter)
    if not token then
        token = next_token()
    elseif ARGV[3] ~= '0' then
        call('pexpire', counter, ARGV[3])
    end
end
local count = call('hincrby', key, owner, '1')
call('pexpire', key, ARGV[1])
return count .. ' ' .. token
