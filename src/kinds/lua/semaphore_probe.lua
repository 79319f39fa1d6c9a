-- Finds the commands that the server's user may not run, before a semaphore
-- depends on them. Changes nothing: each command is given arguments that it
-- refuses after the permission has been checked, or that have no effect.
-- KEYS[1]  name of a semaphore
-- KEYS[2]  its records
-- KEYS[3]  its queue, if there is one
-- ARGV[1]  its channel
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
local key, record, queue = KEYS[1], KEYS[2] .. ':probe', KEYS[3]
try('get', key)
try('exists', key)
try('incrby', key, 'none')
try('decrby', key, 'none')
try('set', key, '0', 'none')
try('get', record)
try('set', record, '0', 'none')
try('del', record)
if queue then
    try('zrange', queue, '0', '0')
    try('zadd', queue, 'none', 'probe')
    try('zrem', queue, 'holdfast:probe')
    try('zcard', queue)
    try('pexpire', queue, 'none')
    try('exists', queue .. ':probe')
    try('set', queue .. ':probe', '1', 'none')
    try('time')
end
try('publish', ARGV[1], '0')
return refused
