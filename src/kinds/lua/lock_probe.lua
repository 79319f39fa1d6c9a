-- Finds the commands that the server's user may not run, before a lock
-- depends on them: without PEXPIRE a lock would have no end, without PUBLISH
-- its waiters would not be told. Changes nothing: each command is given
-- arguments that it refuses after the permission has been checked, or that
-- have no effect.
-- KEYS[1]  name of a lock
-- ARGV[1]  its channel
-- ARGV[2]  a field that no lock has
-- Reply    names of the commands refused
-- Message  "-1" on the channel, which every waiter ignores
local refused = {}
local function try(...)
    local reply = redis.pcall(...)
    local text = type(reply) == 'table' and reply.err
    if text and (string.find(text, 'NOPERM', 1, true) or
                 string.find(text, "user executing the script can't", 1, true)) then
        refused[#refused + 1] = (...)
    end
end
local key, field = KEYS[1], ARGV[2]
try('pttl', key)
try('hexists', key, field)
try('hlen', key)
try('hdel', key, field)
try('hset', key, field, '1', 'odd')
try('hincrby', key, field, 'none')
try('pexpire', key, 'none')
try('publish', ARGV[1], '-1')
return refused
