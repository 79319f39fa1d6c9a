"""status, list and unlock with locks of every kind, as Redisson leaves them on
the server."""

import json
import re
import socket
import time
import unittest

from support import LIMIT, CliTest

UUID = "11111111-2222-4333-8444-555555555555"
A, B, C = (f"{UUID}:{number}" for number in (7, 8, 9))
NO_END = 922337203685477  # Redisson's, of a permit
HOUR = 3600000


class InspectTest(CliTest):
    def setUp(self):
        super().setUp()
        self.do = self.server.command

    def now(self):
        seconds, micros = self.do("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def lock(self, name, owner=A, count=1):
        self.do("HSET", name, owner, count)
        self.do("PEXPIRE", name, HOUR)

    def fair_waiters(self, name, *waiters):
        """Each with its time-out, in milliseconds from now."""
        now = self.now()
        for owner, timeout in waiters:
            self.do("RPUSH", f"redisson_lock_queue:{{{name}}}", owner)
            if timeout is not None:
                self.do("ZADD", f"redisson_lock_timeout:{{{name}}}",
                        now + timeout, owner)

    def read_write(self, name, mode, *holders):
        """Each with the times of its holds; none of a writer."""
        self.do("HSET", name, "mode", mode)
        for owner, *times in holders:
            self.do("HSET", name, owner, max(len(times), 1))
            for number, left in enumerate(times, 1):
                if left:
                    self.do("SET", f"{{{name}}}:{owner}:rwlock_timeout:"
                            f"{number}", 1, "PX", left)
        self.do("PEXPIRE", name, HOUR)

    def permits(self, name, available, *held):
        self.do("SET", name, available)
        for permit, end in held:
            self.do("ZADD", f"{{{name}}}:timeout", end, permit)

    def objects(self, *words):
        result = self.holdfast(*words, "--json")
        self.assert_code(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def status(self, name):
        (line,) = self.objects("status", name)
        self.assertEqual(line.pop("name"), name)
        self.assertEqual(line.pop("v"), 1)
        self.assertIn(self.server.socket_path, line.pop("server"))
        return line

    def rows(self, *words):
        """The table's rows as lists of words."""
        result = self.holdfast(*words)
        self.assert_code(result, 0)
        self.assertEqual(result.stderr, "")
        return [row.split() for row in result.stdout.splitlines()[1:]]

    def assert_times(self, parties, *bounds):
        """Takes the times out of a list of parties, and checks them: each is
        None, 0, or at most its bound and not much less."""
        for party, bound in zip(parties, bounds, strict=True):
            left = party.pop("remaining_ms")
            if bound:
                self.assertTrue(bound - 60000 < left <= bound, (left, bound))
            else:
                self.assertEqual(left, bound)


class Status(InspectTest):
    def test_fair(self):
        self.lock("x")
        self.fair_waiters("x", (C, 2 * HOUR), (B, 3 * HOUR), ("odd", None))
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["owner"]), ("fair", A))
        self.assert_times(seen["waiters"], 2 * HOUR, 3 * HOUR, None)
        self.assertEqual(seen["waiters"],
                         [{"owner": C}, {"owner": B}, {"owner": "odd"}])
        head, *others = self.rows("status", "x")
        self.assertEqual(head, ["locked", "fair", "1", "59m59s", "-", A, "x"])
        self.assertEqual(others, [
            ["waits", "fair", "-", "1h59m", "1", C, "x"],
            ["waits", "fair", "-", "2h59m", "2", B, "x"],
            ["waits", "fair", "-", "-", "3", "odd", "x"]])

    def test_fair_and_free(self):
        self.fair_waiters("x", (B, -5000), (C, HOUR))
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["locked"], seen["owner"]),
                         ("fair", False, None))
        self.assert_times(seen["waiters"], 0, HOUR)
        self.assertEqual([row[:2] for row in self.rows("status", "x")],
                         [["free", "fair"], ["waits", "fair"],
                          ["waits", "fair"]])

    def test_readers(self):
        self.read_write("x", "read", (A, HOUR, 2 * HOUR), (B, 0),
                        ("other", HOUR))
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["locked"], seen["owner"],
                          seen["hold_count"]), ("read", True, None, 4))
        seen["holders"].sort(key=lambda holder: holder["owner"])
        self.assert_times(seen["holders"], 2 * HOUR, 0, HOUR)
        self.assertEqual(seen["holders"], [
            {"owner": A, "hold_count": 2}, {"owner": B, "hold_count": 1},
            {"owner": "other", "hold_count": 1}])
        rows = sorted(self.rows("status", "x"), key=lambda row: row[5])
        self.assertEqual(rows, [
            ["locked", "read", "2", "1h59m", "-", A, "x"],
            ["locked", "read", "1", "0ms", "-", B, "x"],
            ["locked", "read", "1", "59m59s", "-", "other", "x"]])

    def test_a_writer_that_reads_as_well(self):
        self.read_write("x", "write", (A + ":write",), (A, 2 * HOUR))
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["hold_count"]), ("write", 2))
        seen["holders"].sort(key=lambda holder: holder["owner"])
        self.assert_times(seen["holders"], 2 * HOUR, HOUR)
        self.assertEqual([holder["owner"] for holder in seen["holders"]],
                         [A, A + ":write"])

    def test_a_writer_that_waits(self):
        self.hold("x", "-s")
        waiter = self.start("run", "-x", "x", "--", "true")
        self.wait_for_waiter(waiter)
        seen = self.status("x")
        self.assertEqual(len(seen["holders"]), 1)
        (mark,) = seen["waiters"]
        self.assertRegex(mark["owner"], ":write$")

    def test_name_with_braces(self):
        self.do("HSET", "{t}:x", "mode", "read", A, 1)
        self.do("SET", f"{{t}}:x:{A}:rwlock_timeout:1", 1, "PX", HOUR)
        self.assert_times(self.status("{t}:x")["holders"], HOUR)

    def test_fenced(self):
        self.do("SET", "redisson_lock_token:{x}", 42)
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["locked"], seen["token"]),
                         ("fenced", False, 42))
        self.lock("x", count=3)
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["locked"], seen["token"],
                          seen["hold_count"]), ("fenced", True, 42, 3))
        self.assertEqual(self.rows("status", "x"), [
            ["locked", "fenced", "3", "59m59s", "42", A, "x"]])

    def test_simple(self):
        self.do("SET", "x", UUID, "PX", HOUR)
        seen = self.status("x")
        self.assertTrue(HOUR - 60000 < seen["remaining_ms"] <= HOUR)
        self.assertEqual((seen["kind"], seen["owner"], seen["hold_count"]),
                         ("simple", UUID, 1))

    def test_counter(self):
        for number in (5, 0, -3):
            self.do("SET", "x", number)
            seen = self.status("x")
            self.assertEqual((seen["kind"], seen["locked"], seen["number"],
                              seen["holders"]),
                             ("counter", False, number, []))
            self.assertEqual(self.rows("status", "x"), [
                ["-", "counter", "-", "-", str(number), "-", "x"]])

    def test_semaphore_whose_waiters_take_turns(self):
        self.do("SET", "x", 0)
        self.do("ZADD", "holdfast_permits_queue:{x}", 1, C, 2, B)
        self.do("SET", "holdfast_permits_queue:{x}:head", 1)
        seen = self.status("x")
        self.assertEqual(seen["waiters"], [
            {"owner": C, "remaining_ms": None},
            {"owner": B, "remaining_ms": None}])
        self.assertEqual(self.rows("list", "--all"), [
            ["-", "counter", "-", "-", "0", "-", "x"],
            ["waits", "counter", "-", "-", "1", C, "x"],
            ["waits", "counter", "-", "-", "2", B, "x"]])

    def test_permits(self):
        now = self.now()
        self.permits("x", 3, (b"\x00\xff" * 8, now + HOUR),
                     (b"0123456789abcdef", NO_END), ("old", now - 5))
        seen = self.status("x")
        self.assertEqual((seen["kind"], seen["locked"], seen["number"]),
                         ("permits", True, 4))
        self.assert_times(seen["holders"], HOUR, None)
        self.assertEqual(seen["holders"], [
            {"owner": "00ff" * 8, "hold_count": 1},
            {"owner": b"0123456789abcdef".hex(), "hold_count": 1}])
        self.assertEqual(self.rows("status", "x"), [
            ["locked", "permits", "1", "59m59s", "4", "00ff" * 8, "x"],
            ["locked", "permits", "1", "no", "end", "4",
             b"0123456789abcdef".hex(), "x"]])

    def test_owners_of_any_bytes(self):
        self.lock("x", b"caf\xe9\n")
        seen = self.status("x")
        self.assertIsNone(seen["owner"])
        self.assertEqual(seen["holders"][0]["owner_base64"], "Y2Fm6Qo=")
        self.assertEqual(self.rows("status", "x")[0][5], r"caf\xe9\x0a")

    def test_many_waiters(self):
        owners = [f"{UUID}:{number}" for number in range(2000)]
        self.lock("x")
        self.do("RPUSH", "redisson_lock_queue:{x}", *owners)
        seen = self.status("x")
        self.assertEqual([waiter["owner"] for waiter in seen["waiters"]],
                         owners)

    def test_a_hold_count_beyond_measure(self):
        """Must not keep the server busy."""
        self.do("HSET", "x", "mode", "read", A, 2000000000)
        start = time.monotonic()
        self.assertEqual(self.status("x")["hold_count"], 2000000000)
        self.assertLess(time.monotonic() - start, 10)

    def test_one_round_trip_that_changes_nothing(self):
        self.lock("x")
        self.fair_waiters("x", (B, -5000), (C, HOUR))
        self.permits("p", 1, ("old", 5))
        self.holdfast("status", "x")
        self.do("CONFIG", "RESETSTAT")
        changes = r"rdb_changes_since_last_save:(\d+)"
        before = re.search(changes, self.do("INFO", "persistence"))[1]
        self.holdfast("status", "x", "p")
        after = re.search(changes, self.do("INFO", "persistence"))[1]
        self.assertEqual(after, before)
        self.assertIn("cmdstat_evalsha:calls=2,",
                      self.do("INFO", "commandstats"))

    def test_when_the_memory_is_full(self):
        self.lock("x")
        self.do("CONFIG", "SET", "maxmemory", "1")
        self.addCleanup(self.do, "CONFIG", "SET", "maxmemory", "0")
        self.assertEqual(self.status("x")["owner"], A)

    def test_what_the_user_may_not_read_is_left_out(self):
        self.lock("x")
        self.fair_waiters("x", (B, HOUR))
        self.do("ACL", "SETUSER", "ann", "on", ">pw", "~x", "&*", "+@all")
        self.addCleanup(self.do, "ACL", "DELUSER", "ann")
        url = f"redis+unix://ann:pw@{self.server.socket_path}"
        result = self.holdfast("status", "--json", "x",
                               env=self.environment(HOLDFAST_URL=url))
        self.assert_code(result, 0)
        seen = json.loads(result.stdout)
        self.assertEqual((seen["owner"], seen["waiters"]), (A, []))
        result = self.holdfast("status", "y",
                               env=self.environment(HOLDFAST_URL=url))
        self.assert_code(result, 77)


