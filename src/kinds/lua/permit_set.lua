-- Sets how many permits there are in all, those that are held included. Then
-- fewer than none may be available.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- KEYS[3]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- ARGV[3]  how many
-- ARGV[4]  channel
-- Reply    1
-- Message  how many are available, if there are any and it was changed
-- Redisson RedissonPermitExpirableSemaphore.setPermitsAsync. A change that is
-- said again because its reply was lost is known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local number = string.match(call('get', record) or '', '^(%d+) 1$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return 1
end
local available = call('get', key)
local acquired = call('zcount', KEYS[3], '0', '+inf')
local more = ARGV[3] - acquired - (tonumber(available or '0') or 0)
if available and more == 0 then
    return 1
end
local total
if available then
    total = call('incrby', key, string.format('%.0f', more))
else
    total = tonumber(ARGV[3])
    call('set', key, ARGV[3])
end
call('set', record, ARGV[2] .. ' 1', 'px', 600000)
if total > 0 then
    call('publish', ARGV[4], string.format('%.0f', total))
end
return 1
