"""Histories as history.h describes them: reading one, and what follows from
its lines before any rule is applied."""

import collections

NEVER = float("inf")
MS = 1_000_000

# The words behind WHAT.
BEGINNINGS = {"acquire": 2, "release": 1, "count": 0, "force": 0}
ENDS = {
    "acquire": {"granted": 1, "refused": 1, "unknown": 1},
    "release": {"released": 1, "lost": 1, "notheld": 0, "unknown": 2},
    "count": {"counted": 1, "unknown": 1},
    "force": {"forced": 1, "unknown": 1},
    "restart": {"restarted": 0},
}
OBSERVATIONS = {"held": 2, "ended": 2}
NO_LOCK = "-"


class Malformed(ValueError):
    """The file is no history."""


class Line:
    """One line, as it was written."""

    def __init__(self, number, text):
        words = text.split()
        if len(words) < 6:
            raise Malformed(f"line {number}: {text!r}")
        self.time = int(words[0])
        self.process, self.owner, self.lock, self.operation, self.what = words[1:6]
        self.words = words[6:]
        self.text = text


class Operation:
    """One call. `result` is None if the process ended before the call did;
    `end` is NEVER if the outcome is not known."""

    def __init__(self, line):
        self.lines = [line]
        self.kind = line.what
        self.owner = line.owner
        self.lock = line.lock
        self.words = line.words
        self.begin = line.time
        self.end = NEVER
        self.result = None
        self.value = None
        self.lease = None

    def finish(self, line):
        if ENDS[self.kind].get(line.what) != len(line.words):
            raise Malformed(f"no end of {self.kind}: {line.text}")
        self.lines.append(line)
        self.result = line.what
        if line.what != "unknown":  # it may still happen
            self.end = line.time
        self.value = line.words[0] if line.words else None


class Lease:
    """One acquisition that was granted."""

    def __init__(self, name, acquire):
        self.name = name
        self.owner = acquire.owner
        self.lock = acquire.lock
        self.process = acquire.lines[0].process
        self.acquire = acquire
        self.release = None  # the operation that gave it back, or tried to
        self.held = []  # lines
        self.ended = []  # lines
        self.claimed = -NEVER  # the holder may act until here

    def claim(self, line):
        self.held.append(line)
        self.claimed = max(self.claimed, line.time + int(line.words[1]) * MS)

    def is_confirmed(self):
        """Whether it was given back for certain."""
        return self.release is not None and self.release.result == "released"

    def may_end(self):
        """The earliest time from which the server may have forgotten it for
        another reason than a confirmed or a forced release."""
        if self.is_confirmed():
            return NEVER
        latest = max(self.claimed, self.acquire.begin)
        return min(latest, self.release.begin) if self.release else latest

    def known_lost(self):
        """Lines that say that it is lost."""
        told = list(self.ended)
        if self.release is not None and self.release.result == "lost":
            told.append(self.release.lines[1])
        return told

    def lines(self):
        """What its story is, without every look at it."""
        story = list(self.acquire.lines)
        story += self.held[-1:] + self.ended[:1]
        if self.release is not None:
            story += self.release.lines
        return story


class LockHistory:
    """What happened to one lock. `restarts`, when the server forgot all locks,
    and `connected`, when processes first were, are those of the history."""

    def __init__(self, name, restarts, connected):
        self.name = name
        self.restarts = restarts
        self.connected = connected
        self.lines = []
        self.operations = []
        self.leases = {}

    def forces(self):
        """Those that may have deleted the lock."""
        return [operation for operation in self.operations
                if operation.kind == "force" and operation.value != "0"]

    def may_be_forgotten(self, lease, by):
        """Whether the server may have been restarted since it was granted."""
        return any(restart.end >= lease.acquire.begin and restart.begin <= by
                   for restart in self.restarts)

    def is_newcomer(self, lease, restart):
        """Whether its holder may not have been connected before."""
        return self.connected.get(lease.process, -NEVER) > restart.begin


class History:
    """A whole file, by locks."""

    def __init__(self, text):
        self.locks = {}
        self.restarts = []
        self.connected = {}
        self.notes = []
        self.counts = collections.Counter()
        self._open = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("#"):
                self.notes.append(line)
            elif line.strip():
                self._take(Line(number, line))
        for lock in self.locks.values():
            _blame_open_releases(lock)

    def _take(self, line):
        self.counts[line.what] += 1
        if line.lock == NO_LOCK:
            self._take_of_server(line)
            return
        lock = self.locks.setdefault(line.lock, LockHistory(
            line.lock, self.restarts, self.connected))
        lock.lines.append(line)
        key = (line.process, line.operation)
        if line.operation == "0":
            self._observe(lock, line)
        elif key in self._open:
            self._finish(lock, self._open.pop(key), line)
        elif BEGINNINGS.get(line.what) == len(line.words):
            operation = Operation(line)
            self._open[key] = operation
            lock.operations.append(operation)
        else:
            raise Malformed(f"no beginning: {line.text}")

    def _take_of_server(self, line):
        key = (line.process, line.operation)
        if line.operation == "0" and line.what == "connected":
            self.connected.setdefault(line.process, line.time)
        elif key in self._open:
            self._open.pop(key).finish(line)
        elif line.what == "restart" and not line.words:
            self._open[key] = Operation(line)
            self.restarts.append(self._open[key])
        else:
            raise Malformed(f"nothing that befalls a server: {line.text}")

    @staticmethod
    def _observe(lock, line):
        if OBSERVATIONS.get(line.what) != len(line.words):
            raise Malformed(f"no observation: {line.text}")
        lease = lock.leases.get(line.words[0])
        if lease is None:
            raise Malformed(f"no such lease: {line.text}")
        if line.what == "held":
            lease.claim(line)
        else:
            lease.ended.append(line)

    @staticmethod
    def _finish(lock, operation, line):
        if (operation.owner, operation.lock) != (line.owner, line.lock):
            raise Malformed(f"another one's operation: {line.text}")
        operation.finish(line)
        if line.what == "granted":
            operation.lease = Lease(line.words[0], operation)
            lock.leases[line.words[0]] = operation.lease
        elif operation.kind == "release" and line.words:
            lease = operation.lease = lock.leases.get(line.words[0])
            if lease and lease.owner == operation.owner and not lease.is_confirmed():
                lease.release = operation


def _blame_open_releases(lock):
    """A release without an end, and without the name of a lease, may have given
    back whatever its owner had."""
    for operation in lock.operations:
        if operation.kind != "release" or operation.lease is not None:
            continue
        if operation.result not in (None, "unknown"):
            continue
        for lease in lock.leases.values():
            named = operation.words[0] in ("-", lease.name)
            if named and lease.owner == operation.owner and lease.release is None:
                lease.release = operation
