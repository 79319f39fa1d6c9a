-- Finds the commands that the server's user may not run, before a lock
-- depends on them: without PEXPIRE a lock would have no end, without PUBLISH
-- its waiters would not be told. Changes nothing: each command is given
-- arguments that it refuses after the permission has been checked, or that
-- have no effect.
-- KEYS[1]  name of a lock
-- KEYS[2]  optional: counter of tokens; what it needs is only asked for, since
--          INCR has no arguments that would make it refuse without effect
-- ARGV[1]  its channel
-- ARGV[2]  a field that no lock has
-- Reply    names of the commands refused
-- Message  "-1" on the channel, which every waiter ignores
local refused = {}
-- Redis 7.0 says it by the second, later ones and Valkey by the third.
local texts = {'NOPERM', "user executing the script can't", 'ACL failure in script'}
local function try(...)
    local reply = redis.pcall(...)
    local refusal = type(reply) == 'table' and reply.err or ''
    for _, text in ipairs(texts) do
        if string.find(refusal, text, 1, true) then
            refused[#refused + 1] = (...)
            return
        end
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
if ARGV[1] ~= '' then
    try('publish', ARGV[1], '-1')
end
if KEYS[2] then
    local function ask(...)
        if not redis.acl_check_cmd(...) then
            refused[#refused + 1] = (...)
        end
    end
    ask('time')
    ask('get', KEYS[2])
    ask('set', KEYS[2], '1')
    ask('incr', KEYS[2])
    ask('pexpire', KEYS[2], '1')
end
return refused
