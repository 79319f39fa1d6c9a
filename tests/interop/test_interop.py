"""The scenarios: holdfast beside the real Redisson. Run by run.py."""

import contextlib
import itertools
import os
import re
import unittest

from world import (DEFAULT_WATCHDOG, LIMIT, SHORT_WATCHDOG, Ear, now,
                   wait_until)

# The channel of the first and the last has braces that the name has not.
NAMES = ["order:42", "{shop}:order", "half{open", "bücher"]
OWNER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}"
                   r"-[0-9a-f]{12}:[1-9][0-9]*")
LONG = 60_000  # milliseconds: a lease that nobody waits for
SOON = 20_000  # much sooner than that, however busy the machine is
NEAR = 10_000  # how far two leases that should be the same may differ
SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE", "1"))

world = None  # set by run.py


def setUpModule():
    world.open()
    unittest.addModuleCleanup(world.close)


def milliseconds(nanoseconds):
    return nanoseconds / 1e6


class InteropTest(unittest.TestCase):
    ROLE = ""

    def setUp(self):
        self.server = world.server
        self.server.command("FLUSHALL")
        self.notes = []
        self.name = f"{type(self).__name__}.{self._testMethodName}"

    def note(self, text):
        """Stands beside the result in the table."""
        self.notes.append(text)

    def order(self, actor, thread, *order):
        """To a thread of this test's own; the answer is to come."""
        return actor.order(f"{self.name}.{thread}", *order)

    def ask(self, *order):
        return self.order(*order).result().text

    def assert_answers(self, *asked):
        """(expected, actor, thread, order...) one after the other."""
        for expected, *order in asked:
            self.assertEqual(self.ask(*order), expected, order[1:])

    def park(self, actor, thread, name):
        """Orders an acquisition that has to wait, and has not the patience
        for a long lease's end. Returns when it has tried twice: before, and
        when it was sure to hear of a release. All that is left to it is to
        sleep."""
        self.wait_until_holdfast_is_deaf()
        tries = self.server.tries()
        waiting = self.order(actor, thread, "acquire", name, SOON, LONG)
        wait_until(lambda: waiting.done() or self.server.tries() >= tries + 2,
                   "the waiter is parked", LIMIT)
        self.assertFalse(waiting.done(), "it got what another holds")
        return waiting

    def wait_until_holdfast_is_deaf(self):
        """With a subscription at hand it would try only once."""
        wait_until(lambda: not self.server.holdfast_listens(),
                   "holdfast ends its subscriptions", LIMIT)

    def assert_remaining(self, expected, name):
        """Both sides, and the server, see about that many milliseconds."""
        seen = [int(self.ask(self.holder, "h", "remaining", name)),
                int(self.ask(self.waiter, "w", "remaining", name)),
                self.server.command("PTTL", name)]
        for remaining in seen:
            self.assertLessEqual(remaining, expected, seen)
            self.assertGreater(remaining, expected - NEAR, seen)

    def assert_handed_over(self, left, answer):
        """Who waited has got it: after the holder had left, and soon."""
        self.assertEqual(answer.text, "yes", "it waited in vain")
        took = milliseconds(answer.end - left)
        self.assertGreater(took, 0, "two had it at the same time")
        self.assertLess(took, SOON)
        return took


