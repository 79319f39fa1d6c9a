"""Scenarios that all kinds of locks have in common, and those of some."""

from scenarios import (LONG, NAMES, NEAR, SOON, HoldfastHolds, InteropTest,
                       KillStory, WatchdogStory, both_roles, keyspaces,
                       milliseconds, rounds, story)
from world import DEFAULT_WATCHDOG, SHORT_WATCHDOG, now


class Exclusive(InteropTest):
    """Scenarios of all kinds that one owner has, with a holder and a waiter, of
    which one is Redisson and the other holdfast."""

    NAMES = NAMES[2:]
    # Redisson lets anyone release one that is free.
    FREE_FOR_ALL = False

    def test_01_wakes_waiter(self):
        """woken by the other side's release"""
        took = []
        for name in self.NAMES:
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
        before = self.state()
        self.assert_answers(
            ("no", self.waiter, "w", "try", name),
            ("no", self.waiter, "w", "acquire", name, 200, LONG))
        self.assert_state_soon(before)
        self.wait_until_holdfast_is_deaf()

    def assert_remaining(self, expected, name):
        """Both sides, and the server, see about that many milliseconds."""
        seen = [int(self.ask(self.holder, "h", "remaining", name)),
                int(self.ask(self.waiter, "w", "remaining", name)),
                self.server.command("PTTL", name)]
        for remaining in seen:
            self.assertLessEqual(remaining, expected, seen)
            self.assertGreater(remaining, expected - NEAR, seen)

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
        self.assertEqual(
            [value for value in values if value != "write"],
            [str(count)] if count else [])

    def test_03_agree(self):
        """queries agree"""
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", self.name, 0, LONG))
        self.assert_count(1)
        self.assert_remaining(LONG, self.name)
        self.assert_answers(("yes", self.holder, "h", "release", self.name))
        self.assert_count(0)

    def test_05_refuses_release(self):
        """release by a non-holder refused"""
        name = self.name
        strangers = [(self.waiter, "w"), (self.holder, "other")]
        for actor, thread in strangers:
            if not (self.FREE_FOR_ALL and actor is self.java):
                self.assert_answers(
                    ("refused", actor, thread, "release", name))
        self.assertEqual(self.server.keyspace(), [])
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", name, 0, LONG))
        before = self.state()
        for actor, thread in strangers:
            self.assert_answers(("refused", actor, thread, "release", name))
            self.assertEqual(self.state(), before)
            self.assert_remaining(LONG, name)
        self.assert_answers(("yes", self.holder, "h", "release", name))

    def test_06_forced_by_waiters_side(self):
        """forced by the waiter's side"""
        self.force(self.waiter)

    def test_07_forced_by_holders_side(self):
        """forced by the holder's side"""
        self.force(self.holder)

    def force(self, by, holds=1):
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
        before = self.state()
        self.assert_answers(("refused", self.holder, "h", "release", name),
                            ("no", self.holder, "h", "held", name))
        self.assertEqual(self.state(), before)
        self.assert_answers(("yes", self.waiter, "w", "release", name))

    def test_08_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        assert_watched(self)

    def test_09_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


def assert_watched(test):
    held, waited = story(test.world, WatchdogStory)[test.ROLE, test.KIND]
    enter, leave, released = held.result().text.split()
    test.assertEqual(released, "yes")
    test.assertGreater(milliseconds(int(leave) - int(enter)),
                       3 * SHORT_WATCHDOG)
    took = test.assert_handed_over(int(leave), waited.result())
    test.note(f"{took:.0f} ms")


def after_kill(test, what):
    watched = story(test.world, WatchdogStory)  # it needs those who are killed
    for orders in watched.values():
        for order in orders:
            order.result()
    return story(test.world, KillStory)[test.ROLE, what]


def assert_passed_on(test):
    killed, waited = after_kill(test, test.KIND)
    took = test.assert_handed_over(killed, waited.result())
    test.assertLess(took, SHORT_WATCHDOG + NEAR)
    test.note(f"{took:.0f} ms")


