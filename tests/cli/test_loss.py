"""The lock is lost: the command is gone before the lease can pass on."""

import os
import signal
import unittest

from support import (HEARTBEAT, Beats, CliTest, boottime, children, is_alive,
                     process_state, wait_until)

TTL = 1.5  # seconds


class LossTest(CliTest):
    def setUp(self):
        super().setUp()
        self.beats = Beats(self.dir / "beats")
        os.mkfifo(self.dir / "fifo")

    def let_go(self):
        """Ends a command that reads the fifo."""
        with open(self.dir / "fifo", "w"):
            pass

    def beat(self, *options, survive=("SIGTERM",)):
        """A runner whose command writes a heartbeat and survives signals."""
        runner = self.start("run", "--ttl", f"{TTL}s", *options, "x", "--",
                            *HEARTBEAT, str(self.beats.path), *survive)
        self.beats.wait_for("beat")
        return runner

    def lease_end_seen(self):
        """A time before which the lease cannot end, just after a renewal, so
        that the next one is far."""
        def look():
            now = boottime()
            left = self.server.command("PTTL", "x") / 1000
            return left > TTL * 0.9 and now + left
        return wait_until(look, "a renewal")

    def assert_gone_before(self, end):
        last = self.beats.times("beat")[-1]
        self.assertLess(last, end)


class ServerSilent(LossTest):
    def test_stopped_past_the_lease(self):
        runner = self.beat()
        pid = next(p for p in children(runner.pid)
                   if os.getpgid(p) == p and os.getsid(p) != p)
        end = self.lease_end_seen()
        self.server.pause()
        self.addCleanup(self.server.resume)
        self.assertEqual(runner.wait(), 79)  # it is still stopped
        self.assertFalse(is_alive(pid))
        self.server.resume()
        self.assert_gone_before(end)
        self.assertEqual(len(self.beats.times("SIGTERM")), 1)
        self.assertRegex(runner.err.text(), 'lost the lock "x"')

    def test_stopped_shorter_than_the_lease_is_no_loss(self):
        runner = self.start("run", "--ttl", f"{TTL}s", "x", "--", "sh", "-c",
                            "echo held; read x < fifo; echo done; exit 5")
        runner.out.wait_for("held")
        end = self.lease_end_seen()
        self.server.pause()
        # Past one renewal; kill_after (a third of the lease) is not reached.
        wait_until(lambda: boottime() > end - TTL * 0.6, "a missed renewal")
        self.server.resume()
        wait_until(lambda: boottime() > end + TTL, "more than a lease")
        self.let_go()
        self.assertEqual(runner.wait(), 5)
        self.assertEqual(runner.out.text(), "held\ndone\n")

    def test_killed(self):
        runner = self.beat()
        end = self.lease_end_seen()
        self.server.kill()
        try:
            self.assertEqual(runner.wait(), 79)
        finally:
            self.server.start()
        self.assert_gone_before(end)

    def test_command_that_obeys_ends_at_sigterm(self):
        runner = self.beat(survive=())
        end = self.lease_end_seen()
        self.server.pause()
        self.addCleanup(self.server.resume)
        self.assertEqual(runner.wait(), 79)
        # A third of the lease before its end.
        self.assert_gone_before(end - TTL * 0.3)


