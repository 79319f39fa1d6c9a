"""Read/write locks. As a lock that one owner has, "write" has what all have."""

from scenarios import (LONG, NAMES, SOON, InteropTest, both_roles, keyspaces,
                       rounds)
from test_locks import (Reentrant, after_kill, assert_passed_on,
                        assert_watched)
from world import now


class Write(Reentrant):
    FREE_FOR_ALL = True  # before 3.44.0


class Shares(InteropTest):
    """KIND is that of the holder."""

    PAIRS = (("read", "write"), ("write", "read"))

    def hold(self, kind, name=None):
        self.assert_answers(("yes", self.holder, "h", "acquire",
                             f"{kind}@{name or self.name}", 0, LONG))

    def test_1_wakes_waiter(self):
        """woken by the other side's release: a writer, a reader"""
        took = []
        for held, wanted in self.PAIRS:
            for name in NAMES:
                with self.subTest(held=held, name=name):
                    self.hold(held, name)
                    took.append(self.wake(f"{held}@{name}", f"{wanted}@{name}"))
        self.note(f"{max(took):.0f} ms")

    def wake(self, held, wanted):
        waiting = self.park(self.waiter, "w", wanted)
        left = now()
        self.assert_answers(("yes", self.holder, "h", "release", held))
        took = self.assert_handed_over(left, waiting.result())
        self.assert_answers(("yes", self.waiter, "w", "release", wanted))
        self.assert_nothing_left()
        return took

    def test_2_gives_up(self):
        """readers and writers exclude each other"""
        for held, wanted in self.PAIRS:
            self.hold(held)
            before = self.state()
            self.assert_answers(
                ("no", self.waiter, "w", "try", f"{wanted}@{self.name}"),
                ("no", self.waiter, "w", "acquire", f"{wanted}@{self.name}",
                 200, LONG),
                ("no", self.holder, "other", "try", f"{wanted}@{self.name}"))
            self.assert_state_soon(before)
            self.assert_answers(
                ("yes", self.holder, "h", "release", f"{held}@{self.name}"))
            self.assert_nothing_left()

    def test_3_shares(self):
        """readers of both sides at once, counted alike"""
        read, write = f"read@{self.name}", f"write@{self.name}"
        self.hold("read")
        for _ in range(2):
            self.assert_answers(
                ("yes", self.waiter, "w", "acquire", read, 0, LONG))
        for actor, thread, count in ((self.holder, "h", 1),
                                     (self.waiter, "w", 2)):
            self.assert_answers(
                (str(count), actor, thread, "count", read),
                ("yes", actor, thread, "held", read),
                ("no", actor, thread, "held", write),
                ("0", actor, "other", "count", read),
                ("yes", actor, "other", "locked", read),
                ("no", actor, "other", "locked", write),
                ("no", actor, "other", "try", write),
                ("no", actor, thread, "try", write))
        marks = [key for key in self.server.keyspace() if "timeout" in key[0]]
        self.assertEqual(len(marks), 3, "one key for each hold")
        self.assert_answers(
            ("yes", self.waiter, "w", "release", read),
            ("yes", self.holder, "h", "release", read),
            ("refused", self.holder, "h", "release", read),
            ("no", self.holder, "other", "try", write))
        waiting = self.park(self.holder, "other", write)
        left = now()
        self.assert_answers(("yes", self.waiter, "w", "release", read))
        took = self.assert_handed_over(left, waiting.result())
        self.note(f"{took:.0f} ms")
        self.assert_answers(("yes", self.holder, "other", "release", write))
        self.assert_nothing_left()

    def test_4_wakes_all(self):
        """a writer leaves, all readers of both sides come in"""
        self.hold("write")
        waits = [self.park_reader(actor, f"w{i}")
                 for actor in (self.java, self.c) for i in range(2)]
        left = now()
        self.assert_answers(
            ("yes", self.holder, "h", "release", f"write@{self.name}"))
        took = [self.assert_handed_over(left, wait.result()) for wait in waits]
        self.note(f"{max(took):.0f} ms")
        values = self.server.command("HVALS", self.name)
        self.assertEqual(sorted(values), ["1", "1", "1", "1", "read"])

    def park_reader(self, actor, thread):
        """When others of holdfast listen already, it tries only once."""
        name = f"read@{self.name}"
        if actor is self.java or not self.server.holdfast_listens():
            return self.park(actor, thread, name)
        tries = self.tries(name)
        waiting = self.order(actor, thread, "acquire", name, SOON, LONG)
        self.wait_for_tries(name, tries + 1, waiting)
        return waiting

    def test_5_downgrade(self):
        """a writer goes on as a reader"""
        read, write = f"read@{self.name}", f"write@{self.name}"
        self.hold("write")
        self.hold("read")
        self.assert_answers(
            ("no", self.waiter, "w", "try", read),
            ("yes", self.holder, "h", "release", write),
            ("yes", self.waiter, "w", "try", read),
            ("no", self.waiter, "other", "try", write),
            ("no", self.holder, "h", "try", write),  # and not back again
            ("yes", self.holder, "h", "release", read),
            ("yes", self.waiter, "w", "release", read))
        self.assert_nothing_left()

    def test_6_refuses_release(self):
        """release by a non-holder refused"""
        for held, _ in self.PAIRS:
            self.hold(held)
            before = self.state()
            for actor, thread in ((self.waiter, "w"), (self.holder, "other")):
                for kind in ("read", "write"):
                    self.assert_answers(("refused", actor, thread, "release",
                                         f"{kind}@{self.name}"))
            self.assertEqual(self.state(), before)
            self.assert_answers(
                ("yes", self.holder, "h", "release", f"{held}@{self.name}"))

    def test_7_forced(self):
        """forced by either side"""
        for by in (self.waiter, self.holder):
            for held, wanted in self.PAIRS:
                name = f"{self.name}.{by is self.c}"
                self.hold(held, name)
                self.assert_answers(
                    ("no", by, "forcer", "force", f"{wanted}@{name}"))
                waiting = self.park(self.waiter, "w", f"{wanted}@{name}")
                left = now()
                self.assert_answers(
                    ("yes", by, "forcer", "force", f"{held}@{name}"))
                took = self.assert_handed_over(left, waiting.result())
                self.note(f"{took:.0f} ms")
                self.assert_answers(
                    ("refused", self.holder, "h", "release", f"{held}@{name}"),
                    ("yes", self.waiter, "w", "release", f"{wanted}@{name}"))

    def test_8_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        assert_watched(self)

    def test_9_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)

    def test_9_dead_reader(self):
        """a dead reader, whose share ends though others read on"""
        left, waited = after_kill(self, "reader")
        self.note(f"{self.assert_handed_over(left, waited.result()):.0f} ms")


