-- Takes all permits of a semaphore. Its time to live stays what it is.
-- KEYS[1]  name
-- KEYS[2]  records of what was done: `KEYS[2]:owner:done` is the owner's
-- ARGV[1]  owner, "uuid:thread"
-- ARGV[2]  number of this change, larger than those of the owner's earlier ones
-- Reply    how many there were, which may be below 0
-- Message  none
-- Redisson RedissonSemaphore.drainPermitsAsync. A change that is said again
-- because its reply was lost is known by its number.
local call, key = redis.call, KEYS[1]
local record = KEYS[2] .. ':' .. ARGV[1] .. ':done'
local done = call('get', record) or ''
local number, reply = string.match(done, '^(%d+) (%-?%d+)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then
    return tonumber(reply)
end
local permits = call('get', key)
if not permits then
    return 0
end
if not string.find(permits, '^%-?%d+$') then
    return call('incrby', key, '0')
end
call('set', record, ARGV[2] .. ' ' .. permits, 'px', 600000)
call('set', key, '0', 'keepttl')
return tonumber(permits)
