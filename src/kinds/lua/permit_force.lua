#!lua flags=allow-oom
-- Takes back all permits whoever has them; how many there are in all stays.
-- KEYS[1]  name
-- KEYS[2]  who has permits: a sorted set of ids by the time of their end
-- ARGV[1]  channel
-- Reply    1: taken back; 0: nobody had one
-- Message  how many there are by now, when taken back
-- Redisson has no such thing; it would release each by its id.
local call, key, held = redis.call, KEYS[1], KEYS[2]
local taken = call('zcard', held)
if taken == 0 then
    return 0
end
local available = call('incrby', key, taken)
call('del', held)
if available > 0 then
    call('publish', ARGV[1], string.format('%.0f', available))
end
return 1