class Reentrant(Exclusive):
    """What is told of the hold count."""

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
        if not (self.FREE_FOR_ALL and self.holder is self.java):
            self.assert_answers(
                ("refused", self.holder, "h", "release", name))
        self.assert_answers(("yes", self.waiter, "w", "try", name),
                            ("yes", self.waiter, "w", "release", name))

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

    def test_10_forced_twice(self):
        """forced when it is held twice"""
        for by in (self.waiter, self.holder):
            self.force(by, 2)


class Once(Exclusive):
    """What is told of a lock that its owner cannot have twice."""

    def test_10_refused(self):
        """its owner cannot have it twice"""
        name = self.name
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", name, 0, LONG))
        before = self.state()
        self.assert_answers(
            ("own", self.holder, "h", "acquire", name, 0, LONG),
            ("own", self.holder, "h", "acquire", name, 500, LONG),
            ("own", self.holder, "h", "try", name))
        self.assertEqual(self.state(), before)
        self.assert_count(1)
        self.assert_answers(("yes", self.holder, "h", "release", name),
                            ("yes", self.waiter, "w", "try", name),
                            ("yes", self.waiter, "w", "release", name))


# Two owners, x and y; see scenarios.Play.
STEPS = [
    "y locked", "x acquire 0 60000", "x acquire 0 60000", "y try", "y release",
    "y count", "y locked", "age 20000", "x release", "y acquire 50 60000",
    "x release",
    "x make", "x try", "x try", "y try", "age 10000", "x release", "x release",
    "x acquire -1 60000", "y park", "x pass", "x try", "y release",
    "y make", "y acquire -1 0", "x park", "y pass", "y force", "y locked",
    "x force",
]
REFUSED = ["x release", *STEPS, "x release"]
STEPS_ONCE = [
    "y locked", "x acquire 0 60000", "x acquire 0 60000", "x try", "y try",
    "y release", "y count", "age 20000", "y acquire 50 60000", "x release",
    "x acquire -1 60000", "y park", "x pass", "x try",
    "y release", "y make", "y acquire -1 0", "x park", "y pass", "y force",
    "y locked", "x force",
]


class Load(InteropTest):
    """All at once."""

    ROUNDS, THREADS, PROCESSES = 150, 2, 1

    def test_exclusion(self):
        """mutual exclusion under load"""
        number = rounds(self.ROUNDS)
        who = self.contenders(self.name, self.THREADS, self.PROCESSES)
        stays = self.load(who, number)
        self.assertEqual(self.counted, number * len(who))
        self.assert_exclusive(stays)
        self.assert_keys_left()
        return stays

    def assert_keys_left(self):
        self.assert_nothing_left()


# ------------------------------------------------------------ reentrant, once

class LockLoad(Load):
    KIND, ROUNDS, THREADS, PROCESSES = "lock", 1000, 4, 2


class OnceLoad(Load):
    KIND, SINCE = "once", (4, 4)


# -------------------------------------------------------------------- spin

class SpinLoad(Load):
    KIND, ROUNDS = "spin", 60


# ------------------------------------------------------------------ fenced

class Fenced(Reentrant):
    """And its tokens."""

    def setUp(self):
        super().setUp()
        self.counter = f"redisson_lock_token:{{{self.name}}}"

    def state(self):
        """The counter is above all holds."""
        return [key for key in super().state() if key[1] == "hash"]

    def assert_nothing_left(self):
        self.assertEqual(self.state(), [])

    def test_11_tokens(self):
        """the tokens of both rise in turn"""
        tokens = []
        for _ in range(5):
            for actor in (self.holder, self.waiter):
                first, second = [int(self.ask(actor, "h", "take", self.name,
                                              0, LONG)) for _ in range(2)]
                # A hold more is a token more, or the token of the first.
                self.assertEqual(second - first, actor is self.java)
                tokens += [first] if first == second else [first, second]
                self.assertEqual(self.server.command("GET", self.counter),
                                 str(second))
                self.assert_answers(("yes", actor, "h", "release", self.name),
                                    ("yes", actor, "h", "release", self.name))
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_12_token_of_waiter(self):
        """a waiter gets a larger token"""
        first = int(self.ask(self.holder, "h", "take", self.name, 0, LONG))
        waiting = self.park(self.waiter, "w", self.name, "take")
        left = now()
        self.assert_answers(("yes", self.holder, "h", "release", self.name))
        answer = waiting.result()
        self.note(f"{self.assert_handed_over(left, answer):.0f} ms")
        self.assertGreater(int(answer.text), first)
        self.assert_answers(("yes", self.waiter, "w", "release", self.name))


