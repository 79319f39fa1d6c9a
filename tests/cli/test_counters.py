"""sem and latch."""

import json
import signal
import unittest

from support import CliTest, wait_until


WAITING = r'\Aholdfast: waiting for "pool": \d+s\n\Z'


class CounterTest(CliTest):
    def done(self, *words, code=0, out=""):
        result = self.holdfast(*words)
        self.assert_code(result, code)
        self.assertEqual(result.stdout, out)
        return result

    def refused(self, *words, pattern):
        result = self.holdfast(*words)
        self.assert_code(result, 64)
        self.assert_one_message(result, pattern)
        self.assertEqual(self.server.command("KEYS", "*"), [])

    def value(self, name="pool"):
        return self.server.command("GET", name)

    def json(self, *words, code=0):
        result = self.holdfast(*words, "--json")
        self.assert_code(result, code)
        line = json.loads(result.stdout)
        self.assertIn(self.server.socket_path, line.pop("server"))
        self.assertEqual((line.pop("v"), line.pop("name")), (1, "pool"))
        return line


class Semaphore(CounterTest):
    def test_a_life(self):
        self.done("sem", "init", "pool", "5")
        self.assertEqual(self.value(), "5")
        self.done("sem", "acquire", "pool")
        self.done("sem", "acquire", "pool", "3")
        self.done("sem", "status", "pool", out="1\n")
        self.done("sem", "release", "pool")
        self.done("sem", "release", "pool", "2")
        self.done("sem", "status", "pool", out="4\n")
        self.done("sem", "add", "pool", "-6")
        self.done("sem", "status", "pool", out="-2\n")
        self.done("sem", "add", "pool", "5")
        self.done("sem", "drain", "pool", out="3\n")
        self.assertEqual(self.value(), "0")
        self.done("sem", "drain", "pool", out="0\n")

    def test_of_none(self):
        self.done("sem", "status", "pool", out="0\n")
        self.done("sem", "drain", "pool", out="0\n")
        self.done("sem", "acquire", "-n", "pool", code=75)

    def test_init_of_one_that_is_there(self):
        self.done("sem", "init", "pool", "5")
        result = self.done("sem", "init", "pool", "7", code=1)
        self.assertRegex(result.stderr, '"pool" is there already')
        self.assertEqual(self.value(), "5")

    def test_lifetime(self):
        self.done("sem", "init", "--lifetime", "1h", "pool", "5")
        self.assertTrue(
            3000000 < self.server.command("PTTL", "pool") <= 3600000)
        self.done("sem", "init", "other", "5")
        self.assertEqual(self.server.command("PTTL", "other"), -1)

    def test_not_acquired(self):
        self.done("sem", "init", "pool", "1")
        for words, code in ((["-n"], 75), (["-n", "-E", "3"], 3)):
            result = self.done("sem", "acquire", *words, "pool", "2",
                               code=code)
            self.assertEqual(result.stderr, "")
        result = self.done("sem", "acquire", "-w", "2s", "pool", "2", code=75)
        self.assertRegex(result.stderr, WAITING)
        self.assertEqual(self.value(), "1")
        result = self.done("sem", "acquire", "-n", "--verbose", "pool", "2",
                           code=75)
        self.assertIn('did not get "pool"', result.stderr)

    def test_waits(self):
        self.done("sem", "init", "pool", "0")
        waiter = self.start("sem", "acquire", "pool", "2")
        waiter.err.wait_for('waiting for "pool": 0s\n')
        self.done("sem", "release", "pool")
        self.done("sem", "release", "pool")
        self.assertEqual(waiter.wait(), 0)
        self.assertEqual(self.value(), "0")

    def test_a_signal_ends_the_wait(self):
        self.done("sem", "init", "pool", "1")
        waiter = self.start("sem", "acquire", "pool", "2")
        self.wait_for_waiter(waiter)
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        self.assertEqual(self.value(), "1")

    def test_json(self):
        self.assertEqual(self.json("sem", "init", "pool", "5"),
                         {"made": True})
        self.assertEqual(self.json("sem", "init", "pool", "5", code=1),
                         {"made": False})
        self.assertEqual(self.json("sem", "status", "pool"), {"available": 5})
        self.assertEqual(self.json("sem", "drain", "pool"), {"drained": 5})

    def test_usage(self):
        for words, pattern in (
                ([], "action"), (["nosuch", "x"], "nosuch"),
                (["init"], "NAME is missing"), (["init", "x"], "number"),
                (["add", "x"], "number"), (["init", "", "1"], "empty"),
                (["init", "x", "-1"], "number from 0"),
                (["init", "x", "1x"], "number from 0"),
                (["init", "x", "1", "2"], "too many"),
                (["status", "x", "1"], "too many"),
                (["acquire", "x", "0"], "number from 1"),
                (["release", "x", "-1"], "number from 1"),
                (["add", "x", "--1"], "unknown option"),
                (["add", "x", "-"], "number"),
                (["release", "-n", "x"], "does not wait"),
                (["status", "-w", "1", "x"], "does not wait"),
                (["acquire", "-n", "-w", "1", "x"], "exclude"),
                (["acquire", "--lifetime", "1s", "x"], "--lifetime"),
                (["init", "--lifetime", "0", "x", "1"], "--lifetime")):
            self.refused("sem", *words, pattern=pattern)

    def test_of_a_key_of_another_type(self):
        self.server.command("RPUSH", "pool", "x")
        for words in (["init", "pool", "1"], ["status", "pool"],
                      ["acquire", "-n", "pool"], ["release", "pool"]):
            if words[0] != "init":
                self.assert_code(self.holdfast("sem", *words), 65)
            else:
                self.assert_code(self.holdfast("sem", *words), 1)

    def test_unreachable(self):
        for action in ("status", "acquire"):
            result = self.holdfast("sem", action, "--url",
                                   "redis://127.0.0.1:1", "x")
            self.assert_code(result, 69)
            self.assertEqual(result.stdout, "")


