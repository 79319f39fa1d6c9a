"""What the scenarios have in common: orders to either side, waiters that are
parked, loads, plays that compare keyspaces, and the two long stories."""

import concurrent.futures
import contextlib
import itertools
import os
import re
import unittest

from world import LIMIT, SHORT_WATCHDOG, Ear, Pending, now, wait_until

# The channel of the first and the last has braces that the name has not.
NAMES = ["order:42", "{shop}:order", "half{open", "bücher"]
OWNER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}"
                   r"-[0-9a-f]{12}:[1-9][0-9]*")
PERMIT = re.compile(r"[0-9a-f]{32}")  # as on the API
LONG = 60_000  # milliseconds: a lease that nobody waits for
SOON = 20_000  # much sooner than that, however busy the machine is
NEAR = 10_000  # how far two leases that should be the same may differ
SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE", "1"))

HOLDFAST = "holdfast"
REDISSON = "Redisson"
TOGETHER = "both"
ROLES = [HOLDFAST, REDISSON, TOGETHER]


def milliseconds(nanoseconds):
    return nanoseconds / 1e6


def rounds(number):
    return max(1, int(number * SCALE))


class InteropTest(unittest.TestCase):
    """KIND begins the names in orders; since SINCE Redisson has it. ROLE is
    the side that holds, or whatever the scenario says of it."""

    world = None  # set by run.py
    KIND = "lock"
    SINCE = (0,)
    ROLE = TOGETHER

    # Each attempt that fails runs it once.
    TRIES = {"fair": "script", "fair-once": "script", "simple": "set",
             "semaphore": "get", "permit": "get", "latch": "get"}

    def setUp(self):
        self.server = self.world.server
        self.server.command("FLUSHALL")
        self.java, self.c = self.world.java, self.world.c
        self.notes = []
        self.name = f"{type(self).__name__}.{self._testMethodName}"

    def note(self, text):
        """Stands beside the result in the table."""
        self.notes.append(text)

    def order(self, actor, thread, verb, name, *arguments):
        """To a thread of this test's own; the answer is to come."""
        if "@" not in name:
            name = f"{self.KIND}@{name}"
        return actor.order(f"{self.name}.{thread}", verb, name, *arguments)

    def ask(self, *order):
        return self.order(*order).result().text

    def assert_answers(self, *asked):
        """(expected, actor, thread, order...) one after the other."""
        for expected, *order in asked:
            self.assertEqual(self.ask(*order), expected, order[1:])

    def tries(self, name):
        kind = name.split("@")[0] if "@" in name else self.KIND
        return self.server.calls(self.TRIES.get(kind, "pttl"))

    def park(self, actor, thread, name, verb="acquire", words=(SOON, LONG)):
        """Orders an acquisition that has to wait, and has not the patience
        for a long lease's end. Returns when it has tried twice: before, and
        when it was sure to hear of a release. All that is left to it is to
        sleep."""
        self.wait_until_holdfast_is_deaf()
        tries = self.tries(name)
        waiting = self.order(actor, thread, verb, name, *words)
        self.wait_for_tries(name, tries + 2, waiting)
        if actor is self.java and name.startswith("read@"):
            # What a writer says wakes only those who sleep already.
            wait_until(lambda: waiting.done() or self.ask(
                actor, thread, "parked", name) == "yes", "it sleeps", LIMIT)
        return waiting

    def wait_for_tries(self, name, tries, waiting):
        """Until a waiter is parked, who has tried so often."""
        wait_until(lambda: waiting.done() or self.tries(name) >= tries,
                   "the waiter is parked", LIMIT)
        self.assertFalse(waiting.done(), "it got what another holds")

    def wait_until_holdfast_is_deaf(self):
        """With a subscription at hand it would try only once."""
        wait_until(lambda: not self.server.holdfast_listens(),
                   "holdfast ends its subscriptions", LIMIT)

    def assert_handed_over(self, left, answer):
        """Who waited has got it: after the holder had left, and soon."""
        self.assertNotEqual(answer.text, "no", "it waited in vain")
        took = milliseconds(answer.end - left)
        self.assertGreater(took, 0, "two had it at the same time")
        self.assertLess(took, SOON)
        return took

    def state(self):
        """The keyspace but for the times."""
        return [key[:3] for key in self.server.keyspace()]

    def assert_state_soon(self, expected):
        """For what a waiter leaves may go in the background."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.state() == expected, "as before", 10)
        self.assertEqual(self.state(), expected)

    def assert_nothing_left(self):
        """But what goes on in the background."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.state(), "nothing is left", 10)
        self.assertEqual(self.server.keyspace(), [])

    # ---- loads

    def load(self, contenders, number):
        """(actor, thread, name) take and leave so often each. Returns the
        stays, by their beginning: enter, leave, token, name, by Java."""
        counter = self.world.folder / "counter"
        counter.write_bytes(bytes(8))
        ledgers = [self.world.folder / f"ledger{i}"
                   for i in range(len(contenders))]
        loads = [self.order(actor, thread, "load", name, number, counter,
                            ledger)
                 for (actor, thread, name), ledger in zip(contenders, ledgers)]
        for load in loads:
            self.assertEqual(load.result(5 * LIMIT).text, str(number))
        self.counted = int.from_bytes(counter.read_bytes(), "big")
        stays = []
        for (actor, _, name), ledger in zip(contenders, ledgers):
            for line in ledger.read_text().splitlines():
                enter, leave, token = line.split()
                stays.append((int(enter), int(leave), token, name,
                              actor is self.java))
        self.assertEqual(len(stays), number * len(contenders))
        return sorted(stays)

    def contenders(self, name, threads, processes=0):
        """So many threads of each side, and processes of holdfast."""
        found = [(actor, f"load{i}", name) for i in range(threads)
                 for actor in (self.java, self.c)]
        for _ in range(processes):
            other = self.world.start_c()
            other.version()
            found.append((other, "load", name))
        return found

    def assert_exclusive(self, stays):
        """Nobody came before the other had left; both sides were at it."""
        for one, next_one in itertools.pairwise(stays):
            self.assertLess(one[1], next_one[0], "two had it at once")
        crossings = sum(one[4] != next_one[4]
                        for one, next_one in itertools.pairwise(stays))
        self.note(f"{crossings} crossings")
        self.assertGreater(crossings, 0, "the sides were not at it together")


