"""One holder at a time, and flock(1)'s options for those who find it held."""

import subprocess
import threading
import unittest

from support import BIN, CliTest, boottime

# Not atomic on purpose: it counts right only if nobody else is inside.
INCREMENT = """
mkdir inside || echo overlap >> overlaps
n=$(cat counter)
echo $((n + 1)) > counter
rmdir inside
"""


class MutualExclusion(CliTest):
    WORKERS = 8
    ROUNDS = 12

    def work(self, codes):
        for _ in range(self.ROUNDS):
            codes.append(subprocess.run(
                [BIN, "run", "counter", "-c", INCREMENT], cwd=self.dir,
                env=self.environment(SHELL="/bin/sh"), check=False,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL).returncode)

    def test_many_runners_count_right(self):
        (self.dir / "counter").write_text("0\n")
        codes = []
        threads = [threading.Thread(target=self.work, args=(codes,))
                   for _ in range(self.WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(codes), {0})
        self.assertFalse((self.dir / "overlaps").exists())
        self.assertEqual((self.dir / "counter").read_text(),
                         f"{self.WORKERS * self.ROUNDS}\n")
        self.assertFalse(self.server.lock_exists("counter"))


class Waiting(CliTest):
    def test_waits_until_released(self):
        holder = self.hold("door")
        waiter = self.start("run", "door", "--", "echo", "mine")
        self.wait_for_waiter(waiter)
        self.assertEqual(waiter.out.text(), "")
        holder.signal(15)
        self.assertEqual(waiter.wait(), 0)
        self.assertEqual(waiter.out.text(), "mine\n")


class Refused(CliTest):
    def setUp(self):
        super().setUp()
        self.hold("busy")

    def test_nonblock_by_each_of_its_names(self):
        for option in ("-n", "--nb", "--nonblock"):
            result = self.holdfast("run", option, "busy", "--", "echo", "no")
            self.assert_code(result, 75)
            self.assertEqual(result.stdout + result.stderr, "")

    def test_options_behind_the_name(self):
        result = self.holdfast("run", "busy", "-n", "--", "echo", "no")
        self.assert_code(result, 75)

    def test_wait_by_each_of_its_names_and_spellings(self):
        for words in (["-w", "0.2"], ["-w0.2"], ["--wait", "200ms"],
                      ["--timeout=0.2s"]):
            began = boottime()
            result = self.holdfast("run", *words, "busy", "--", "echo", "no")
            self.assert_code(result, 75)
            self.assertEqual(result.stdout, "")
            self.assertGreaterEqual(boottime() - began, 0.2)

    def test_wait_zero_is_one_try(self):
        result = self.holdfast("run", "-w", "0", "busy", "--", "echo", "no")
        self.assert_code(result, 75)

    def test_conflict_exit_code(self):
        for words in (["-n", "-E", "9"], ["-nE9"],
                      ["-n", "--conflict-exit-code=9"],
                      ["-w", "0.05", "-E", "9"]):
            result = self.holdfast("run", *words, "busy", "--", "true")
            self.assert_code(result, 9)
        result = self.holdfast("run", "-nE0", "busy", "--", "false")
        self.assert_code(result, 0)

    def test_conflict_exit_code_is_for_conflicts_only(self):
        result = self.holdfast("run", "-E", "9", "free", "--", "false")
        self.assert_code(result, 1)

    def test_verbose_says_why(self):
        result = self.holdfast("run", "-n", "--verbose", "busy", "--", "true")
        self.assertRegex(result.stderr, 'did not get "busy"')


class Granted(CliTest):
    def test_nonblock_and_wait_on_a_free_lock(self):
        for words in (["-n"], ["-w", "5"], ["-w", "0"]):
            result = self.holdfast("run", *words, "free", "--", "echo", "yes")
            self.assert_code(result, 0)
            self.assertEqual(result.stdout, "yes\n")
            self.assertEqual(result.stderr, "")

    def test_released_at_the_end_whatever_the_command_does(self):
        for line in ("true", "exit 3", "kill -9 $$", "exec /nonexistent"):
            self.holdfast("run", "free", "--", "sh", "-c", line)
            self.assertFalse(self.server.lock_exists("free"), line)
        self.holdfast("run", "free", "--", "/nonexistent")
        self.assertFalse(self.server.lock_exists("free"))

    def test_different_names_do_not_exclude_each_other(self):
        self.hold("one")
        result = self.holdfast("run", "-n", "two", "--", "true")
        self.assert_code(result, 0)


if __name__ == "__main__":
    unittest.main()
