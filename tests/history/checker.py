#!/usr/bin/env python3
"""Checks histories of a reentrant lock with leases.

    checker.py FILE...

Rules, for each lock:

exclusion   no two owners consider themselves holders at one moment
order       there is an order of acquisitions, releases, counts and forced
            releases, each within its time, in which each has the result that a
            reentrant lock of one owner gives. A lease may leave the lock by
            itself, but not before its holder's time is up
release     only who holds can release, and who holds can
sticky      a lost lease stays lost
loss        no lease is lost before its time, unless the lock was forced, or the
            server has forgotten it
notice      after a forced release, or a restart of the server, no lease from
            before is renewed any more
refusal     nobody is refused for longer than another may hold the lock, or than
            a restarted server is distrusted

A restart takes all that was held from the server, but not from the holders: who
was connected before is to wait until all of them are past their time. Only who
was not can know nothing of it, and may hold a lock beside one of them.

What had no answer, or an unclear one, may have happened, then or later, or not.
A violation is printed with the lines that it follows from."""

import bisect
import sys

from history import MS, NEVER, History

SHOWN = 60  # lines
# How long the server may remember what nobody holds any more: a lease that its
# holder has given up, an acquisition or a release of unclear outcome.
LAPSED = 3000 * MS
UNCLEAR = 5000 * MS
# How long it may take until a restart is noticed.
UNNOTICED = 3000 * MS


class Violation:
    """A broken rule and the lines that show it."""

    def __init__(self, rule, lock, text, lines):
        self.rule = rule
        self.lock = lock
        self.text = text
        self.lines = sorted(set(lines), key=lambda line: line.time)

    def __str__(self):
        first = self.lines[0].time if self.lines else 0
        told = [f"lock {self.lock}: {self.rule}: {self.text}"]
        for line in self.lines[-SHOWN:]:
            what = " ".join([line.what] + line.words)
            told.append(f"    {(line.time - first) / MS:10.3f} ms  owner"
                        f" {line.owner:<6} op {line.operation:<5} {what}")
        return "\n".join(told)


# ---------------------------------------------------------------- exclusion


def certain_end(lock, lease):
    """Until when the holder certainly considered itself one, with good reason:
    a forced release takes that away. The server's loss of memory does not, and
    leaves nothing that could be forced."""
    end = lease.claimed
    if lease.release is not None:
        end = lease.release.begin if lease.is_confirmed() else min(
            end, lease.release.begin)
    for force in lock.forces():
        if force.end >= lease.acquire.begin and not any(
                lease.acquire.end < restart.begin and restart.end < force.begin
                for restart in lock.restarts):
            end = min(end, force.begin)
    return end


def may_coexist(lock, older, newer):
    """Whether the newer one is of a process that knew nothing of the server
    that granted the older one."""
    return any(older.acquire.begin <= restart.end
               and newer.acquire.end >= restart.begin
               and lock.is_newcomer(newer, restart)
               for restart in lock.restarts)


def check_exclusion(lock):
    """By the holders' own words alone."""
    spans = [(lease.acquire.end, certain_end(lock, lease), lease)
             for lease in lock.leases.values()]
    latest = []  # of each owner, the lease that ends last
    for begin, end, lease in sorted(spans, key=lambda span: span[0]):
        if end <= begin:
            continue
        latest = [span for span in latest if span[0] > begin]
        for other_end, other in latest:
            if (other.owner != lease.owner
                    and not may_coexist(lock, other, lease)
                    and not may_coexist(lock, lease, other)):
                overlap = (min(end, other_end) - begin) / MS
                yield Violation(
                    "exclusion", lock.name,
                    f"{other.owner} and {lease.owner} both held for"
                    f" {overlap:.3f} ms", other.lines() + lease.lines())
        latest.append((end, lease))


# ------------------------------------------------------- release and losing