class HoldfastHolds(InteropTest):
    ROLE = HOLDFAST

    def setUp(self):
        super().setUp()
        self.holder, self.waiter = self.c, self.java


class RedissonHolds(InteropTest):
    ROLE = REDISSON

    def setUp(self):
        super().setUp()
        self.holder, self.waiter = self.java, self.c


def both_roles(scenarios, **attributes):
    """The cases of a class of scenarios: each side as the holder."""
    title = attributes.get("KIND", "").replace("-", " ").title().replace(
        " ", "")
    return [type(f"{title}{role.__name__}", (scenarios, role), attributes)
            for role in (HoldfastHolds, RedissonHolds)]


# --------------------------------------------------------------- the stories

# Those that a holder renews until it is killed: kind, what the other side
# waits for, since which version of Redisson.
RENEWED = {"lock": ("lock", (0,)), "once": ("once", (4, 4)),
           "fair": ("fair", (0,)), "fair-once": ("fair-once", (4, 4)),
           "write": ("write", (0,)), "read": ("write", (0,)),
           "fenced": ("fenced", (3, 19)), "permit": ("permit", (0,)),
           "multi": ("multi", (0,)), "spin": ("spin", (0,)), "simple": ("simple", (0,))}
# What Java takes for a fixed time, for it renews none of them.
FIXED = ("permit", "simple")