class Latch(CounterTest):
    def test_a_life(self):
        self.done("latch", "set", "pool", "4")
        self.assertEqual(self.value(), "4")
        self.done("latch", "down", "pool", out="3\n")
        self.done("latch", "down", "pool", "2", out="1\n")
        self.done("latch", "status", "pool", out="1\n")
        self.done("latch", "wait", "-n", "pool", code=75)
        self.done("latch", "wait", "-w", "2s", "-E", "9", "pool", code=9)
        self.done("latch", "down", "pool", out="0\n")
        self.done("latch", "wait", "pool")
        self.assertIsNone(self.value())

    def test_of_none(self):
        self.done("latch", "wait", "pool")
        self.done("latch", "status", "pool", out="0\n")
        self.done("latch", "down", "pool", out="0\n")
        self.assertIsNone(self.value())

    def test_set_of_one_that_is_there(self):
        self.done("latch", "set", "--lifetime", "1h", "pool", "2")
        self.assertTrue(
            3000000 < self.server.command("PTTL", "pool") <= 3600000)
        result = self.done("latch", "set", "pool", "3", code=1)
        self.assertRegex(result.stderr, '"pool" is there already')
        self.assertEqual(self.value(), "2")

    def test_all_who_wait_go_on(self):
        self.done("latch", "set", "pool", "2")
        waiters = [self.start("latch", "wait", "pool") for _ in range(3)]
        for waiter in waiters:
            waiter.err.wait_for('waiting for "pool": 0s\n')
        self.done("latch", "down", "pool", out="1\n")
        self.done("latch", "down", "pool", out="0\n")
        self.assertEqual([waiter.wait() for waiter in waiters], [0, 0, 0])

    def test_a_signal_ends_the_wait(self):
        self.done("latch", "set", "pool", "1")
        waiter = self.start("latch", "wait", "pool")
        self.wait_for_waiter(waiter)
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        wait_until(lambda: self.server.command("PUBSUB", "CHANNELS") == [],
                   "it does not listen any more")

    def test_json(self):
        self.assertEqual(self.json("latch", "set", "pool", "2"),
                         {"made": True})
        self.assertEqual(self.json("latch", "down", "pool"), {"count": 1})
        self.assertEqual(self.json("latch", "status", "pool"), {"count": 1})

    def test_usage(self):
        for words, pattern in (
                ([], "action"), (["drain", "x"], "drain"),
                (["set", "x"], "number"), (["set", "x", "-1"], "from 0"),
                (["down", "x", "0"], "from 1"), (["wait", "x", "1"], "many"),
                (["down", "-n", "x"], "does not wait"),
                (["wait", "--lifetime", "1s", "x"], "--lifetime")):
            self.refused("latch", *words, pattern=pattern)


if __name__ == "__main__":
    unittest.main()
