-- Finds the commands that the server's user may not run, before a simple lock
-- depends on them: without DEL it could not be given back, without GET it would
-- be nobody's. Only asks.
-- KEYS[1]  name of a lock
-- Reply    names of the commands refused
-- Message  none
local refused, key = {}, KEYS[1]
local function ask(...)
    if not redis.acl_check_cmd(...) then
        refused[#refused + 1] = (...)
    end
end
ask('set', key, 'owner', 'px', '1', 'nx')
ask('get', key)
ask('pexpire', key, '1')
ask('del', key)
return refused
