-- Finds the commands that the server's user may not run, or not on the keys
-- that a read/write lock needs besides its own, before a lock depends on them.
-- Changes nothing, as lock_probe.lua says.
-- KEYS[1]  name of a lock
-- KEYS[2]  mark of a waiting writer
-- ARGV[1]  its channel
-- ARGV[2]  an owner that no lock has
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
local key, mark, owner = KEYS[1], KEYS[2], ARGV[2]
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local hold = base .. ':' .. owner .. ':rwlock_timeout:1'
try('pttl', key)
try('hget', key, owner)
try('hexists', key, owner)
try('hgetall', key)
try('hlen', key)
try('hdel', key, owner)
try('hset', key, owner, '1', 'odd')
try('hincrby', key, owner, 'none')
try('pexpire', key, 'none')
try('exists', hold)
try('set', hold, '1', 'px', 'none')
try('del', hold)
try('get', mark)
try('publish', ARGV[1], '-1')
return refused
