-- Gives a simple lock back, if the owner has it: compare and delete. To say it
-- twice changes nothing, so it may be resent. Deletes only, and so works when
-- the server is out of memory.
-- KEYS[1]  name
-- ARGV[1]  owner
-- ARGV[2]  hold count that shall remain: "0", or "1" to keep it
-- ARGV[3]  lease in milliseconds of what remains
-- ARGV[4]  optional: say why the owner does not have it
-- Reply    1: released; 0: still held; nil: the owner does not have it; with
--          ARGV[4], in place of nil, -1: nobody has it, 0: another has
-- Message  none
-- Redis manual "Distributed locks". GET refuses a key of another type.
local call, key = redis.call, KEYS[1]
local owner = call('get', key)
if owner ~= ARGV[1] then
    return ARGV[4] and (owner and 0 or -1)
end
if ARGV[2] == '0' then
    return call('del', key)
end
call('pexpire', key, ARGV[3])
return 0
