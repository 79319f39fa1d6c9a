"""run with locks of every kind, with several at once, and with permits."""

import os
import re
import signal
import unittest

from support import CliTest, wait_until

KINDS = ("reentrant", "non-reentrant", "fair", "fair-non-reentrant", "read",
         "write", "spin", "fenced", "simple")
SHOW = ["--", "sh", "-c", 'echo "lock=$HOLDFAST_LOCK owner=$HOLDFAST_OWNER '
        'token=${HOLDFAST_TOKEN-none}"']


class KindTest(CliTest):
    def is_refused(self, *words):
        """A single try, which must not run its command."""
        result = self.holdfast("run", "-n", *words, "--", "touch", "ran")
        self.assert_code(result, 75)
        self.assertEqual(result.stderr, "")
        self.assertFalse((self.dir / "ran").exists())

    def is_granted(self, *words):
        self.assert_code(self.holdfast("run", "-n", *words, "--", "true"), 0)

    def release(self, holder):
        os.kill(holder.command, signal.SIGKILL)
        self.assertEqual(holder.wait(), 128 + signal.SIGKILL)


class Kinds(KindTest):
    def test_each_excludes_and_is_given_back(self):
        for kind in KINDS:
            with self.subTest(kind):
                holder = self.hold("x", "--kind", kind)
                self.is_refused("--kind", "write" if kind == "read" else kind,
                                "x")
                self.release(holder)
                self.assertFalse(self.server.lock_exists("x"))
                self.is_granted("--kind", kind, "x")

    def test_hashes_of_one_name_exclude_one_another(self):
        self.hold("x", "--kind", "fenced")
        for kind in KINDS:
            if kind != "simple":
                self.is_refused("--kind", kind, "x")

    def test_state_of_each(self):
        owner = "HOLDFAST_OWNER"
        for kind in KINDS:
            with self.subTest(kind):
                holder = self.start("run", "--kind", kind, "x", "--", "sh",
                                    "-c", f"echo held ${owner}; sleep 1000")
                name = holder.out.wait_for(r"held (\S+)\n")[1]
                if kind == "simple":
                    self.assertEqual(self.server.command("GET", "x"), name)
                    found = 1
                else:
                    found = self.server.command("HGET", "x", name)
                self.assertEqual(str(found), "1")
                mode = kind if kind in ("read", "write") else None
                if kind != "simple":
                    self.assertEqual(
                        self.server.command("HGET", "x", "mode"), mode)
                self.assertEqual(name.endswith(":write"), kind == "write")
                holder.signal(signal.SIGTERM)
                holder.wait()

    def test_readers_share(self):
        first = self.hold("x", "-s")
        second = self.hold("x", "--shared")
        self.is_refused("-x", "x")
        self.release(first)
        self.is_refused("--exclusive", "x")
        self.release(second)
        self.hold("x", "-x")
        self.is_refused("-s", "x")

    def test_fair_ones_are_served_in_order(self):
        holder = self.hold("x", "--kind", "fair")
        waiters = []
        for i in range(4):
            waiters.append(self.start("run", "--kind", "fair", "x", "--",
                                      "sh", "-c", f"echo {i} >> order"))
            wait_until(lambda n=i: self.server.command(
                "LLEN", "redisson_lock_queue:{x}") == n + 1, "it is queued")
        self.release(holder)
        for waiter in waiters:
            self.assertEqual(waiter.wait(), 0)
        self.assertEqual((self.dir / "order").read_text().split(),
                         ["0", "1", "2", "3"])

    def test_a_signal_takes_a_waiter_out_of_the_queue(self):
        self.hold("x", "--kind", "fair")
        waiter = self.start("run", "--kind", "fair", "x", "--", "true")
        queue = "redisson_lock_queue:{x}"
        wait_until(lambda: self.server.command("LLEN", queue) == 1, "queued")
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        self.assertEqual(self.server.command("LLEN", queue), 0)

    def test_spinning_waiters_do_not_subscribe(self):
        self.hold("x")
        waiter = self.start("run", "--kind", "spin", "x", "--", "true")
        self.wait_for_waiter(waiter)
        self.assertEqual(self.server.command("PUBSUB", "CHANNELS"), [])
        other = self.start("run", "--kind", "reentrant", "x", "--", "true")
        wait_until(lambda: self.server.command("PUBSUB", "CHANNELS"),
                   "the other one subscribes")
        self.server.command("DEL", "x")
        self.assertEqual((waiter.wait(), other.wait()), (0, 0))

    def test_tokens_grow(self):
        seen = []
        for _ in range(3):
            result = self.holdfast("run", "--kind", "fenced", "x", *SHOW)
            self.assert_code(result, 0)
            seen.append(int(re.search(r"token=(\d+)\n", result.stdout)[1]))
        self.assertEqual(seen, sorted(set(seen)))
        self.assertEqual(
            self.server.command("GET", "redisson_lock_token:{x}"),
            str(seen[-1]))

    def test_no_token_without_one_not_even_an_inherited_one(self):
        result = self.holdfast("run", "x", *SHOW,
                               env=self.environment(HOLDFAST_TOKEN="7"))
        self.assertIn("token=none\n", result.stdout)

    def test_usage(self):
        for words, pattern in (
                (["--kind", "nosuch", "x"], "nosuch.*reentrant, non-reentr"),
                (["--kind", "", "x"], "not one of"),
                (["-s", "-x", "x"], "exclude each other"),
                (["-s", "--kind", "read", "x"], "exclude each other"),
                (["-j", "2", "-x", "x"], "exclude each other"),
                (["-j", "2", "x", "y"], "one name"),
                (["-j", "0", "x"], "number from 1"),
                (["--permits", "-1", "x"], "number from 1"),
                (["x", "y", "x"], '"x" is named twice'),
                (["x", ""], "empty")):
            result = self.holdfast("run", *words, "--", "touch", "ran")
            self.assert_code(result, 64)
            self.assert_one_message(result, pattern)
        self.assertFalse((self.dir / "ran").exists())
        self.assertEqual(self.server.command("KEYS", "*"), [])