class ReadWriteLoad(InteropTest):
    """3 readers and 2 writers of each side."""

    KIND = "read"

    def test_load(self):
        """mutual exclusion under load: writers, and readers among them"""
        number = rounds(80)
        who = [(actor, f"{kind}{i}", f"{kind}@{self.name}")
               for actor in (self.java, self.c)
               for kind, i in (("read", 1), ("read", 2), ("write", 1),
                               ("write", 2), ("read", 3))]
        stays = self.load(who, number)
        writers = sum(name.startswith("write@") for _, _, name in who)
        self.assertEqual(self.counted, number * writers)
        self.assert_writers_alone(stays)
        self.assert_nothing_left()

    def assert_writers_alone(self, stays):
        shared = crossings = 0
        writer_until = reader_until = 0
        for stay, before in zip(stays, [stays[0], *stays]):
            enter, leave, _, name, by_java = stay
            self.assertLess(writer_until, enter, "beside a writer")
            if name.startswith("write@"):
                self.assertLess(reader_until, enter, "beside a reader")
                writer_until = leave
            else:
                shared += reader_until > enter
                reader_until = max(reader_until, leave)
            crossings += by_java != before[4]
        self.note(f"{crossings} crossings, {shared} shared")
        self.assertGreater(shared, 0, "no readers met")
        self.assertGreater(crossings, 0, "the sides were not at it together")


STEPS = [
    "x write.acquire 0 60000", "y read.try", "y write.try", "y write.locked",
    "y read.locked", "y write.release", "y read.release",
    "x read.acquire 0 60000",
    "y read.try", "x write.count", "x read.count",
    "~x write.release", "y read.acquire 0 60000", "y write.try", "x write.try",
    "y read.acquire 0 60000", "y read.count", "x read.count", "y read.release",
    "x read.release", "y read.release",
    "x read.acquire 0 60000", "x read.acquire 0 60000",
    "y read.acquire 0 60000", "x read.release", "y read.release",
    "x read.release",
    "x read.acquire 0 60000", "~y write.acquire 50 60000", "y write.park",
    "x read.pass",
    "x read.try", "~y write.acquire 0 60000", "y write.release",
    "x read.park", "y write.pass", "x read.release",
    "x write.make", "y write.make", "x read.make", "y read.make",
    "x write.try", "x write.release", "y read.try", "y read.release",
    "x write.try", "y read.force", "y write.force", "y write.force",
    "x read.try", "x write.force", "x read.force",
]

CASES = [
    *both_roles(Write, KIND="write"),
    *both_roles(Shares, KIND="read", TITLE="read"), ReadWriteLoad,
    *keyspaces(KIND="read", STEPS=[*STEPS[:-1], "~~" + STEPS[-1]]),
]
