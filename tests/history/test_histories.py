"""Histories of real processes on a real server, most of them under faults. Each
is checked by checker.py and, where it is built, by the independent checker.
Those that follow a script come in pairs: what the library does, which is good,
and the same as it would be without one of its rules, which must be noticed.

HOLDFAST_TEST_LONG=1  for ten minutes, with many seeds
HOLDFAST_TEST_SEED    the first seed; else chance
HOLDFAST_TEST_SCALE   factor for the time that a history takes"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import checker

RUN = os.environ["HISTORY_RUN"]
SCRIPT = os.environ["HISTORY_SCRIPT"]
WORKER = os.environ["HISTORY_WORKER"]
PORCUPINE = os.environ.get("HISTORY_PORCUPINE")
KEPT = pathlib.Path(os.environ["HOLDFAST_BUILD_DIR"]) / "histories"
SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE") or 1)
LONG = os.environ.get("HOLDFAST_TEST_LONG") == "1"
LONG_SECONDS = 300  # each of two tests
LIMIT = 120  # seconds behind the time that a history takes
LEAST = {"emptied": 2000}  # milliseconds; quarantines take half of it
SHOWN = 4  # violations


def first_seed():
    chosen = os.environ.get("HOLDFAST_TEST_SEED")
    return int(chosen) if chosen else int.from_bytes(os.urandom(4), "big")


class Histories(unittest.TestCase):
    def record(self, path, seed, mode, milliseconds):
        """Returns what was done to it."""
        result = subprocess.run(
            [RUN, WORKER, str(path), str(seed), str(milliseconds), mode],
            capture_output=True, text=True, check=False,
            timeout=LIMIT + milliseconds / 1000)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout.strip()

    def record_script(self, path, script):
        result = subprocess.run([SCRIPT, str(path), script], text=True,
                                capture_output=True, check=False, timeout=LIMIT)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    @staticmethod
    def second_opinion(path):
        return subprocess.run([PORCUPINE, str(path)], check=False,
                              capture_output=True, text=True)

    def judge(self, path):
        """The objections of both checkers, and what the history counts."""
        violations, counts = checker.check(path.read_text("ascii"))
        objections = [str(violation) for violation in violations]
        if len(objections) > SHOWN:
            objections[SHOWN:] = [f"... {len(objections)} in all"]
        if PORCUPINE:
            second = self.second_opinion(path)
            if bool(violations) != (second.returncode != 0):
                objections.append("the checkers do not agree")
            if second.returncode != 0:
                objections += (second.stdout + second.stderr).splitlines()
        return objections, counts

    def run_one(self, seed, mode, milliseconds):
        """One history, which must be good and have enough in it. A bad one is
        kept."""
        milliseconds = max(LEAST.get(mode, 1000), int(milliseconds * SCALE))
        with tempfile.TemporaryDirectory(prefix="holdfast-history-") as folder:
            path = pathlib.Path(folder) / f"{mode}-{seed}.history"
            faults = self.record(path, seed, mode, milliseconds)
            objections, counts = self.judge(path)
            told = ", ".join(f"{what} {n}" for what, n in sorted(counts.items()))
            print(f"{mode}, seed {seed}: {told}\n    {faults}",
                  file=sys.stderr, flush=True)
            if objections:
                KEPT.mkdir(parents=True, exist_ok=True)
                shutil.move(path, KEPT / path.name)
                self.fail(f"{KEPT / path.name}:\n" + "\n".join(objections))
        # Where nothing is granted, nothing is checked.
        self.assertGreater(counts["granted"], 10, told)
        self.assertGreater(counts["refused"], 5, told)
        self.assertEqual(counts["restarted"] > 0, mode == "emptied", told)

    def run_script(self, good, bad, rule):
        """Both histories of a pair; returns what the good one counts."""
        with tempfile.TemporaryDirectory(prefix="holdfast-history-") as folder:
            path = pathlib.Path(folder) / good
            self.record_script(path, good)
            objections, counts = self.judge(path)
            self.assertEqual(objections, [], path.read_text("ascii"))
            path = pathlib.Path(folder) / bad
            self.record_script(path, bad)
            text = path.read_text("ascii")
            violations, _ = checker.check(text)
            self.assertIn(rule, [each.rule for each in violations], text)
            if PORCUPINE:
                self.assertEqual(self.second_opinion(path).returncode, 1, text)
        return counts

    def run_many(self, mode, milliseconds, count):
        seed = first_seed()
        until = time.monotonic() + LONG_SECONDS
        while count > 0 or (LONG and time.monotonic() < until):
            self.run_one(seed, mode, milliseconds)
            seed += 1
            count -= 1

    def test_without_faults(self):
        self.run_one(first_seed(), "calm", 1500)

    def test_under_faults(self):
        self.run_many("wild", 5000, 2)

    def test_under_requests_that_are_overtaken(self):
        self.run_one(first_seed(), "overtaken", 3000)

    def test_under_restarts_that_empty_the_server(self):
        self.run_many("emptied", 4000, 1)

    def test_a_forced_release_is_not_said_again(self):
        counts = self.run_script("forced", "resent", "order")
        # So it did happen: no reply, and a next holder.
        self.assertEqual((counts["unknown"], counts["granted"]), (1, 2))

    def test_a_restarted_server_is_not_trusted(self):
        counts = self.run_script("restarted", "trusted", "exclusion")
        self.assertEqual((counts["granted"], counts["refused"]), (1, 2))


if __name__ == "__main__":
    unittest.main()