class List(InspectTest):
    def kinds(self, *words):
        return {line["name"]: line["kind"]
                for line in self.objects("list", *words)}

    def make_all(self):
        self.lock("l")
        self.lock("f")
        self.fair_waiters("f", (B, HOUR))
        self.lock("t")
        self.do("SET", "redisson_lock_token:{t}", 3)
        self.read_write("r", "read", (A, HOUR))
        self.read_write("w", "write", (A + ":write",))
        self.do("SET", "s", A, "PX", HOUR)
        self.do("SET", "u", UUID, "PX", HOUR)
        self.permits("p", 3, (b"0123456789abcdef", NO_END))
        self.do("SET", "c", 3)
        self.do("SET", "free", UUID)
        self.do("SET", "session", "abc", "PX", HOUR)
        self.do("SET", "{r}:holdfast_writer", A + ":write", "PX", HOUR)
        self.do("HSET", "views", "page", 3)
        self.do("HSET", "user", "name", "ann", "age", 7)
        self.do("RPUSH", "pile", 1)

    LOCKS = {"l": "lock", "f": "fair", "t": "fenced", "r": "read",
             "w": "write", "s": "simple", "u": "simple", "p": "permits"}

    def test_of_every_kind(self):
        self.make_all()
        self.assertEqual(self.kinds(), self.LOCKS)

    def test_all(self):
        self.make_all()
        wanted = self.LOCKS | {"c": "counter", "free": "simple",
                               "session": "simple"}
        self.assertEqual(self.kinds("--all"), wanted)
        self.assertEqual(self.kinds("-a", "[cs]"),
                         {"c": "counter", "s": "simple"})

    def test_what_our_own_tools_leave(self):
        self.holdfast("sem", "init", "pool", "3")
        self.holdfast("latch", "set", "gate", "3")
        self.hold("x", "-j", "2")
        self.hold("y", "-s")
        self.hold("z", "--kind", "simple")
        self.assertEqual(self.kinds(), {"x": "permits", "y": "read",
                                        "z": "simple"})
        self.assertEqual(self.kinds("-a"), {
            "x": "permits", "y": "read", "z": "simple", "pool": "counter",
            "gate": "counter"})

    def test_a_key_that_may_not_be_read_hides_no_other(self):
        for i in range(50):
            self.lock(f"mine:{i}")
            self.lock(f"theirs:{i}")
        self.do("ACL", "SETUSER", "ann", "on", ">pw", "~mine:*", "&*", "+@all")
        self.addCleanup(self.do, "ACL", "DELUSER", "ann")
        env = self.environment(
            HOLDFAST_URL=f"redis+unix://ann:pw@{self.server.socket_path}")
        result = self.holdfast("list", "--json", env=env)
        self.assert_code(result, 0)
        self.assertEqual(
            sorted(json.loads(line)["name"]
                   for line in result.stdout.splitlines()),
            sorted(f"mine:{i}" for i in range(50)))
        result = self.holdfast("list", "theirs:*", env=env)
        self.assert_code(result, 77)
        self.assertRegex(result.stderr, "any of 50 keys")