def check_releases(lock):
    for operation in lock.operations:
        if operation.kind != "release":
            continue
        if operation.result == "released" and (
                operation.lease is None
                or operation.lease.owner != operation.owner):
            yield Violation("release", lock.name,
                            f"{operation.owner} held nothing, and released",
                            operation.lines)
        elif operation.result == "notheld":
            yield from check_not_held(lock, operation)


def check_not_held(lock, operation):
    for lease in lock.leases.values():
        given_back = lease.release is not None or lease.ended
        if (lease.owner == operation.owner and not given_back
                and lease.acquire.end < operation.begin
                and lease.claimed > operation.end
                and not lock.may_be_forgotten(lease, operation.end)):
            yield Violation("release", lock.name,
                            f"{operation.owner} held, and could not release",
                            lease.lines() + operation.lines)


def check_sticky(lock):
    for lease in lock.leases.values():
        told = lease.known_lost()
        if not told:
            continue
        first = min(told, key=lambda line: line.time)
        again = [line for line in lease.held if line.time > first.time]
        if lease.is_confirmed() and lease.release.begin > first.time:
            again.append(lease.release.lines[1])
        if again:
            yield Violation("sticky", lock.name,
                            f"{lease.name} was lost, and then was not",
                            lease.lines() + [first, again[0]])


def check_losses(lock):
    forces = lock.forces()
    for lease in lock.leases.values():
        for line in lease.known_lost()[:1]:
            before = [held for held in lease.held if held.time <= line.time]
            claimed = max((held.time + int(held.words[1]) * MS
                           for held in before), default=0)
            forced = any(force.end >= lease.acquire.begin
                         and force.begin <= line.time for force in forces)
            if claimed > line.time and not forced \
                    and not lock.may_be_forgotten(lease, line.time):
                early = (claimed - line.time) / MS
                yield Violation("loss", lock.name,
                                f"{lease.name} was lost {early:.3f} ms early",
                                lease.lines() + before[-1:] + [line])


def check_notice(lock, longest):
    """A renewal that was sent after the forced release had returned, or after
    the restart, is one of a lock that is not held."""
    ends = [force for force in lock.forces() if force.result == "forced"]
    ends += [restart for restart in lock.restarts if restart.result]
    for lease in lock.leases.values():
        for end in ends:
            if lease.acquire.end < end.begin \
                    and lease.claimed - end.end > longest:
                yield Violation("notice", lock.name,
                                f"{lease.name} was renewed after a {end.kind}",
                                lease.lines() + end.lines)


# ------------------------------------------------------------------ refusal


class Occupancy:
    """When an owner may have been listed by the server."""

    def __init__(self, lock):
        spans = {}
        for operation in lock.operations:
            if operation.kind == "acquire":
                spans.setdefault(operation.owner, []).append(
                    (operation.begin, self._end(operation)))
        self._owners = {owner: self._prepare(sorted(mine))
                        for owner, mine in spans.items()}

    @staticmethod
    def _end(operation):
        lease = operation.lease
        if lease is not None and lease.is_confirmed():
            return lease.release.end
        if lease is not None and lease.ended:
            return max(lease.claimed, lease.ended[0].time) + LAPSED
        if lease is not None:
            begun = lease.release.begin if lease.release is not None else 0
            return max(lease.claimed, begun) + UNCLEAR
        if (operation.result, operation.value) == ("refused", "0"):
            return 0
        # Who gives up waiting may be granted it all the same.
        return operation.begin + UNCLEAR

    @staticmethod
    def _prepare(spans):
        ends = []
        for _, end in spans:
            ends.append(max(end, ends[-1]) if ends else end)
        return [begin for begin, _ in spans], ends

    def by_other(self, operation, owner):
        """Whether another owner may have been listed at its time."""
        for other, (begins, ends) in self._owners.items():
            at = bisect.bisect_right(begins, operation.end)
            if other != owner and at > 0 and ends[at - 1] >= operation.begin:
                return True
        return False