class Several(KindTest):
    def test_all_are_held(self):
        result = self.holdfast("run", "a", "--ttl", "20s", "b b", "c", *SHOW)
        self.assert_code(result, 0)
        self.assertRegex(result.stdout, r"\Alock=a\nb b\nc owner=\S+:\d+ ")
        self.assertEqual(self.server.command("KEYS", "*"), [])
        holder = self.hold("a", "b b", "c")
        for name in ("a", "b b", "c"):
            self.is_refused(name)
        self.release(holder)

    def test_none_is_held_if_one_is_not_to_be_had(self):
        self.hold("b")
        self.is_refused("a", "b", "c")
        self.assertEqual(self.server.command("KEYS", "[ac]"), [])

    def test_wait_for_the_last_one(self):
        holder = self.hold("c")
        waiter = self.start("run", "--verbose", "a", "b", "c", "--", "echo",
                            "mine")
        waiter.err.wait_for('waiting for "a" and 2 more')
        self.release(holder)
        self.assertEqual(waiter.wait(), 0)
        self.assertRegex(waiter.err.text(), 'acquired "a" and 2 more after')
        self.assertEqual(waiter.out.text(), "mine\n")

    def test_tokens_of_all(self):
        result = self.holdfast("run", "--kind", "fenced", "b", "a", *SHOW)
        tokens = re.search(r"token=(\d+)\n(\d+)\n\Z", result.stdout)
        for name, token in zip("ba", tokens.groups(), strict=True):
            self.assertEqual(token, self.server.command(
                "GET", f"redisson_lock_token:{{{name}}}"))

    def test_loss_of_one_is_the_loss_of_all(self):
        holder = self.hold("a", "b", "--ttl", "3s")
        self.server.command("DEL", "b")
        self.assertEqual(holder.wait(), 79)
        self.assertRegex(holder.err.text(), 'lost the lock "b" and 1 more')
        wait_until(lambda: self.server.command("KEYS", "*") == [],
                   "the other one is given back")

    def test_of_a_command_line(self):
        result = self.holdfast("run", "a", "b", "-c", 'echo "$HOLDFAST_LOCK"')
        self.assertEqual(result.stdout, "a\nb\n")


class Permits(KindTest):
    def available(self):
        return int(self.server.command("GET", "pool"))

    def test_so_many_run_at_once(self):
        first = self.hold("pool", "-j", "2")
        self.hold("pool", "--permits", "2")
        self.assertEqual(self.available(), 0)
        self.is_refused("-j", "2", "pool")
        self.release(first)
        self.assertEqual(self.available(), 1)
        self.is_granted("-j", "2", "pool")

    def test_the_number_counts_only_when_it_is_new(self):
        self.hold("pool", "-j", "1")
        self.is_refused("-j", "5", "pool")
        self.assert_code(self.holdfast("sem", "add", "pool", "1"), 0)
        self.is_granted("-j", "1", "pool")

    def test_of_an_initialised_semaphore(self):
        self.assert_code(self.holdfast("sem", "init", "pool", "0"), 0)
        self.is_refused("-j", "3", "pool")

    def test_a_waiter_is_told(self):
        holder = self.hold("pool", "-j", "1")
        waiter = self.start("run", "-j", "1", "pool", "--", "echo", "mine")
        self.wait_for_waiter(waiter)
        self.release(holder)
        self.assertEqual(waiter.wait(), 0)

    def test_that_of_a_dead_runner_comes_back(self):
        holder = self.hold("pool", "-j", "1", "--ttl", "2s")
        holder.signal(signal.SIGKILL)
        holder.wait()
        result = self.holdfast("run", "-j", "1", "pool", "--", "echo", "mine")
        self.assert_code(result, 0)
        self.assertEqual(self.available(), 1)

    def test_it_is_renewed(self):
        holder = self.hold("pool", "-j", "1", "--ttl", "3s")
        end = self.server.command("ZRANGE", "{pool}:timeout", 0, -1,
                                  "WITHSCORES")[1]
        wait_until(lambda: int(self.server.command(
            "ZRANGE", "{pool}:timeout", 0, -1, "WITHSCORES")[1])
                   > int(end) + 3500, "it is renewed again and again")
        self.assertIsNone(holder.process.poll())
        self.is_refused("-j", "1", "pool")

    def test_loss(self):
        holder = self.hold("pool", "-j", "1", "--ttl", "3s")
        result = self.holdfast("unlock", "--force", "--yes", "pool")
        self.assert_code(result, 0)
        self.assertEqual(holder.wait(), 79)
        self.assertRegex(holder.err.text(), 'lost the permit of "pool"')
        self.assertEqual(self.available(), 1)

    def test_a_key_that_is_no_number(self):
        self.server.command("RPUSH", "pool", "x")
        result = self.holdfast("run", "-j", "1", "pool", "--", "true")
        self.assert_code(result, 65)


if __name__ == "__main__":
    unittest.main()
