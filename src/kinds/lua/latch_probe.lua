-- Finds the commands that the server's user may not run, before a latch
-- depends on them. Changes nothing: each command is given arguments that it
-- refuses after the permission has been checked, or that have no effect.
-- KEYS[1]  name of a latch
-- KEYS[2]  its records
-- ARGV[1]  its channel
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
local key, record = KEYS[1], KEYS[2] .. ':probe'
try('get', key)
try('exists', key)
try('set', key, '0', 'none')
try('decrby', key, 'none')
try('get', record)
try('set', record, '0', 'none')
try('getdel', record)
try('del', record)
try('publish', ARGV[1], '-1')
return refused
