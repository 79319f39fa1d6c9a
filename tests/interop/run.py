#!/usr/bin/env -S python3 -B
"""Runs the scenarios beside the real Redisson, and prints what came out as a
table. docs/interop.md tells of it.

    run.py --redisson VERSION [--server PROGRAM] [-k PATTERN]

Each may be given several times; every version meets every server. -k chooses
scenarios. The server is by default HOLDFAST_TEST_SERVER, else redis-server."""

import argparse
import contextlib
import itertools
import os
import sys
import unittest

import test_counters
import test_fair
import test_locks
import test_readwrite
from scenarios import ROLES, InteropTest
from world import World

CASES = [*test_locks.CASES, *test_fair.CASES, *test_readwrite.CASES,
         *test_counters.CASES]


class Result(unittest.TextTestResult):
    """Keeps what the table tells: of each kind and scenario, how it ended in
    each role."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cells = {}

    def _tell(self, test, outcome):
        if isinstance(test, InteropTest):
            text = outcome
            if outcome == "ok" and test.notes:
                text = ", ".join(test.notes)
            row = (getattr(test, "TITLE", test.KIND), test.shortDescription())
            self.cells.setdefault(row, {}).setdefault(test.ROLE, text)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._tell(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(test, "FAILED")

    def addError(self, test, err):
        super().addError(test, err)
        self._tell(test, "FAILED")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._tell(test, "FAILED")


def suite(version, patterns):
    """Of the kinds that this version of Redisson has."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = patterns and [f"*{p}*" for p in patterns]
    return unittest.TestSuite(
        loader.loadTestsFromTestCase(case) for case in CASES
        if case.SINCE <= version)


def run(world, patterns):
    InteropTest.world = world
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result,
                                     stream=sys.stdout)
    with contextlib.closing(world):
        world.open()
        return runner.run(suite(world.version, patterns))


def print_table(columns):
    """columns: title and cells of each run."""
    rows = list(dict.fromkeys(itertools.chain(
        *(cells for _, cells in columns))))
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    rows.sort(key=lambda row: kinds.index(row[0]))
    table = [["Kind", "Scenario", *(title for title, _ in columns)]]
    table += [[*row, *(cell(cells.get(row, {})) for _, cells in columns)]
              for row in rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    table.insert(1, ["-" * width for width in widths])
    print()
    for row in table:
        cells = (text.ljust(width) for text, width in zip(row, widths))
        print("| " + " | ".join(cells) + " |")


def cell(outcomes):
    """Such as "9 ms / 38 ms": holdfast holds, Redisson holds."""
    texts = [outcomes[role] for role in ROLES if role in outcomes]
    return "ok" if set(texts) == {"ok"} else " / ".join(texts) or "-"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--redisson", action="append", required=True)
    parser.add_argument("--server", action="append")
    parser.add_argument("-k", action="append")
    options = parser.parse_args()
    servers = options.server or [os.environ.get("HOLDFAST_TEST_SERVER")
                                 or "redis-server"]
    columns, passed = [], True
    for server in servers:
        for redisson in options.redisson:
            world = World(server, redisson)
            result = run(world, options.k)
            passed = passed and result.wasSuccessful()
            columns.append((world.title, result.cells))
    print_table(columns)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
