#!lua flags=allow-oom
-- Counts a latch down; at none it is deleted, and those who wait go on.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- ARGV[3]  by how many
-- ARGV[4]  channel
-- Reply    what is left
-- Message  "0" when nothing is left, but was before
-- Redisson RedissonCountDownLatch.countDownAsync. A change that is said again
-- because its reply was lost is known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local number, reply = string.match(call('get', record) or '', '^(%d+) (%d+)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return tonumber(reply)
end
local count = call('get', key)
if not count then
    return 0
end
local left = call('decrby', key, ARGV[3])
local shown = string.format('%.0f', math.max(left, 0))
call('set', record, ARGV[2] .. ' ' .. shown, 'px', 600000)
if left <= 0 then
    call('del', key)
    if tonumber(count) > 0 then
        call('publish', ARGV[4], '0')
    end
end
return tonumber(shown)
