"""Semaphores, permits for a time, latches."""

from scenarios import (LONG, NAMES, SOON, HoldfastHolds, InteropTest,
                       both_roles, keyspaces, rounds)
from test_locks import assert_passed_on, assert_watched
from world import now


class Counter(InteropTest):
    """Who gives is the "holder"."""

    def assert_woken(self, name, give, took):
        waiting = self.park(self.waiter, "w", name, "take", self.TAKE)
        left = now()
        self.assert_answers(("yes", self.holder, "h", *give))
        answer = waiting.result()
        took.append(self.assert_handed_over(left, answer))
        return answer.text


class SharedLoad(InteropTest):
    """Several are inside at once, but never more than there are permits."""

    PERMITS = 3

    def test_load(self):
        """never more inside than there are permits, none is lost"""
        self.assert_answers(
            ("yes", self.c, "main", "set", self.name, self.PERMITS))
        number = rounds(100)
        who = self.contenders(self.name, 3, 1)
        stays = self.load(who, number)
        events = sorted([(stay[0], 1) for stay in stays]
                        + [(stay[1], -1) for stay in stays])
        inside = most = 0
        for _, change in events:
            inside += change
            most = max(most, inside)
        self.assertEqual(most, self.PERMITS)
        self.assertGreater(len({stay[4] for stay in stays}), 1)
        self.note(f"{most} of {len(who)}")
        permits = str(self.PERMITS)
        self.assert_answers(
            (permits, self.c, "main", "available", self.name),
            (permits, self.java, "main", "available", self.name))
        self.assertEqual(self.state(), [(self.name, "string", permits)])


# -------------------------------------------------------------- semaphores

class Semaphore(Counter):
    TAKE = (1, SOON)

    def test_1_wakes_waiter(self):
        """woken by the other side, which gives one back"""
        took = []
        for name in NAMES:
            with self.subTest(name=name):
                self.assert_answers(
                    ("yes", self.holder, "h", "set", name, 1),
                    ("yes", self.holder, "h", "take", name, 1, 0))
                self.assert_woken(name, ("give", name, 1), took)
                self.assertEqual(self.server.command("GET", name), "0")
        self.note(f"{max(took):.0f} ms")

    def test_2_many(self):
        """a waiter for three, to whom they are given one by one"""
        name = self.name
        self.assert_answers(("yes", self.holder, "h", "set", name, 0))
        waiting = self.park(self.waiter, "w", name, "take", (3, SOON))
        for _ in range(3):
            self.assertFalse(waiting.done())
            left = now()
            self.assert_answers(("yes", self.holder, "h", "give", name, 1))
        self.note(f"{self.assert_handed_over(left, waiting.result()):.0f} ms")
        self.assert_answers(("0", self.holder, "h", "available", name))

    def test_3_more(self):
        """woken by the other side, which adds some"""
        if self.holder is self.java and self.world.version < (3, 16, 2):
            return  # it tells nobody
        took = []
        self.assert_answers(("yes", self.holder, "h", "set", self.name, 0))
        self.assert_woken(self.name, ("add", self.name, 5), took)
        self.note(f"{took[0]:.0f} ms")
        self.assert_answers(("4", self.holder, "h", "available", self.name),
                            ("4", self.waiter, "w", "available", self.name))

    def test_4_gives_up(self):
        """a wait that ends without a permit"""
        self.assert_answers(("yes", self.holder, "h", "set", self.name, 1))
        before = self.state()
        self.assert_answers(
            ("no", self.waiter, "w", "take", self.name, 2, 0),
            ("no", self.waiter, "w", "take", self.name, 2, 200))
        self.assertEqual(self.state(), before)
        self.wait_until_holdfast_is_deaf()

    def test_5_agree(self):
        """queries agree"""
        name = self.name
        both = ((self.holder, "h"), (self.waiter, "w"))

        def assert_available(count):
            self.assert_answers(*((str(count), *who, "available", name)
                                  for who in both))
        assert_available(0)
        self.assert_answers(("no", self.holder, "h", "take", name, 1, 0),
                            ("yes", self.holder, "h", "set", name, 5),
                            ("no", self.waiter, "w", "set", name, 7))
        assert_available(5)
        self.assert_answers(("yes", self.holder, "h", "take", name, 2, 0),
                            ("yes", self.waiter, "w", "give", name, 1))
        assert_available(4)
        self.assert_answers(("4", self.holder, "h", "drain", name),
                            ("0", self.waiter, "w", "drain", name),
                            ("yes", self.holder, "h", "add", name, -2))
        assert_available(-2)

    def test_6_killed(self):
        """the holder killed by SIGKILL: what it took stays taken"""
        name = self.name
        victim = self.world.start_c()
        self.assert_answers(("yes", self.c, "h", "set", name, 2),
                            ("yes", victim, "h", "take", name, 2, 0))
        waiting = self.park(self.waiter, "w", name, "take", (1, SOON))
        victim.kill()
        self.assertFalse(waiting.done())
        self.assert_answers(("yes", self.c, "h", "give", name, 2))
        self.assertEqual(waiting.result().text, "yes")
        self.assert_answers(("1", self.c, "h", "available", name))