class Heard:
    """Messages of the server on some channels."""

    def __init__(self, server, channels):
        self.server = server
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT)
        self.socket.connect(server.socket_path)
        self.stream = self.socket.makefile("rwb")
        server._exchange(self.stream, ["SUBSCRIBE", *channels])
        for _ in channels[1:]:
            server._reply(self.stream)

    def next(self):
        return self.server._reply(self.stream)

    def close(self):
        self.stream.close()
        self.socket.close()


class Unlock(InspectTest):
    def check(self, name, channel, payload):
        """Releases by force; waiters of that kind are told."""
        heard = Heard(self.server, [channel])
        self.addCleanup(heard.close)
        result = self.holdfast("unlock", "--force", "--yes", name)
        self.assert_code(result, 0)
        self.assertEqual(heard.next(), ["message", channel, payload])

    def test_lock(self):
        self.lock("x")
        self.check("x", "redisson_lock__channel:{x}", "0")
        self.assertEqual(self.do("KEYS", "*"), [])

    def test_fair_tells_the_first_that_waits(self):
        self.lock("x")
        self.fair_waiters("x", (B, -1), (C, HOUR))
        self.check("x", f"redisson_lock__channel:{{x}}:{C}", "0")
        self.assertEqual(self.do("KEYS", "x"), [])

    def test_readers(self):
        self.read_write("x", "read", (A, HOUR, HOUR), (B, HOUR))
        self.check("x", "redisson_rwlock:{x}", "0")
        self.assertEqual(self.do("KEYS", "*"), [])

    def test_writer(self):
        self.read_write("x", "write", (A + ":write",), (A, HOUR))
        self.check("x", "redisson_rwlock:{x}", "1")
        self.assertEqual(self.do("KEYS", "*"), [])

    def test_fenced_keeps_its_tokens(self):
        self.lock("x")
        self.do("SET", "redisson_lock_token:{x}", 3)
        self.check("x", "redisson_lock__channel:{x}", "0")
        self.assertEqual(self.do("KEYS", "*"), ["redisson_lock_token:{x}"])

    def test_simple(self):
        self.do("SET", "x", UUID, "PX", HOUR)
        result = self.holdfast("unlock", "--force", "--yes", "x")
        self.assert_code(result, 0)
        self.assertEqual(self.do("KEYS", "*"), [])

    def test_permits_come_back(self):
        self.permits("x", 1, (b"0123456789abcdef", NO_END),
                     (b"1123456789abcdef", NO_END))
        self.check("x", "redisson_sc:{x}", "3")
        self.assertEqual(self.do("GET", "x"), "3")

    def test_counters_are_left_alone(self):
        self.do("SET", "x", 3)
        result = self.holdfast("unlock", "--force", "--yes", "x")
        self.assert_code(result, 65)
        self.assert_one_message(result, '"x" is a number')
        self.assertEqual(self.do("GET", "x"), "3")


if __name__ == "__main__":
    unittest.main()
