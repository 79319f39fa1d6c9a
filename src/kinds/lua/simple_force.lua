-- Deletes a simple lock whoever has it.
-- KEYS[1]  name
-- Reply    1: deleted; 0: nobody had it; an error if the key is no string
-- Message  none
-- STRLEN refuses a key of another type, which DEL would destroy.
local call, key = redis.call, KEYS[1]
call('strlen', key)
return call('del', key)
