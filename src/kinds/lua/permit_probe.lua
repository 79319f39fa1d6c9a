-- Finds the commands that the server's user may not run, before permits
-- depend on them. Changes nothing: each command is given arguments that it
-- refuses after the permission has been checked, or that have no effect.
-- KEYS[1]  name
-- KEYS[2]  who has permits
-- ARGV[1]  channel
-- Reply    names of the commands refused
-- Message  "0" on the channel, which wakes nobody: Redisson's waiters take it
--          for so many permits
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
local key, held = KEYS[1], KEYS[2]
try('time')
try('get', key)
try('incrby', key, 'none')
try('decrby', key, 'none')
try('pttl', key)
try('zadd', held, 'none', 'probe')
try('zcount', held, '0', '0')
try('zrange', held, '0', '0')
try('zrem', held, 'holdfast:probe')
try('zremrangebyscore', held, 'none', '0')
try('zscore', held, 'holdfast:probe')
try('pexpire', held, 'none')
try('publish', ARGV[1], '0')
return refused