class FencedLoad(Load):
    KIND, SINCE = "fenced", (3, 19)

    def test_exclusion(self):
        """mutual exclusion under load, and tokens that rise"""
        stays = super().test_exclusion()
        tokens = [int(stay[2]) for stay in stays]
        self.assertEqual(tokens, sorted(set(tokens)))

    def assert_keys_left(self):
        self.assertEqual(
            [key[0] for key in self.server.keyspace()],
            [f"redisson_lock_token:{{{self.name}}}"])


STEPS_FENCED = [*STEPS, "x take 0 60000", "x take 0 60000", "y take 0 60000",
                "x release", "x release"]


# ------------------------------------------------------------------ simple

class Simple(InteropTest):
    """Beside Java programs that set the key themselves. Nothing is published:
    either side asks again and again."""

    def test_01_waits(self):
        """taken soon after the other side's release"""
        took = []
        for name in NAMES:
            self.assert_answers(
                ("yes", self.holder, "h", "acquire", name, 0, LONG))
            waiting = self.park(self.waiter, "w", name)
            left = now()
            self.assert_answers(("yes", self.holder, "h", "release", name))
            took.append(self.assert_handed_over(left, waiting.result()))
            self.assert_answers(("yes", self.waiter, "w", "release", name))
        self.note(f"{max(took):.0f} ms")
        self.assert_nothing_left()

    def test_02_gives_up(self):
        """a wait that ends without the lock"""
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", self.name, 0, LONG))
        before = self.state()
        self.assert_answers(
            ("no", self.waiter, "w", "try", self.name),
            ("no", self.waiter, "w", "acquire", self.name, 200, LONG),
            ("no", self.holder, "other", "try", self.name))
        self.assertEqual(self.state(), before)

    def test_03_refuses_release(self):
        """release by a non-holder refused"""
        strangers = [(self.waiter, "w"), (self.holder, "other")]
        for actor, thread in strangers:
            self.assert_answers(
                ("refused", actor, thread, "release", self.name),
                ("-1", actor, thread, "give", self.name, "whoever"))
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", self.name, 0, LONG))
        before = self.state()
        for actor, thread in strangers:
            self.assert_answers(
                ("refused", actor, thread, "release", self.name),
                ("0", actor, thread, "give", self.name, "whoever"))
            self.assertEqual(self.state(), before)
        self.assert_answers(("yes", self.holder, "h", "release", self.name))

    def test_04_hands_on(self):
        """released by the other side, which was told the owner"""
        self.assert_answers(
            ("yes", self.holder, "h", "acquire", self.name, 0, LONG))
        owner = self.server.command("GET", self.name)
        self.assert_answers(
            ("1", self.waiter, "w", "give", self.name, owner),
            ("refused", self.holder, "h", "release", self.name))
        self.assert_nothing_left()

    def test_09_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


class SimpleWatched(HoldfastHolds):
    """The Java side renews nothing."""

    KIND = "simple"

    def test_08_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        assert_watched(self)


class SimpleLoad(Load):
    KIND, ROUNDS = "simple", 60


STEPS_SIMPLE = [
    "x release", "x acquire 0 60000", "y try", "y release",
    "y acquire 50 60000", "x release", "y try", "x acquire 50 60000",
    "y release", "x acquire -1 60000", "y park", "x pass", "y release",
]


# -------------------------------------------------------------------- multi