class SemaphoreLoad(SharedLoad):
    KIND = "semaphore"


STEPS_SEMAPHORE = [
    "x available", "y take 1 0", "x set 2", "y set 3", "x take 1 0",
    "y take 2 0", "y take 1 50", "x available", "y take 1 50", "y park",
    "x pass 1", "x give 1", "y give 2", "~x add 3", "y drain", "y drain",
    "~x add -2", "y available", "~x give 1", "y give 4",
]


# ------------------------------------------------------------------ permits

class Permits(Counter):
    TAKE = (SOON, LONG)

    def take(self, actor, thread, name=None):
        taken = self.ask(actor, thread, "take", name or self.name, 0, LONG)
        self.assertRegex(taken, "^[0-9a-f]{32}$")
        return taken

    def test_1_wakes_waiter(self):
        """woken by the other side, which gives one back"""
        took = []
        for name in NAMES:
            with self.subTest(name=name):
                self.assert_answers(("yes", self.holder, "h", "set", name, 1))
                mine = self.take(self.holder, "h", name)
                theirs = self.assert_woken(name, ("give", name, mine), took)
                self.assertNotEqual(mine, theirs)
                self.assert_answers(
                    ("no", self.holder, "h", "give", name, mine),
                    ("yes", self.waiter, "w", "give", name, theirs))
        self.note(f"{max(took):.0f} ms")

    def test_2_gives_up(self):
        """a wait that ends without a permit"""
        self.assert_answers(("yes", self.holder, "h", "set", self.name, 1))
        self.take(self.holder, "h")
        before = self.state()
        self.assert_answers(
            ("no", self.waiter, "w", "take", self.name, 0, LONG),
            ("no", self.waiter, "w", "take", self.name, 200, LONG))
        self.assertEqual(self.state(), before)
        self.wait_until_holdfast_is_deaf()

    def assert_counts(self, available, acquired):
        counts = {"available": available}
        if self.world.version >= (3, 19, 1):
            counts.update(acquired=acquired, total=available + acquired)
        for verb, count in counts.items():
            self.assert_answers(
                (str(count), self.holder, "h", verb, self.name),
                (str(count), self.waiter, "w", verb, self.name))

    def test_3_agree(self):
        """queries agree"""
        name = self.name
        self.assert_counts(0, 0)
        self.assert_answers(("yes", self.holder, "h", "set", name, 2),
                            ("no", self.waiter, "w", "set", name, 3))
        self.assert_counts(2, 0)
        mine = self.take(self.holder, "h")
        theirs = self.take(self.waiter, "w")
        self.assert_counts(0, 2)
        self.assert_answers(("yes", self.holder, "h", "add", name, 2))
        self.assert_counts(2, 2)
        if self.world.version >= (3, 19, 1):
            self.assert_answers(("yes", self.waiter, "w", "assign", name, 1))
            self.assert_counts(-1, 2)
            self.assert_answers(("yes", self.holder, "h", "assign", name, 4))
            self.assert_counts(2, 2)
        self.assert_answers(("yes", self.holder, "h", "give", name, mine),
                            ("yes", self.waiter, "w", "give", name, theirs))
        self.assert_counts(4, 0)

    def test_4_ends(self):
        """woken by the end of the other side's lease"""
        self.assert_answers(("yes", self.holder, "h", "set", self.name, 1))
        taken = self.ask(self.holder, "h", "take", self.name, 0, 1_000)
        self.assertNotEqual(taken, "no")
        answer = self.ask(self.waiter, "w", "take", self.name, SOON, LONG)
        self.assertNotEqual(answer, "no")
        self.assert_answers(("no", self.holder, "h", "give", self.name, taken))
        self.assert_counts(0, 1)

    def test_9_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


class PermitIds(HoldfastHolds):
    """Since 3.17.0 an id is the same on either side."""

    KIND, SINCE = "permit", (3, 17)

    def test_5_hands_on(self):
        """an id handed to the other side, which gives it back"""
        name = self.name
        self.assert_answers(("yes", self.c, "h", "set", name, 1))
        taken = self.ask(self.c, "h", "take", name, 0, LONG)
        self.assert_answers(("yes", self.java, "w", "lease", name, taken, LONG),
                            ("yes", self.java, "w", "give", name, taken),
                            ("no", self.java, "w", "give", name, taken),
                            ("no", self.c, "h", "give", name, taken),
                            ("1", self.c, "h", "available", name))

    def test_8_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        assert_watched(self)


class PermitLoad(SharedLoad):
    KIND = "permit"


STEPS_PERMIT = [
    "x available", "y take 0 60000", "x set 2", "y set 1", "x take 0 60000",
    "y take 0 60000", "y available", "y give $", "y give $", "x give $",
    "x give $", "x take 50 60000", "y take 50 60000", "~x add -1",
    "~x add 1", "y park", "x pass $", "x available", "~y add 3",
    "x take 0 60000", "y available",
]


# ------------------------------------------------------------------ latches

