"""Both checkers on histories made by hand: what is good is accepted, and what is
bad is rejected, for the right reason."""

import os
import subprocess
import tempfile
import unittest

import cases
import checker

PORCUPINE = os.environ["HISTORY_PORCUPINE"]


def second_opinion(text):
    """Exit code and output of the independent checker."""
    with tempfile.NamedTemporaryFile("w", suffix=".history") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([PORCUPINE, file.name], check=False,
                                capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


class Checkers(unittest.TestCase):
    """One test for each case and checker; see below."""

    def accepted_by_ours(self, text):
        violations, _ = checker.check(text)
        self.assertEqual([str(violation) for violation in violations], [])

    def rejected_by_ours(self, text, rule):
        violations, _ = checker.check(text)
        self.assertIn(rule, [violation.rule for violation in violations])

    def accepted_by_porcupine(self, text):
        code, output = second_opinion(text)
        self.assertEqual(code, 0, output)

    def rejected_by_porcupine(self, text):
        code, output = second_opinion(text)
        self.assertEqual(code, 1, output)

    def test_what_is_no_history_is_rejected(self):
        for text in ("1 1 1.1 a 1 nonsense\n", "1 1 1.1 a\n",
                     "1 1 1.1 a 0 held 1.1 5\n"):
            self.assertNotEqual(second_opinion(text)[0], 0, text)
            with self.assertRaises(ValueError, msg=text):
                checker.check(text)


def add(name, method, *args):
    setattr(Checkers, name, lambda self: getattr(self, method)(*args))


for good, lines in cases.GOOD.items():
    add(f"test_good_{good}_ours", "accepted_by_ours", cases.text(lines))
    add(f"test_good_{good}_porcupine", "accepted_by_porcupine",
        cases.text(lines))
for bad, (rule, lines) in cases.BAD.items():
    add(f"test_bad_{bad}_ours", "rejected_by_ours", cases.text(lines), rule)
    add(f"test_bad_{bad}_porcupine", "rejected_by_porcupine",
        cases.text(lines))
