"""Signals to the runner: forwarded to the command, or the end of the wait."""

import os
import signal
import subprocess
import unittest

from support import (BIN, CliTest, is_alive, process_state, wait_for_exec,
                     wait_until)

FORWARDED = ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM"]


class Forwarded(CliTest):
    def test_each_of_them(self):
        traps = "".join(f"trap 'echo got {name}' {name}; "
                        for name in FORWARDED)
        runner = self.start(
            "run", "x", "--", "sh", "-c",
            traps + "echo held; while :; do sleep 0.01; done")
        runner.out.wait_for("held")
        for name in FORWARDED:
            runner.signal(signal.Signals["SIG" + name])
            runner.out.wait_for(f"got {name}\n")
        self.assertIsNone(runner.process.poll())
        self.assertTrue(self.server.lock_exists("x"))

    def test_real_time_signals(self):
        number = signal.SIGRTMIN + 3
        runner = self.hold("x")
        runner.signal(number)
        self.assertEqual(runner.wait(), 128 + number)

    def test_command_that_ends_by_it(self):
        for name in FORWARDED:
            runner = self.hold("x")
            number = signal.Signals["SIG" + name]
            runner.signal(number)
            self.assertEqual(runner.wait(), 128 + number)
            self.assertFalse(self.server.lock_exists("x"))

    def test_reach_the_whole_group(self):
        runner = self.start("run", "x", "--", "sh", "-c",
                            "trap : TERM; sleep 1000 & echo held $!; wait; "
                            "wait; echo over; exit 3")
        pid = int(runner.out.wait_for(r"held (\d+)\n")[1])
        wait_for_exec(pid, "sleep")
        runner.signal(signal.SIGTERM)
        self.assertEqual(runner.wait(), 3)
        self.assertFalse(is_alive(pid))

    def test_stop_and_continue_without_a_terminal(self):
        runner = self.hold("x")
        pid = runner.command
        runner.signal(signal.SIGTSTP)
        wait_until(lambda: process_state(pid) == "T", "it is stopped")
        self.assertIsNone(runner.process.poll())
        runner.signal(signal.SIGCONT)
        wait_until(lambda: process_state(pid) == "S", "it runs again")


class WhileWaiting(CliTest):
    def setUp(self):
        super().setUp()
        self.holder = self.hold("x")
        self.owners = self.server.command("HGETALL", "x")

    def channels(self):
        return self.server.command("PUBSUB", "CHANNELS")

    def clients(self):
        """Connections, but for that which asks."""
        text = self.server.command("CLIENT", "LIST")
        return len(text.strip().splitlines()) - 1

    def test_each_of_them_ends_the_wait(self):
        before = self.clients()
        for name in FORWARDED:
            waiter = self.start("run", "x", "--", "sh", "-c", "echo no")
            self.wait_for_waiter(waiter)
            number = signal.Signals["SIG" + name]
            waiter.signal(number)
            # By the signal itself, so that a shell sees the truth.
            self.assertEqual(waiter.wait(), -number)
            self.assertEqual(waiter.out.text(), "")
            self.assertEqual(self.server.command("HGETALL", "x"), self.owners)
            wait_until(lambda: self.clients() == before, "it is disconnected")
            wait_until(lambda: not self.channels(), "no subscription is left")

    def test_nothing_comes_later(self):
        waiter = self.start("run", "x", "--", "true")
        self.wait_for_waiter(waiter)
        waiter.signal(signal.SIGTERM)
        waiter.wait()
        self.holder.signal(signal.SIGTERM)
        self.holder.wait()
        wait_until(lambda: self.clients() == 0, "all are gone")
        self.assertEqual(self.server.command("KEYS", "*"), [])

    def test_with_a_silent_server(self):
        waiter = self.start("run", "x", "--", "true")
        self.wait_for_waiter(waiter)
        self.server.pause()
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        self.server.resume()
        self.holder.signal(signal.SIGTERM)
        self.holder.wait()
        wait_until(lambda: self.clients() == 0, "all are gone")
        self.assertEqual(self.server.command("KEYS", "*"), [])

    def test_a_shell_sees_the_signal(self):
        script = (f"'{BIN}' run x -- true 2> err & "
                  "until grep -q waiting err; do sleep 0.01; done; "
                  "kill -TERM $!; wait $!; echo $?")
        result = subprocess.run(["sh", "-c", script], text=True,
                                capture_output=True, check=False, timeout=60,
                                env=self.environment(), cwd=self.dir)
        self.assertEqual(result.stdout, "143\n")

    def test_while_connecting(self):
        self.server.pause()
        self.addCleanup(self.server.resume)
        waiter = self.start("run", "--verbose", "y", "--", "true")
        wait_until(lambda: len(os.listdir(f"/proc/{waiter.pid}/task")) > 1,
                   "it connects")
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        self.server.resume()
        wait_until(lambda: self.clients() <= 2, "it is disconnected")
        self.assertFalse(self.server.lock_exists("y"))

    def test_ignored_by_the_caller(self):
        # nohup holdfast run ...: SIGHUP does not end the wait.
        waiter = self.start(
            "run", "x", "--", "echo", "mine",
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_waiter(waiter)
        waiter.signal(signal.SIGHUP)
        self.holder.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), 0)
        self.assertEqual(waiter.out.text(), "mine\n")


if __name__ == "__main__":
    unittest.main()
