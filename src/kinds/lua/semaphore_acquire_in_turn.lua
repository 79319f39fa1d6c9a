-- Takes permits of a semaphore, if there are so many and it is the asker's
-- turn: those who ask this way are served in the order of asking, so that one
-- who needs many is not overtaken for ever by those who need few. Whoever asks
-- in another way, such as Redisson, knows nothing of turns.
-- KEYS[1]  name
-- KEYS[2]  records of what was taken: `KEYS[2]:owner` is the owner's
-- KEYS[3]  queue of waiting owners: a sorted set by the time of their coming;
--          `KEYS[3]:head` lives as long as its head is believed to
-- ARGV[1]  how many
-- ARGV[2]  owner, "uuid:thread"
-- ARGV[3]  number of this acquisition, not that of another of the owner's
-- ARGV[4]  channel
-- ARGV[5]  "1": the asker waits; "0": it does not, and gets no place
-- Reply    nil: taken; n: ask again in n milliseconds at the latest, lest the
--          place be lost; -2: not to be had
-- Message  what is left, when the next one's turn has come
-- Redisson has no such thing. A head that does not ask for 5 s is taken out.
local call, key, queue, owner = redis.call, KEYS[1], KEYS[3], ARGV[2]
local record, head = KEYS[2] .. ':' .. owner, queue .. ':head'
local wanted = tonumber(ARGV[1])
local available = call('get', key) or '0'
if not string.find(available, '^%-?%d+$') then
    return call('decrby', key, ARGV[1])
end
local left = tonumber(available) - wanted
local function first()
    return call('zrange', queue, '0', '0')[1]
end
local next = first()
if next and next ~= owner and call('exists', head) == 0 then
    call('zrem', queue, next)
    next = first()
    if next then
        call('set', head, '1', 'px', 5000)
    end
end
local turn = not next or next == owner
if turn and left >= 0 then
    call('set', record, ARGV[3] .. ' ' .. ARGV[1], 'px', 600000)
    call('decrby', key, ARGV[1])
    if next then
        call('zrem', queue, owner)
        if first() then
            call('set', head, '1', 'px', 5000)
            if left > 0 then
                call('publish', ARGV[4], string.format('%.0f', left))
            end
        end
    end
    return nil
end
if ARGV[5] == '0' then
    return -2
end
local time = call('time')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
call('zadd', queue, 'nx', now, owner)
call('pexpire', queue, 10000)
if turn then
    call('set', head, '1', 'px', 5000)
end
return 2000