def is_distrusted(lock, operation, longest):
    """Whether a restarted server may have been, at its time."""
    return any(operation.end >= restart.begin and operation.begin
               <= restart.end + UNNOTICED + longest
               for restart in lock.restarts)


def check_refusals(lock, occupancy, longest):
    for at, operation in enumerate(lock.operations):
        if operation.result == "refused" \
                and not occupancy.by_other(operation, operation.owner) \
                and not is_distrusted(lock, operation, longest):
            before = [line for other in lock.operations[max(0, at - 8):at]
                      for line in other.lines]
            yield Violation("refusal", lock.name,
                            f"{operation.owner} was refused a free lock",
                            before + operation.lines)


# -------------------------------------------------------------------- order


class State:
    """What the server has, and the earliest time that it can be now."""

    __slots__ = ("time", "leases")

    def __init__(self, time, leases):
        self.time = time
        self.leases = leases  # a frozenset, of one owner

    def owner(self):
        for lease in self.leases:
            return lease.owner
        return None


class Order:
    """Searches an order for one lock's operations, the earliest end first. What
    leaves the lock by itself does so no earlier than something needs it."""

    def __init__(self, lock, occupancy):
        self.lock = lock
        self.occupancy = occupancy
        self.forces = lock.forces()
        self.operations = sorted(
            (operation for operation in lock.operations + lock.restarts
             if self._matters(operation)), key=lambda o: o.begin)
        self.surplus = {}
        self._count_surplus()
        self.may_end = {lease: lease.may_end()
                        for lease in lock.leases.values()}
        self.best = (-1, None, None)

    @staticmethod
    def _matters(operation):
        if operation.kind in ("force", "restart"):
            return True
        return operation.result in ("granted", "released", "counted") and not (
            operation.kind == "release" and operation.lease is None)

    def _count_surplus(self):
        """By how much the server may count more for an owner than the leases
        say: an acquisition of unclear outcome, until the next clear one."""
        doubtful = set()
        for operation in self.lock.operations:
            owner = operation.owner
            if operation.kind == "acquire":
                clear = (operation.result == "granted"
                         or (operation.result, operation.words[0])
                         == ("refused", "0"))
                (doubtful.discard if clear else doubtful.add)(owner)
            elif operation.kind == "count":
                self.surplus[operation] = int(owner in doubtful)

    def _gone(self, lease, operation):
        """Whether a release of it may find nothing there. It is confirmed all
        the same, if an earlier saying of it may have been executed: by a server
        that was there no more, for all that its holder knew."""
        return any(force.end >= lease.acquire.begin
                   and force.begin <= operation.end for force in self.forces) \
            or any(restart.end >= lease.acquire.begin
                   and operation.begin <= restart.end + UNNOTICED
                   and operation.end >= restart.begin
                   for restart in self.lock.restarts)

    # ---- one step; each returns the next state, or None

    def _empty_by(self, state):
        return max((self.may_end[lease] for lease in state.leases),
                   default=-NEVER)

    def _acquire(self, operation, state):
        if state.owner() in (None, operation.owner):
            return State(state.time, state.leases | {operation.lease})
        return State(max(state.time, self._empty_by(state)),
                     frozenset([operation.lease]))

    def _release(self, operation, state):
        if operation.lease in state.leases:
            return State(state.time, state.leases - {operation.lease})
        if self._gone(operation.lease, operation):
            return state
        return None

    def _count(self, operation, state):
        listed = int(operation.value)
        mine = sorted(state.leases if state.owner() == operation.owner else [],
                      key=lambda lease: self.may_end[lease])
        gone = len(mine) - listed
        if gone <= 0:
            return state if -gone <= self.surplus[operation] else None
        return State(max(state.time, self.may_end[mine[gone - 1]]),
                     state.leases - frozenset(mine[:gone]))

    def _force(self, operation, state):
        if (operation.result, operation.value) == ("forced", "0"):
            return State(max(state.time, self._empty_by(state)), frozenset())
        if operation.value == "1" and not state.leases \
                and not self.occupancy.by_other(operation, None):
            return None
        return State(state.time, frozenset())

    @staticmethod
    def _restart(_, state):
        return State(state.time, frozenset())

    def step(self, operation, state):
        begun = State(max(state.time, operation.begin), state.leases)
        after = getattr(self, "_" + operation.kind)(operation, begun)
        return after if after and after.time <= operation.end else None

    # ---- the search

    def _candidates(self, done, ahead):
        """What may come next: whatever begins before all that is left must
        have ended. `ahead` are those done behind the first `done`."""
        found = []
        bound = NEVER
        for index in range(done, len(self.operations)):
            operation = self.operations[index]
            if operation.begin > bound:
                break
            if index not in ahead:
                found.append(index)
                bound = min(bound, operation.end)
        return sorted((i for i in found if self.operations[i].begin <= bound),
                      key=lambda i: self.operations[i].end)

    @staticmethod
    def _advance(done, ahead, index):
        ahead = ahead | {index}
        while done in ahead:
            ahead = ahead - {done}
            done += 1
        return done, ahead

    def _finished(self, done, ahead):
        """All but what never ended, which need not have happened."""
        return all(index in ahead or self.operations[index].end == NEVER
                   for index in range(done, len(self.operations)))

    def search(self):
        """True if there is an order."""
        seen = {}
        stack = [(0, frozenset(), State(-NEVER, frozenset()))]
        while stack:
            done, ahead, state = stack.pop()
            key = (done, ahead, state.leases)
            if seen.get(key, NEVER) <= state.time:
                continue
            seen[key] = state.time
            if done + len(ahead) > self.best[0]:
                self.best = (done + len(ahead), done, state)
            following = []
            candidates = self._candidates(done, ahead)
            if all(self.operations[i].end == NEVER for i in candidates) \
                    and self._finished(done, ahead):
                return True
            for index in candidates:
                after = self.step(self.operations[index], state)
                if after:
                    following.append((*self._advance(done, ahead, index), after))
            stack.extend(reversed(following))
        return False

    def violation(self):
        _, done, state = self.best
        stuck = [self.operations[i] for i in self._candidates(done, frozenset())]
        lines = [line for operation in self.operations[max(0, done - 6):done]
                 + stuck[:8] for line in operation.lines]
        for lease in state.leases:
            lines += lease.lines()
        held = ", ".join(sorted(lease.name for lease in state.leases))
        return Violation("order", self.lock.name,
                         f"no order explains this; held are: {held or 'none'}",
                         lines)