class Story:
    """One for all kinds and both roles, for it takes its time: locks that are
    held by the processes with the short watchdog."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.roles = {HOLDFAST: (world.c_short, world.java),
                      REDISSON: (world.java_short, world.c)}

    def cast(self):
        """role, holder, waiter, kind"""
        for kind, (_, since) in RENEWED.items():
            for role, (holder, waiter) in self.roles.items():
                if self.world.version >= since:
                    yield role, holder, waiter, kind

    def at(self, role, kind, wanted=None):
        name = f"{self.name}:{role}:{kind}"
        if kind == "multi":
            name += f"+{name}:2"
        return f"{wanted or kind}@{name}"

    def thread(self, role, kind):
        return f"{self.name}.{role}.{kind}"

    def make(self, role, waiter, kind):
        if kind == "permit":
            answer = waiter.ask(self.thread(role, kind), "set",
                                self.at(role, kind), 1)
            assert answer == "yes"

    def is_held(self, role, kind):
        key = self.at(role, kind).split("@")[1].split("+")[0]
        if kind == "permit":
            return self.world.server.command("GET", key) == "0"
        return self.world.server.lock_exists(key)

    def wait_for(self, role, waiter, kind):
        """The other side's acquisition, to come."""
        verb = "take" if kind == "permit" else "acquire"
        return waiter.order(self.thread(role, kind), verb,
                            self.at(role, kind, RENEWED[kind][0]),
                            LIMIT * 1000, LONG)


