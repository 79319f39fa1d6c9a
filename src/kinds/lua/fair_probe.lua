-- Finds the commands that the server's user may not run, or not on the keys
-- that a fair lock needs besides its own, before a lock depends on them. Only
-- asks: RPUSH has no arguments that would make it refuse without effect.
-- KEYS[1]  name of a lock
-- KEYS[2]  queue
-- KEYS[3]  time-outs
-- ARGV[1]  channel, without the waiter's name
-- ARGV[2]  an owner that no lock has
-- Reply    names of the commands refused
-- Message  none
local refused = {}
local function ask(...)
    if not redis.acl_check_cmd(...) then
        refused[#refused + 1] = (...)
    end
end
local key, queue, timeouts, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
ask('pttl', key)
ask('exists', key)
ask('hexists', key, owner)
ask('hget', key, owner)
ask('hlen', key)
ask('hset', key, owner, '1')
ask('hincrby', key, owner, '1')
ask('hdel', key, owner)
ask('pexpire', key, '1')
ask('del', key)
ask('lindex', queue, '0')
ask('lpos', queue, owner)
ask('lrange', queue, '0', '-1')
ask('lpop', queue)
ask('lrem', queue, '0', owner)
ask('rpush', queue, owner)
ask('zscore', timeouts, owner)
ask('zrange', timeouts, '0', '-1')
ask('zadd', timeouts, '1', owner)
ask('zincrby', timeouts, '1', owner)
ask('zrem', timeouts, owner)
ask('time')
ask('publish', ARGV[1] .. ':' .. owner, '0')
return refused