def check_order(lock, occupancy):
    order = Order(lock, occupancy)
    if not order.search():
        yield order.violation()


# ---------------------------------------------------------------------- all


def longest_lease(history):
    """Nanoseconds: what a note says, or an acquisition has asked for."""
    longest = [int(note.split()[2]) for note in history.notes
               if note.split()[1:2] == ["lease"]]
    for lock in history.locks.values():
        longest += [int(operation.words[1]) for operation in lock.operations
                    if operation.kind == "acquire"]
    return max(longest, default=0) * MS


def check(text):
    """The violations in a history, and how much there was of what."""
    history = History(text)
    longest = longest_lease(history)
    found = []
    for lock in history.locks.values():
        occupancy = Occupancy(lock)
        for violations in (check_exclusion(lock), check_releases(lock),
                           check_sticky(lock), check_losses(lock),
                           check_notice(lock, longest),
                           check_refusals(lock, occupancy, longest),
                           check_order(lock, occupancy)):
            found += violations
    return found, history.counts


def main():
    failed = False
    for path in sys.argv[1:]:
        with open(path, encoding="ascii") as file:
            violations, counts = check(file.read())
        for violation in violations:
            print(f"{path}: {violation}")
        failed = failed or bool(violations)
        told = ", ".join(f"{what} {n}" for what, n in sorted(counts.items()))
        print(f"{path}: {'FAILED' if violations else 'ok'}: {told}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