class Latch(InteropTest):
    """Who counts down is the "holder"."""

    def set(self, count, name=None):
        self.assert_answers(
            ("yes", self.holder, "h", "set", name or self.name, count))

    def wait_for_zero(self, actor, thread, name=None):
        return self.park(actor, thread, name or self.name, "await", (SOON,))

    def test_1_wakes_waiter(self):
        """woken by the other side, which counts to zero"""
        took = []
        for name in NAMES:
            with self.subTest(name=name):
                self.set(2, name)
                waiting = self.wait_for_zero(self.waiter, "w", name)
                self.assert_answers(("yes", self.holder, "h", "down", name, 1),
                                    ("1", self.waiter, "c", "count", name))
                self.assertFalse(waiting.done())
                left = now()
                self.assert_answers(("yes", self.holder, "h", "down", name, 1))
                took.append(self.assert_handed_over(left, waiting.result()))
                self.assert_nothing_left()
        self.note(f"{max(took):.0f} ms")

    def test_2_gives_up(self):
        """a wait that ends before the count does"""
        self.set(1)
        before = self.state()
        self.assert_answers(("no", self.waiter, "w", "await", self.name, 0),
                            ("no", self.waiter, "w", "await", self.name, 200))
        self.assertEqual(self.state(), before)
        self.wait_until_holdfast_is_deaf()

    def test_3_agree(self):
        """queries agree"""
        name = self.name
        both = ((self.holder, "h"), (self.waiter, "w"))
        self.assert_answers(("yes", self.waiter, "w", "await", name, SOON))
        self.set(2)
        for count in (2, 1, 0):
            self.assert_answers(*((str(count), *who, "count", name)
                                  for who in both))
            if count:
                self.assert_answers(("no", self.waiter, "w", "set", name, 9))
            self.assert_answers(("yes", self.holder, "h", "down", name, 1))
        self.assert_nothing_left()
        self.assert_answers(("yes", self.waiter, "w", "set", name, 1),
                            ("1", self.holder, "h", "count", name))

    def test_4_wakes_all(self):
        """all who wait go on, of both sides"""
        self.set(1)
        # Redisson's come last: holdfast's would find a subscription.
        waits = [self.wait_for_zero(self.c, "w"),
                 self.wait_for_zero_of_java("w1"),
                 self.wait_for_zero_of_java("w2")]
        left = now()
        self.assert_answers(("yes", self.holder, "h", "down", self.name, 1))
        took = [self.assert_handed_over(left, wait.result()) for wait in waits]
        self.note(f"{max(took):.0f} ms")

    def wait_for_zero_of_java(self, thread):
        tries = self.tries(self.name)
        waiting = self.order(self.java, thread, "await", self.name, SOON)
        self.wait_for_tries(self.name, tries + 2, waiting)
        return waiting

    def test_5_deleted(self):
        """woken by the other side, which deletes it"""
        self.set(1)
        waiting = self.wait_for_zero(self.waiter, "w")
        left = now()
        self.assert_answers(("yes", self.holder, "h", "delete", self.name),
                            ("no", self.holder, "h", "delete", self.name))
        self.note(f"{self.assert_handed_over(left, waiting.result()):.0f} ms")


class LatchLoad(InteropTest):
    KIND = "latch"

    def test_load(self):
        """counted down by both sides at once, to zero exactly"""
        number, threads = rounds(100), 3
        self.assert_answers(("yes", self.c, "main", "set", self.name,
                             2 * threads * number + 1))
        who = [(actor, f"load{i}") for actor in (self.java, self.c)
               for i in range(threads)]
        waits = [self.order(actor, "await", "await", self.name, -1)
                 for actor in (self.java, self.c)]
        downs = [self.order(actor, thread, "down", self.name, number)
                 for actor, thread in who]
        for down in downs:
            self.assertEqual(down.result().text, "yes")
        self.assert_answers(("1", self.c, "main", "count", self.name))
        self.assertFalse(any(wait.done() for wait in waits))
        self.assert_answers(("yes", self.java, "main", "down", self.name, 1))
        for wait in waits:
            self.assertEqual(wait.result().text, "yes")
        self.assert_nothing_left()


STEPS_LATCH = [
    "x count", "y down 1", "x set 2", "y set 3", "x await 0", "y down 1",
    "y count", "x park", "y pass 1", "x count", "x await 50", "x down 1",
    "x set 1", "y await 50", "~y delete", "y delete", "y set 1", "x down 1",
]


CASES = [
    *both_roles(Semaphore, KIND="semaphore"), SemaphoreLoad,
    *keyspaces(KIND="semaphore", STEPS=STEPS_SEMAPHORE,
               PARK=("take", (1, SOON)), PASS="give"),
    *both_roles(Permits, KIND="permit"), PermitIds, PermitLoad,
    *keyspaces(KIND="permit", STEPS=STEPS_PERMIT,
               PARK=("take", (SOON, LONG)), PASS="give"),
    *both_roles(Latch, KIND="latch"), LatchLoad,
    *keyspaces(KIND="latch", STEPS=STEPS_LATCH,
               PARK=("await", (SOON,)), PASS="down"),
]
