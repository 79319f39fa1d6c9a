"""Fair locks: all that locks have in common, and the queue."""

from scenarios import (LONG, NEAR, HoldfastHolds, InteropTest, RedissonHolds,
                       both_roles, keyspaces)
from test_locks import (STEPS, STEPS_ONCE, Load, Once, Reentrant, after_kill,
                        assert_passed_on)
from world import LIMIT, now, wait_until

FAIR_WAIT = 300_000  # milliseconds a waiter without an end is believed to live


class Queue(InteropTest):
    """Who comes first is served first."""

    def setUp(self):
        super().setUp()
        self.queue = f"redisson_lock_queue:{{{self.name}}}"
        self.timeouts = f"redisson_lock_timeout:{{{self.name}}}"

    def length(self):
        return self.server.command("LLEN", self.queue)

    def enter(self, actor, thread, verb="hold", words=(LONG, 0)):
        """An order that has to wait, of which the others know."""
        length = self.length()
        waiting = self.order(actor, thread, verb, self.name, *words)
        wait_until(lambda: waiting.done() or self.length() == length + 1,
                   "it is in the queue", LIMIT)
        self.assertFalse(waiting.done(), "it got what another holds")
        return waiting

    def hold(self):
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", self.name, 0, LONG))

    def release_and_assert_order(self, waits):
        """Each of them leaves before the next one enters."""
        left = now()
        self.assert_answers(("yes", self.holder, "h", "release", self.name))
        for wait in waits:
            enter, leave, released = wait.result().text.split()
            self.assertEqual(released, "yes")
            self.assertLess(left, int(enter), "out of turn")
            left = int(leave)
        self.assert_nothing_left()

    def test_20_order(self):
        """3 waiters of each side in turn, served in order of arrival"""
        self.hold()
        waits = [self.enter(actor, f"w{i}")
                 for i in range(3) for actor in (self.waiter, self.holder)]
        begun = now()
        self.release_and_assert_order(waits)
        self.note(f"{(now() - begun) / 1e6:.0f} ms")

    def test_21_gives_up(self):
        """one in the queue gives up, the others keep their order"""
        self.hold()
        waits = [self.enter(self.holder, "w1")]
        leaver = self.enter(self.waiter, "w2", "acquire", (400, LONG))
        waits += [self.enter(self.holder, "w3"), self.enter(self.waiter, "w4")]
        self.assertEqual(leaver.result().text, "no")
        wait_until(lambda: self.length() == 3, "it has left the queue", LIMIT)
        self.assertEqual(self.server.command("ZCARD", self.timeouts), 3)
        self.release_and_assert_order(waits)

    def test_22_head_gives_up(self):
        """the first in the queue gives up, the next one is served"""
        self.hold()
        leaver = self.enter(self.waiter, "w1", "acquire", (400, LONG))
        waits = [self.enter(self.holder, "w2"), self.enter(self.waiter, "w3")]
        self.assertEqual(leaver.result().text, "no")
        self.release_and_assert_order(waits)

    def test_23_no_overtaking(self):
        """who comes while others wait does not overtake them"""
        self.hold()
        waits = [self.enter(self.waiter, "w1", words=(LONG, 300)),
                 self.enter(self.holder, "w2")]
        self.assert_answers(("no", self.holder, "o", "try", self.name),
                            ("no", self.waiter, "o", "try", self.name))
        self.release_and_assert_order(waits)

    def test_24_clock(self):
        """time-outs in the queue count on by one clock"""
        self.hold()
        actors = (self.waiter, self.holder, self.waiter)
        waits = [self.enter(actor, f"w{i}") for i, actor in enumerate(actors)]
        times = {key[0]: key[3] for key in self.server.keyspace()}
        scores = times[self.timeouts][1:]
        self.assertEqual(len(scores), len(actors))
        for place, score in enumerate(scores, 1):
            self.assertAlmostEqual(score, LONG + place * FAIR_WAIT,
                                   delta=NEAR, msg=scores)
        self.release_and_assert_order(waits)

    def test_25_dead_waiter(self):
        """a dead first in the queue is passed over"""
        # Here the holder's side is who dies while it waits.
        left, waited = after_kill(self, "waiter")
        self.note(f"{self.assert_handed_over(left, waited.result()):.0f} ms")


class Fair(Queue, Reentrant):
    FREE_FOR_ALL = True
    test_09_killed = None


class FairKilledHoldfast(HoldfastHolds):
    KIND, SINCE = "fair", (3, 32)

    def test_09_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


class FairKilledRedisson(RedissonHolds):
    KIND = "fair"

    def test_09_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


class FairOnce(Queue, Once):
    FREE_FOR_ALL = True


class FairLoad(Load):
    KIND = "fair"


class FairOnceLoad(Load):
    KIND, SINCE = "fair-once", (4, 4)


CASES = [
    *both_roles(Fair, KIND="fair"), FairKilledHoldfast, FairKilledRedisson,
    *keyspaces(KIND="fair", STEPS=STEPS), FairLoad,
    *both_roles(FairOnce, KIND="fair-once", SINCE=(4, 4)),
    *keyspaces(KIND="fair-once", SINCE=(4, 4), STEPS=STEPS_ONCE),
    FairOnceLoad,
]