class WatchdogStory(Story):
    """Holds for more than three leases; the hold and the wait, by role and
    kind."""

    def tell(self):
        orders = {}
        for role, holder, waiter, kind in self.cast():
            if kind in FIXED and role == REDISSON:
                continue
            self.make(role, waiter, kind)
            hold = holder.order(self.thread(role, kind), "hold",
                                self.at(role, kind), 0,
                                3 * SHORT_WATCHDOG + SHORT_WATCHDOG // 5)
            wait_until(lambda hold=hold, role=role, kind=kind: hold.done()
                       or self.is_held(role, kind), "it is held", LIMIT)
            orders[role, kind] = hold, self.wait_for(role, waiter, kind)
        return orders


class KillStory(Story):
    """SIGKILL of both holders; when it was, and the waits."""

    def cast(self):
        for part in super().cast():
            # When its estimate of a lease's end has passed, a waiter of theirs
            # sleeps for as long as it has patience.
            if (part[0], part[3]) != (HOLDFAST, "fair") or (
                    self.world.version >= (3, 32)):
                yield part

    def tell(self):
        waits = {}
        for role, holder, waiter, kind in self.cast():
            self.make(role, waiter, kind)
            self.take(role, holder, kind)
            waits[role, kind] = self.wait_for(role, waiter, kind)
        readers = {role: self.share(role, *pair)
                   for role, pair in self.roles.items()}
        queues = {role: self.queue(role, *pair)
                  for role, pair in self.roles.items()}
        killed = now()
        for holder, _ in self.roles.values():
            holder.kill()
        told = {}
        for role in self.roles:
            told[role, "reader"] = self.end_share(role, readers[role])
            told[role, "waiter"] = queues[role]()
        told.update((key, (killed, wait)) for key, wait in waits.items())
        return told

    def take(self, role, holder, kind):
        thread, name = self.thread(role, kind), self.at(role, kind)
        lease = SHORT_WATCHDOG if kind in FIXED and role == REDISSON else 0
        verb = "take" if kind == "permit" else "acquire"
        wait = SOON if kind == "multi" else 0
        answer = holder.ask(thread, verb, name, wait, lease)
        assert answer not in ("no", "own"), (name, answer)

    def share(self, role, holder, waiter):
        """A reader that will die beside one that lives, and a writer that
        waits."""
        name = f"{self.name}:{role}:share"
        assert holder.ask("dying", "acquire", "read@" + name, 0, 0) == "yes"
        assert waiter.ask("living", "acquire", "read@" + name, 0,
                          LONG) == "yes"
        return waiter.order(self.thread(role, "share"), "acquire",
                            "write@" + name, LIMIT * 1000, LONG)

    def end_share(self, role, writer):
        """Left and answer: the living reader leaves when the dead one's hold
        has ended."""
        name = f"{self.name}:{role}:share"
        _, waiter = self.roles[role]
        wait_until(lambda: len(self.world.server.command(
            "KEYS", f"{{{name}}}*rwlock_timeout*")) == 1,
            "the dead reader's hold has ended", LIMIT)
        assert not writer.done()
        left = now()
        assert waiter.ask("living", "release", "read@" + name) == "yes"
        return left, writer

    def queue(self, role, holder, waiter):
        """A waiter that will die at the head of a fair lock's queue, and one
        of the other side behind it."""
        name = f"{self.name}:{role}:queue"
        fair, queue = "fair@" + name, f"redisson_lock_queue:{{{name}}}"
        assert waiter.ask("first", "acquire", fair, 0, 4_000) == "yes"

        def queued(actor, wait):
            length = self.world.server.command("LLEN", queue)
            order = actor.order(self.thread(role, "queue"), "acquire", fair,
                                wait, LONG)
            wait_until(lambda: order.done() or self.world.server.command(
                "LLEN", queue) > length, "it is in the queue", LIMIT)
            return order

        queued(holder, 2_000)
        behind = queued(waiter, LIMIT * 1000)

        def end():
            left = now()
            waiter.ask("first", "release", fair)
            return left, behind
        return end


def story(world, kind):
    """What it told; told once, even if it ended badly."""
    if kind not in world.told:
        try:
            told = kind(world, kind.__name__).tell()
            # Whatever came of them, they are over before another test begins.
            concurrent.futures.wait(
                [part for both in told.values() for part in both
                 if isinstance(part, Pending)], LIMIT)
            world.told[kind] = told
        except AssertionError as problem:
            world.told[kind] = problem
    if isinstance(world.told[kind], AssertionError):
        raise world.told[kind]
    return world.told[kind]


# -------------------------------------------------------------- the keyspace

class Play:
    """Plays steps with two owners, x and y, of which each may be either
    side's, and notes what each step leaves.

    A step is WHO VERB ARGUMENT..., where the verb may name another kind,
    "read.try". "park" orders an acquisition that waits, "pass" is a release
    that ends that wait; "age" lets the lease shrink; "make" makes a new handle,
    for until 3.27.2 those of Redisson use the last lease again where none is
    given. An argument "$" is what the last "take" of the same owner
    answered."""

    def __init__(self, test, name, x, y):
        self.test = test
        self.name = name
        self.actors = {"x": x, "y": y}
        self.owners = {}
        self.ids = {}
        self.taken = {}
        self.waiting = None

    def run(self, steps):
        """Of each step: answer, keyspace and messages."""
        server = self.test.server
        server.command("FLUSHALL")
        with contextlib.closing(Ear(server)) as ear:
            return [(self.step(*step.lstrip("~").split()), self.keyspace(),
                     self.messages(ear)) for step in steps]

    def step(self, who, *words):
        if who == "age":
            return self.test.server.command("PEXPIRE", self.name, words[0])
        actor = self.actors[who]
        kind, _, verb = words[0].rpartition(".")
        name = f"{kind}@{self.name}" if kind else self.name
        arguments = [self.taken[who] if word == "$" else word
                     for word in words[1:]]
        if verb == "park":
            self.waiting = self.test.park(actor, who, name,
                                          *self.test.PARK)
            return "parked"
        if verb == "pass":
            verb = self.test.PASS
            released = self.test.ask(actor, who, verb, name, *arguments)
            return released, self.calm(self.waiting.result().text)
        answer = self.test.ask(actor, who, verb, name, *arguments)
        if verb == "take":
            self.taken[who] = answer
        return self.calm(answer)

    def calm(self, answer):
        """Without the ids of permits, and without tokens."""
        if self.test.KIND == "fenced" and answer.isdecimal():
            answer = re.sub("[1-9][0-9]*", "token", answer)
        return "id" if PERMIT.fullmatch(answer) else answer

    def keyspace(self):
        """Owners and ids by the order of their coming."""
        return sorted((self.owner(name), kind, self.content(kind, content),
                       times)
                      for name, kind, content, times
                      in self.test.server.keyspace())

    def content(self, kind, content):
        if kind == "hash":
            return sorted((self.owner(field), value)
                          for field, value in content)
        if kind == "string":
            if self.test.KIND == "fenced":
                return self.calm(content)
            simple = OWNER.fullmatch(content + ":1")  # without a thread
            return self.owner(content + ":1" if simple else content)
        members = [self.owner(member) for member in content]
        return sorted(members) if kind == "zset" else members

    def messages(self, ear):
        return [(self.owner(channel), payload)
                for channel, payload in ear.heard()]

    def owner(self, text):
        # An id may happen to be of printable bytes alone.
        raw = len(text) == 16 and (self.test.KIND == "permit"
                                   or not text.isprintable())
        if raw or PERMIT.fullmatch(text):
            return self.ids.setdefault(text, f"id {len(self.ids) + 1}")
        return OWNER.sub(lambda found: self.owners.setdefault(
            found[0], f"owner {len(self.owners) + 1}"), text)


class Keyspace(InteropTest):
    """Compares what each step leaves with what Redisson alone leaves: by
    either side as x, and by holdfast alone. A step that begins with "~" may
    differ in times and messages, one with "~~" in everything."""

    STEPS = []
    PARK = ()
    PASS = "release"
    NAMES = NAMES[2:]

    def redisson_alone(self, name):
        """What Redisson leaves if both owners are its; played once."""
        key = self.KIND, name
        if key not in self.world.played:
            self.world.played[key] = Play(
                self, name, self.java, self.java).run(self.STEPS)
        return self.world.played[key]

    def compare(self, x, y):
        for name in self.NAMES:
            with self.subTest(name=name):
                theirs = self.redisson_alone(name)
                ours = Play(self, name, x, y).run(self.STEPS)
                for number, (step, our, their) in enumerate(
                        zip(self.STEPS, ours, theirs), 1):
                    self.compare_step(f"step {number}, {step}", step, our,
                                      their)

    def compare_step(self, title, step, our, their):
        if step.startswith("~~"):
            return
        self.assertEqual(our[0], their[0], title)
        self.assertEqual([key[:3] for key in our[1]],
                         [key[:3] for key in their[1]], title)
        if step.startswith("~"):
            return
        self.assertEqual(our[2], their[2], title)
        for our_key, their_key in zip(our[1], their[1]):
            self.compare_times(title, our_key, their_key)

    def compare_times(self, title, our_key, their_key):
        self.assertEqual(len(our_key[3]), len(their_key[3]), title)
        for our, their in zip(our_key[3], their_key[3]):
            if their < 0 or abs(their) > 1e9:  # no end
                self.assertEqual(our, their, (title, our_key[0]))
            else:
                self.assertGreater(our, 0, (title, our_key[0]))
                self.assertAlmostEqual(our, their, delta=NEAR,
                                       msg=(title, our_key[0]))

    def test_keyspace_1(self):
        """keyspace and messages as Redisson alone leaves them"""
        self.compare(self.holder, self.waiter)


def keyspaces(**attributes):
    """The cases: each side as x, and holdfast alone."""
    class Alone(Keyspace):
        ROLE = TOGETHER

        def setUp(self):
            super().setUp()
            self.holder = self.waiter = self.c

    title = attributes.get("TITLE", attributes["KIND"].title())
    return [type(f"{title}Keys{role.__name__}", (Keyspace, role), attributes)
            for role in (HoldfastHolds, RedissonHolds)] + [
        type(f"{title}KeysAlone", (Alone,), attributes)]