class KeyDeleted(LossTest):
    def test_command_is_ended(self):
        runner = self.beat(survive=())
        self.server.command("DEL", "x")
        deleted = boottime()
        self.assertEqual(runner.wait(), 79)
        self.assertLess(self.beats.times("beat")[-1], deleted + TTL)
        self.assertRegex(runner.err.text(), 'lost the lock "x"')

    def test_next_holder_is_left_alone(self):
        runner = self.beat(survive=())
        self.server.command("DEL", "x")
        self.server.command("HSET", "x", "other:1", "1")
        self.server.command("PEXPIRE", "x", "60000")
        self.assertEqual(runner.wait(), 79)
        self.assertEqual(self.server.command("HGETALL", "x"),
                         ["other:1", "1"])

    def test_command_may_clean_up(self):
        runner = self.start(
            "run", "--ttl", "1s", "x", "--", "sh", "-c",
            "trap 'echo cleaned up; exit 0' TERM; echo held; "
            "while :; do sleep 0.01; done")
        runner.out.wait_for("held")
        self.server.command("DEL", "x")
        self.assertEqual(runner.wait(), 79)
        self.assertEqual(runner.out.text(), "held\ncleaned up\n")

    def test_kill_after_for_a_command_that_does_not_obey(self):
        runner = self.beat("--kill-after", "300ms")
        self.lease_end_seen()
        self.server.command("DEL", "x")
        self.assertEqual(runner.wait(), 79)
        told = self.beats.times("SIGTERM")[0]
        last = self.beats.times("beat")[-1]
        self.assertGreater(last, told + 0.2)
        self.assertLess(last, told + 0.3 + 0.3)

    def test_children_of_the_command_are_ended_too(self):
        runner = self.start(
            "run", "--ttl", "1s", "x", "--", "sh", "-c",
            "trap '' TERM; sleep 1000 & echo held $!; trap - TERM; wait")
        pid = int(runner.out.wait_for(r"held (\d+)\n")[1])
        self.addCleanup(lambda: is_alive(pid) and os.kill(pid, 9))
        self.server.command("DEL", "x")
        self.assertEqual(runner.wait(), 79)
        wait_until(lambda: not is_alive(pid), "the grandchild has ended")

    def test_stopped_command_is_ended(self):
        runner = self.start("run", "--ttl", "1s", "x", "--", "sh", "-c",
                            "echo held; kill -STOP $$; sleep 1000")
        runner.out.wait_for("held")
        self.server.command("DEL", "x")
        self.assertEqual(runner.wait(), 79)

    def test_released_by_force(self):
        runner = self.beat(survive=())
        result = self.holdfast("unlock", "--force", "--yes", "x")
        self.assert_code(result, 0)
        self.assertEqual(runner.wait(), 79)

    def test_command_that_ends_by_itself_first(self):
        # Not told yet, but what it did was not under the lock to its end.
        runner = self.start("run", "x", "--", "sh", "-c",
                            "echo held; read x < fifo")
        runner.out.wait_for("held")
        self.server.command("DEL", "x")
        self.let_go()
        self.assertEqual(runner.wait(), 79)
        self.assertRegex(runner.err.text(), "before the command ended")


class Limits(LossTest):
    def test_fixed_lease_is_not_renewed(self):
        runner = self.start("run", "--lease", "900ms", "x", "--", *HEARTBEAT,
                            str(self.beats.path), "SIGTERM")
        self.beats.wait_for("beat")
        end = boottime() + self.server.command("PTTL", "x") / 1000
        self.assertEqual(runner.wait(), 79)
        self.assert_gone_before(end)
        self.assertEqual(len(self.beats.times("SIGTERM")), 1)
        self.assertRegex(runner.err.text(), "--lease has ended")

    def test_fixed_lease_that_is_long_enough(self):
        result = self.holdfast("run", "--lease", "10s", "x", "--", "echo", "ok")
        self.assert_code(result, 0)
        self.assertFalse(self.server.lock_exists("x"))

    def test_max_hold(self):
        began = boottime()
        runner = self.start("run", "--ttl", "600ms", "--max-hold", "1800ms",
                            "x", "--", *HEARTBEAT, str(self.beats.path))
        self.assertEqual(runner.wait(), 79)
        lasted = self.beats.times("beat")[-1] - began
        self.assertGreater(lasted, 1.2)  # renewed at least twice
        self.assertLess(boottime() - began, LIMIT_OF_TEST)
        self.assertLess(lasted, 1.8 + 0.3)
        self.assertRegex(runner.err.text(), "--max-hold has passed")
        wait_until(lambda: not self.server.lock_exists("x"), "it is free")

    def test_max_hold_that_is_long_enough(self):
        result = self.holdfast("run", "--max-hold", "10s", "x", "--", "true")
        self.assert_code(result, 0)

    def test_ttl_is_renewed(self):
        result = self.holdfast("run", "--ttl", "600ms", "x", "--", "sh", "-c",
                               "sleep 2; echo done; exit 3")
        self.assert_code(result, 3)
        self.assertEqual(result.stdout, "done\n")
        self.assertEqual(result.stderr, "")

    def test_ttl_is_the_lease_on_the_server(self):
        self.hold("x", "--ttl", "100s")
        left = self.server.command("PTTL", "x")
        self.assertGreater(left, 60000)
        self.assertLessEqual(left, 100000)


LIMIT_OF_TEST = 20