class BothRoles(InteropTest):
    """Scenarios with a holder and a waiter, of which one is Redisson and the
    other holdfast."""

    def test_01_wakes_waiter(self):
        """woken by the other side's release"""
        took = []
        for name in NAMES:
            with self.subTest(name=name):
                took.append(self.wake(name))
        self.note(f"{max(took):.0f} ms")

    def wake(self, name):
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", name, 0, LONG))
        waiting = self.park(self.waiter, "w", name)
        left = now()
        self.assert_answers(("yes", self.holder, "h", "release", name))
        took = self.assert_handed_over(left, waiting.result())
        self.assert_answers(("yes", self.waiter, "w", "release", name),
                            ("no", self.holder, "h", "locked", name))
        return took

    def test_02_gives_up(self):
        """a wait that ends without the lock"""
        name = self.name
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", name, 0, LONG))
        before = self.server.keyspace()
        self.assert_answers(
            ("no", self.waiter, "w", "try", name),
            ("no", self.waiter, "w", "acquire", name, 300, LONG))
        self.assertEqual(self.server.keyspace()[0][:3], before[0][:3])
        self.wait_until_holdfast_is_deaf()

    def test_03_counts(self):
        """reentrancy counted alike"""
        name = self.name
        for count in range(1, 4):
            self.assert_answers(
                ("yes", self.holder, "h", "acquire", name, 0, LONG))
            self.assert_count(count)
        for count in range(2, -1, -1):
            self.assert_answers(("yes", self.holder, "h", "release", name))
            self.assert_count(count)
        self.assert_answers(("refused", self.holder, "h", "release", name),
                            ("yes", self.waiter, "w", "try", name),
                            ("yes", self.waiter, "w", "release", name))

    def assert_count(self, count):
        """Either side, and the server, sees the holder's count, and that
        nobody else has one."""
        name, locked = self.name, "yes" if count else "no"
        self.assert_answers(
            (str(count), self.holder, "h", "count", name),
            (locked, self.holder, "h", "held", name),
            (locked, self.holder, "other", "locked", name),
            ("0", self.holder, "other", "count", name),
            (locked, self.waiter, "w", "locked", name),
            ("no", self.waiter, "w", "held", name),
            ("0", self.waiter, "w", "count", name))
        if count:
            self.assert_answers(("no", self.waiter, "w", "try", name))
        values = self.server.command("HVALS", name)
        self.assertEqual(values, [str(count)] if count else [])

    def test_04_partial_release(self):
        """a partial release re-arms the lease"""
        for lease, expected in ((LONG, LONG), (0, DEFAULT_WATCHDOG)):
            with self.subTest(lease=lease):
                self.release_one_of_two(f"{self.name}.{lease}", lease, expected)

    def release_one_of_two(self, name, lease, expected):
        for _ in range(2):
            self.assert_answers(
                ("yes", self.holder, "h", "acquire", name, 0, lease))
        # As if most of the lease had passed.
        self.assertEqual(
            self.server.command("PEXPIRE", name, expected // 3), 1)
        self.assert_answers(("yes", self.holder, "h", "release", name))
        self.assert_remaining(expected, name)
        self.assert_answers(("no", self.waiter, "w", "try", name),
                            ("yes", self.holder, "h", "release", name),
                            ("-2", self.waiter, "w", "remaining", name),
                            ("-2", self.holder, "h", "remaining", name))

    def test_05_refuses_release(self):
        """release by a non-holder refused"""
        name = self.name
        strangers = [(self.waiter, "w"), (self.holder, "other")]
        for actor, thread in strangers:
            self.assert_answers(("refused", actor, thread, "release", name))
        self.assertEqual(self.server.keyspace(), [])
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", name, 0, LONG))
        before = self.server.keyspace()
        for actor, thread in strangers:
            self.assert_answers(("refused", actor, thread, "release", name))
            self.assertEqual(self.server.keyspace()[0][:3], before[0][:3])
            self.assert_remaining(LONG, name)
        self.assert_answers(("yes", self.holder, "h", "release", name))

    def test_06_forced_by_waiters_side(self):
        """forced by the waiter's side"""
        for holds in (1, 2):
            self.force(self.waiter, holds)

    def test_07_forced_by_holders_side(self):
        """forced by the holder's side"""
        for holds in (1, 2):
            self.force(self.holder, holds)

    def force(self, by, holds):
        name = self.name
        self.assert_answers(("no", by, "forcer", "force", name))
        for _ in range(holds):
            self.assert_answers(
                ("yes", self.holder, "h", "acquire", name, 0, LONG))
        waiting = self.park(self.waiter, "w", name)
        left = now()
        self.assert_answers(("yes", by, "forcer", "force", name))
        took = self.assert_handed_over(left, waiting.result())
        self.note(f"{took:.0f} ms")
        before = self.server.keyspace()
        self.assert_answers(("refused", self.holder, "h", "release", name),
                            ("no", self.holder, "h", "held", name))
        self.assertEqual(self.server.keyspace()[0][:3], before[0][:3])
        self.assert_answers(("yes", self.waiter, "w", "release", name))

    def test_08_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        held, waited = watchdog_story()[self.ROLE]
        enter, leave, released = held.text.split()
        self.assertEqual(released, "yes")
        self.assertGreater(milliseconds(int(leave) - int(enter)),
                           3 * SHORT_WATCHDOG)
        took = self.assert_handed_over(int(leave), waited)
        self.note(f"{took:.0f} ms")

    def test_09_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        name = self.name
        self.assert_answers(("yes", self.short_holder, "h", "try", name))
        waiting = self.park(self.waiter, "w", name)
        killed = now()
        self.short_holder.kill()
        took = self.assert_handed_over(killed, waiting.result())
        self.assertLess(took, SHORT_WATCHDOG + NEAR)
        self.note(f"{took:.0f} ms")
        self.assert_answers(("yes", self.waiter, "w", "release", name))

    def test_10_keyspace(self):
        """keyspace and messages as Redisson alone leaves them"""
        compare_keyspace(self, self.holder, self.waiter)


class HoldfastHolds(BothRoles):
    ROLE = "holdfast holds"

    def setUp(self):
        super().setUp()
        self.holder, self.waiter = world.c, world.java
        self.short_holder = world.c_short


class RedissonHolds(BothRoles):
    ROLE = "Redisson holds"

    def setUp(self):
        super().setUp()
        self.holder, self.waiter = world.java, world.c
        self.short_holder = world.java_short


def watchdog_story():
    """The answers to the hold and to the wait for it, of each role; both roles
    at once, for it takes its time."""
    if not world.watchdog:
        orders = {}
        for role, holder, waiter in (
                (HoldfastHolds.ROLE, world.c_short, world.java),
                (RedissonHolds.ROLE, world.java_short, world.c)):
            name = "watchdog:" + role.split()[0]
            hold = holder.order("watched", "hold", name, 0,
                                3 * SHORT_WATCHDOG + SHORT_WATCHDOG // 5)
            wait_until(lambda name=name: world.server.lock_exists(name),
                       "it is held", LIMIT)
            wait = waiter.order("watching", "acquire", name, LIMIT * 1000, LONG)
            orders[role] = hold, wait
        world.watchdog = {
            role: [order.result() for order in both]
            for role, both in orders.items()}
    return world.watchdog


# -------------------------------------------------------------- the keyspace

# Two owners, x and y, of which each may be either side's. "park" orders an
# acquisition that waits, "pass" is a release that ends that wait; "age" lets
# the lease shrink; "make" makes a new handle, for until 3.27.2 those of
# Redisson use the last lease again where none is given.
STEPS = [
    "y locked", "x acquire 0 60000", "x acquire 0 60000", "y try", "y release",
    "y count", "y locked", "age 20000", "x release", "y acquire 50 60000",
    "x release", "x release",
    "x make", "x try", "x try", "y try", "age 10000", "x release", "x release",
    "x acquire -1 60000", "y park", "x pass", "x try", "y release",
    "y make", "y acquire -1 0", "x park", "y pass", "y force", "x release", "x force",
]


class Play:
    """Plays the steps with two owners, and notes what each step leaves."""

    def __init__(self, test, name, x, y):
        self.test = test
        self.name = name
        self.actors = {"x": x, "y": y}
        self.owners = {}
        self.waiting = None

    def run(self):
        """Of each step: answer, keyspace and messages."""
        world.server.command("FLUSHALL")
        with contextlib.closing(Ear(world.server)) as ear:
            return [(self.step(*step.split()), self.keyspace(), ear.heard())
                    for step in STEPS]

    def step(self, who, *words):
        if who == "age":
            return world.server.command("PEXPIRE", self.name, words[0])
        actor = self.actors[who]
        if words == ("park",):
            self.waiting = self.test.park(actor, who, self.name)
            return "parked"
        if words == ("pass",):
            released = self.test.ask(actor, who, "release", self.name)
            return released, self.waiting.result().text
        return self.test.ask(actor, who, words[0], self.name, *words[1:])

    def keyspace(self):
        """The owners by the order of their coming."""
        return [(name, kind, [(self.owner(field), value)
                              for field, value in content], left)
                for name, kind, content, left in world.server.keyspace()]

    def owner(self, field):
        if not OWNER.fullmatch(field):
            return field
        return self.owners.setdefault(field, f"owner {len(self.owners) + 1}")


def redisson_alone(test, name):
    """What Redisson leaves if both owners are its; played once."""
    if name not in world.played:
        world.played[name] = Play(test, name, world.java, world.java).run()
    return world.played[name]


def compare_keyspace(test, x, y):
    for name in NAMES:
        with test.subTest(name=name):
            ours = Play(test, name, x, y).run()
            theirs = redisson_alone(test, name)
            for number, (step, our, their) in enumerate(
                    zip(STEPS, ours, theirs), 1):
                compare_step(test, f"step {number}, {step}", our, their)


def compare_step(test, step, our, their):
    def timeless(result):
        answer, keys, messages = result
        return answer, [key[:3] for key in keys], messages

    test.assertEqual(timeless(our), timeless(their), step)
    for our_key, their_key in zip(our[1], their[1]):
        test.assertGreater(our_key[3], 0, step)
        test.assertAlmostEqual(our_key[3], their_key[3], delta=NEAR, msg=step)


# ----------------------------------------------------------------- together

class HoldfastAlone(InteropTest):
    ROLE = "holdfast alone"

    def test_keyspace(self):
        """keyspace and messages as Redisson alone leaves them"""
        compare_keyspace(self, world.c, world.c)


class Together(InteropTest):
    ROLE = "both at once"

    def test_exclusion(self):
        """mutual exclusion under load"""
        rounds = max(1, int(1000 * SCALE))
        contenders = [(world.java, f"load{i}") for i in range(4)]
        contenders += [(world.c, f"load{i}") for i in range(4)]
        for _ in range(2):
            other = world.start_c()
            other.version()
            contenders.append((other, "load"))
        counter = world.folder / "counter"
        counter.write_bytes(bytes(8))
        ledgers = [world.folder / f"ledger{i}" for i in range(len(contenders))]
        loads = [actor.order(thread, "load", self.name, rounds, counter, ledger)
                 for (actor, thread), ledger in zip(contenders, ledgers)]
        for load in loads:
            self.assertEqual(load.result(5 * LIMIT).text, str(rounds))

        total = rounds * len(contenders)
        self.assertEqual(int.from_bytes(counter.read_bytes(), "big"), total)
        stays = sorted((*map(int, line.split()), actor is world.java)
                       for (actor, _), ledger in zip(contenders, ledgers)
                       for line in ledger.read_text().splitlines())
        self.assertEqual(len(stays), total)
        for one, next_one in itertools.pairwise(stays):
            self.assertLess(one[1], next_one[0], "two had it at once")
        crossings = sum(one[2] != next_one[2]
                        for one, next_one in itertools.pairwise(stays))
        self.note(f"{crossings} crossings")
        self.assertGreater(crossings, 0, "the sides were not at it together")
        wait_until(lambda: not self.server.keyspace(), "nothing is left")