class Multi(InteropTest):
    """Several locks as one, by either side, beside single ones."""

    def setUp(self):
        super().setUp()
        self.names = [f"{self.name}.{letter}" for letter in "abc"]
        self.all = "+".join(self.names)

    def take_all(self):
        """With patience: one of 3.15.6 has not all within no time."""
        self.assert_answers(
            ("yes", self.holder, "m", "acquire", self.all, SOON, LONG))

    def test_1_holds(self):
        """holds each of its locks, and a single one's waiter is woken"""
        self.take_all()
        if self.world.version >= (4,):  # 3.15.6 cannot be asked
            self.assert_answers(("yes", self.holder, "m", "held", self.all),
                                ("no", self.waiter, "m", "held", self.all))
        for name in self.names:
            self.assert_answers(
                ("yes", self.waiter, "h", "locked", f"lock@{name}"),
                ("no", self.waiter, "h", "try", f"lock@{name}"))
        self.assert_woken("w", f"lock@{self.names[-1]}", self.all)
        self.assert_nothing_left()

    def assert_woken(self, thread, wanted, held):
        """Who wants the one is woken by the other's release."""
        waiting = self.park(self.waiter, thread, wanted)
        left = now()
        self.assert_answers(
            ("yes", self.holder, "m", "release", held))
        self.note(f"{self.assert_handed_over(left, waiting.result()):.0f} ms")
        self.assert_answers(("yes", self.waiter, thread, "release", wanted))

    def test_2_all_or_none(self):
        """gets all or none, if the other side has one"""
        for name in self.names:
            name = f"lock@{name}"
            self.assert_answers(
                ("yes", self.holder, "h", "acquire", name, 0, LONG))
            before = self.state()
            self.assert_answers(
                ("no", self.waiter, "m", "acquire", self.all, 0, LONG),
                ("no", self.waiter, "m", "acquire", self.all, 200, LONG))
            self.assert_state_soon(before)
            self.assert_answers(("yes", self.holder, "h", "release", name))
        self.assert_nothing_left()

    def test_3_waits(self):
        """woken by the other side's release of the last of its locks"""
        name = f"lock@{self.names[-1]}"
        self.assert_answers(
            ("yes", self.holder, "m", "acquire", name, 0, LONG))
        self.assert_woken("m", self.all, name)
        self.assert_nothing_left()

    def test_4_waits_for_all(self):
        """woken by the other side's release of all"""
        self.take_all()
        self.assert_woken("w", self.all, self.all)
        self.assert_nothing_left()

    def test_8_watchdog(self):
        """the watchdog keeps the other out past three leases"""
        assert_watched(self)

    def test_9_killed(self):
        """the holder killed by SIGKILL, the lease passes on"""
        assert_passed_on(self)


class MultiLoad(Load):
    """Beside those who want a single one. Those of Redisson hold some while
    they wait for others, so that they take them in one order."""

    KIND, ROUNDS = "multi", 40

    def contenders(self, name, threads, processes=0):
        names = [f"{name}.{letter}" for letter in "abc"]
        forth, back = "+".join(names), "+".join(names[::-1])
        return [(self.java, "forth", f"multi@{forth}"),
                (self.java, "single", f"lock@{names[1]}"),
                (self.c, "forth", f"multi@{forth}"),
                (self.c, "back", f"multi@{back}"),
                (self.c, "single", f"lock@{names[1]}")]


CASES = [
    *both_roles(Reentrant, KIND="lock", NAMES=NAMES),
    *keyspaces(KIND="lock", STEPS=REFUSED, NAMES=NAMES), LockLoad,
    *both_roles(Once, KIND="once", SINCE=(4, 4)),
    *keyspaces(KIND="once", SINCE=(4, 4),
              STEPS=["x release", *STEPS_ONCE, "x release"]), OnceLoad,
    *both_roles(Reentrant, KIND="spin"),
    *keyspaces(KIND="spin", STEPS=REFUSED), SpinLoad,
    *both_roles(Fenced, KIND="fenced", SINCE=(3, 19)),
    *keyspaces(KIND="fenced", SINCE=(3, 19), STEPS=STEPS_FENCED), FencedLoad,
    *both_roles(Simple, KIND="simple"),
    SimpleWatched, *keyspaces(KIND="simple", STEPS=STEPS_SIMPLE), SimpleLoad,
    *both_roles(Multi, KIND="multi"), MultiLoad,
]