class OnLost(LossTest):
    def runner(self, action):
        runner = self.start(
            "run", "--ttl", "1s", "--on-lost", action, "x", "--", "sh", "-c",
            "trap 'echo term' TERM; trap 'echo told' USR1; echo held; "
            "while ! [ -e finish ]; do sleep 0.01; done; exit 7")
        runner.out.wait_for("held")
        return runner

    def test_signal_and_nothing_else(self):
        for name in ("signal:USR1", "signal:SIGUSR1",
                     f"signal:{int(signal.SIGUSR1)}"):
            runner = self.runner(name)
            self.server.command("DEL", "x")
            runner.out.wait_for("told")
            runner.err.wait_for("lost the lock")
            # Longer than kill-after and lease: nothing follows.
            end = boottime() + 1.5
            wait_until(lambda: boottime() > end, "the lease is over")
            self.assertIsNone(runner.process.poll())
            (self.dir / "finish").touch()
            self.assertEqual(runner.wait(), 79)
            self.assertEqual(runner.out.text(), "held\ntold\n")
            (self.dir / "finish").unlink()

    def test_ignore(self):
        runner = self.runner("ignore")
        self.server.command("DEL", "x")
        runner.err.wait_for('lost the lock "x"')
        end = boottime() + 1.5
        wait_until(lambda: boottime() > end, "the lease is over")
        (self.dir / "finish").touch()
        self.assertEqual(runner.wait(), 7)
        self.assertEqual(runner.out.text(), "held\n")

    def test_ignore_with_a_silent_server(self):
        runner = self.runner("ignore")
        self.server.pause()
        self.addCleanup(self.server.resume)
        runner.err.wait_for('lost the lock "x"')
        (self.dir / "finish").touch()
        self.assertEqual(runner.wait(), 7)

    def test_kill_is_the_default(self):
        runner = self.runner("kill")
        self.server.command("DEL", "x")
        self.assertEqual(runner.wait(), 79)


class RunnerKilled(LossTest):
    def test_takes_command_and_grandchild_with_it(self):
        runner = self.start(
            "run", "--ttl", "1s", "x", "--", "sh", "-c",
            "trap '' HUP TERM; sh -c 'trap \"\" HUP TERM; echo grand $$; "
            "while :; do sleep 1; done' & echo child $$; wait")
        child = int(runner.out.wait_for(r"child (\d+)\n")[1])
        grandchild = int(runner.out.wait_for(r"grand (\d+)\n")[1])
        family = children(runner.pid)
        runner.signal(signal.SIGKILL)
        runner.wait()
        for pid in (child, grandchild, *family):
            wait_until(lambda p=pid: not is_alive(p), "all are gone")
        # Nobody released it; it ends by itself.
        wait_until(lambda: not self.server.lock_exists("x"), "it is free")
        result = self.holdfast("run", "-n", "x", "--", "true")
        self.assert_code(result, 0)

    def test_while_waiting_leaves_no_process(self):
        self.hold("x")
        waiter = self.start("run", "x", "--", "true")
        self.wait_for_waiter(waiter)
        family = children(waiter.pid)
        waiter.signal(signal.SIGKILL)
        waiter.wait()
        for pid in family:
            wait_until(lambda p=pid: not is_alive(p), "the guard has ended")


class RunnerStopped(LossTest):
    def test_past_the_lease(self):
        # A stopped runner renews nothing; the guard ends the command.
        runner = self.beat()
        end = self.lease_end_seen()
        runner.signal(signal.SIGSTOP)
        self.addCleanup(runner.signal, signal.SIGCONT)
        wait_until(lambda: process_state(runner.pid) == "T", "it is stopped")
        wait_until(lambda: boottime() > end + 0.3, "the lease is over")
        self.assert_gone_before(end)
        runner.signal(signal.SIGCONT)
        self.assertEqual(runner.wait(), 79)
        self.assertRegex(runner.err.text(),
                         "lost the lock|guard killed the command")

    def test_shorter_than_the_lease(self):
        runner = self.beat()
        self.lease_end_seen()
        runner.signal(signal.SIGSTOP)
        wait_until(lambda: process_state(runner.pid) == "T", "it is stopped")
        runner.signal(signal.SIGCONT)
        count = len(self.beats.times("beat"))
        end = boottime() + TTL * 1.5
        wait_until(lambda: boottime() > end, "more than a lease")
        self.assertGreater(len(self.beats.times("beat")), count + 20)
        self.assertIsNone(runner.process.poll())


if __name__ == "__main__":
    unittest.main()
