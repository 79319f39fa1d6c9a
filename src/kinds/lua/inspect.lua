-- Tells what is known of names: what holds them, who, and who waits.
-- KEYS[n]  names
-- Reply    for each name a list: what it is; milliseconds until it ends, as
--          PTTL; a number; the latest fencing token, or ""; who has it, and who
--          waits, the next one first: lists of id, count, and milliseconds that
--          it lasts, or is believed to wait (-1: without an end). What it is,
--          and the number:
--            "none"    no such key
--            "lock"    hash of an owner
--            "read", "write"  hash of owners and the mode
--            "string"  of a simple lock, whose holder is its value
--            "number"  of a semaphore or latch: the number
--            "permits" number of which some are held: how many are to be had
--            "other"   no lock; instead of the number the type of the key
--            "refused" instead of the number the server's error
-- Message  none
-- Redisson's state of all of them, and what waits for a read/write lock or a
-- semaphore of this library. What the user may not read besides the key itself
-- is taken for missing.
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)

local function peek(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
        return nil
    end
    return reply
end

-- Milliseconds until a time that may be none.
local function till(time)
    time = tonumber(time)
    if not time or time >= 922337203685477 then
        return -1
    end
    return math.max(time - now, 0)
end

local function fair_waiters(base)
    local all, ends = {}, {}
    local queue = peek('lrange', 'redisson_lock_queue:' .. base, '0', '-1') or {}
    local scores = queue[1] and peek('zrange', 'redisson_lock_timeout:' .. base, '0', '-1', 'withscores') or {}
    for i = 1, #scores, 2 do
        ends[scores[i]] = scores[i + 1]
    end
    for i, owner in ipairs(queue) do
        all[3 * i - 2], all[3 * i - 1], all[3 * i] = owner, 0, till(ends[owner])
    end
    return all
end

local function queued_for_permits(base)
    local all = {}
    for i, owner in ipairs(peek('zrange', 'holdfast_permits_queue:' .. base, '0', '-1') or {}) do
        all[3 * i - 2], all[3 * i - 1], all[3 * i] = owner, 0, -1
    end
    return all
end

-- A reader's hold is what its keys say; of very many, the latest.
local function reader_remaining(base, owner, count)
    local longest = 0
    for i = count, math.max(count - 99, 1), -1 do
        longest = math.max(longest, peek('pttl', base .. ':' .. owner .. ':rwlock_timeout:' .. i) or 0)
    end
    return longest
end

local function read_write(key, base, mode, remaining)
    local holders, waiters = {}, {}
    local fields = redis.call('hgetall', key)
    for i = 1, #fields, 2 do
        local owner, count = fields[i], tonumber(fields[i + 1])
        if count then
            local writes = string.sub(owner, -6) == ':write'
            holders[#holders + 1] = owner
            holders[#holders + 1] = fields[i + 1]
            holders[#holders + 1] = writes and remaining or reader_remaining(base, owner, count)
        end
    end
    local writer = peek('get', base .. ':holdfast_writer')
    if writer then
        waiters = { writer, 0, peek('pttl', base .. ':holdfast_writer') or -1 }
    end
    return { mode, remaining, 0, '', holders, waiters }
end

local function hash(key, base, remaining)
    local mode = redis.call('hget', key, 'mode')
    if mode == 'read' or mode == 'write' then
        return read_write(key, base, mode, remaining)
    end
    if redis.call('hlen', key) ~= 1 then
        return { 'other', remaining, 'hash' }
    end
    local fields = redis.call('hgetall', key)
    if not string.find(fields[2], '^%d+$') then
        return { 'other', remaining, 'hash' }
    end
    local token = peek('get', 'redisson_lock_token:' .. base) or ''
    return { 'lock', remaining, 0, token, { fields[1], fields[2], remaining }, fair_waiters(base) }
end

local function number(base, value, remaining)
    local held = peek('zrange', base .. ':timeout', '0', '-1', 'withscores') or {}
    local holders, ended = {}, 0
    for i = 1, #held, 2 do
        if tonumber(held[i + 1]) > now then
            holders[#holders + 1] = held[i]
            holders[#holders + 1] = 1
            holders[#holders + 1] = till(held[i + 1])
        else
            ended = ended + 1
        end
    end
    if held[1] then
        value = string.format('%.0f', value + ended)
    end
    return { held[1] and 'permits' or 'number', remaining, value, '', holders, queued_for_permits(base) }
end

local function text(key, base, remaining)
    if redis.call('strlen', key) > 256 then
        return { 'other', remaining, 'string' }
    end
    local value = redis.call('get', key)
    if string.find(value, '^%-?%d+$') and #value < 20 then
        return number(base, value, remaining)
    end
    return { 'string', remaining, 0, '', { value, 1, remaining }, {} }
end

local function look(key)
    local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
    local kind = redis.call('type', key).ok
    local remaining = redis.call('pttl', key)
    if kind == 'none' then
        local token = peek('get', 'redisson_lock_token:' .. base) or ''
        return { 'none', remaining, 0, token, {}, fair_waiters(base) }
    elseif kind == 'hash' then
        return hash(key, base, remaining)
    elseif kind == 'string' then
        return text(key, base, remaining)
    end
    return { 'other', remaining, kind }
end

local all = {}
for i, key in ipairs(KEYS) do
    local looked, reply = pcall(look, key)
    if not looked then
        reply = { 'refused', 0, type(reply) == 'table' and reply.err or tostring(reply) }
    end
    all[i] = reply
end
return all
