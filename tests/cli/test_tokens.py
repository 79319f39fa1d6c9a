"""acquire, renew and release."""

import json
import signal
import subprocess
import unittest

from support import BIN, LIMIT, CliTest, wait_until

HASHES = ("reentrant", "non-reentrant", "fair", "fair-non-reentrant", "spin",
          "fenced")
KINDS = (*HASHES, "read", "write", "simple")
TOKEN = r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+(:write)?\n\Z"
NOBODYS = "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42"


class TokenTest(CliTest):
    def acquire(self, *words):
        result = self.holdfast("acquire", *words)
        self.assert_code(result, 0)
        self.assertEqual(result.stderr, "")
        self.assertRegex(result.stdout, TOKEN)
        return result.stdout.rstrip("\n")

    def is_refused(self, *words):
        result = self.holdfast("acquire", "-n", *words)
        self.assert_code(result, 75)
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def renew(self, token, lease, *words):
        self.is_done("renew", "--token", token, "--lease", lease, *words)

    def release(self, token, *words):
        self.is_done("release", "--token", token, *words)

    def is_done(self, *words):
        result = self.holdfast(*words)
        self.assert_code(result, 0)
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def is_not_held(self, token, *words):
        """Neither verb finds it, and what is there stays as it is."""
        before = self.server.command("DUMP", words[-1])
        left = self.server.command("PTTL", words[-1])
        for verb in (["renew", "--lease", "1h"], ["release"]):
            result = self.holdfast(*verb, "--token", token, *words)
            self.assert_code(result, 79)
            self.assert_one_message(result, "not held")
        self.assertEqual(self.server.command("DUMP", words[-1]), before)
        self.assertLessEqual(self.server.command("PTTL", words[-1]), left)

    def ends_by_itself(self, name):
        wait_until(lambda: not self.server.lock_exists(name), "it ends")


class Lives(TokenTest):
    def test_each_kind(self):
        for kind in KINDS:
            with self.subTest(kind):
                words = ("--kind", kind, "x")
                other = "write" if kind == "read" else kind
                token = self.acquire(*words)
                self.is_refused("--kind", other, "x")
                self.renew(token, "1h", *words)
                self.assertGreater(self.server.command("PTTL", "x"), 1800000)
                self.is_refused("--kind", other, "x")
                self.release(token, *words)
                self.assertFalse(self.server.lock_exists("x"))
                self.is_not_held(token, *words)

    def test_nobody_else_takes_it_meanwhile(self):
        token = self.acquire("x")
        self.is_refused("x")
        result = self.holdfast("run", "-n", "x", "--", "touch", "ran")
        self.assert_code(result, 75)
        waiter = self.start("run", "x", "--", "echo", "mine")
        self.wait_for_waiter(waiter)
        self.assertEqual(waiter.out.text(), "")
        self.release(token, "x")
        self.assertEqual(waiter.wait(), 0)
        self.assertEqual(waiter.out.text(), "mine\n")

    def test_lease(self):
        self.acquire("x")
        self.assertTrue(
            240000 < self.server.command("PTTL", "x") <= 300000)
        self.acquire("--lease", "1h", "y")
        self.assertTrue(
            3000000 < self.server.command("PTTL", "y") <= 3600000)

    def test_ends_by_itself(self):
        token = self.acquire("--lease", "2s", "x")
        self.ends_by_itself("x")
        self.is_not_held(token, "x")
        after = self.acquire("-n", "x")
        self.is_not_held(token, "x")
        self.release(after, "x")

    def test_renewed_it_lives_on(self):
        token = self.acquire("--lease", "20s", "x")
        self.renew(token, "1h", "x")
        self.assertTrue(
            3000000 < self.server.command("PTTL", "x") <= 3600000)
        self.is_refused("x")
        self.assertEqual(self.server.command("HGET", "x", token), "1")
        self.renew(token, "2s", "x")
        self.ends_by_itself("x")
        self.is_not_held(token, "x")

    def test_waits(self):
        token = self.acquire("x")
        result = self.holdfast("acquire", "-w", "1s", "x")
        self.assert_code(result, 75)
        self.assertEqual(result.stdout, "")
        waiter = self.start("acquire", "x")
        self.wait_for_waiter(waiter)
        self.release(token, "x")
        self.assertEqual(waiter.wait(), 0)
        self.release(waiter.out.text().rstrip("\n"), "x")

    def test_a_signal_ends_the_wait(self):
        self.acquire("x")
        waiter = self.start("acquire", "x")
        self.wait_for_waiter(waiter)
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.wait(), -signal.SIGTERM)
        self.assertEqual(waiter.out.text(), "")

    def test_readers_share(self):
        first = self.acquire("--kind", "read", "x")
        second = self.acquire("--kind", "read", "x")
        self.release(first, "--kind", "read", "x")
        self.is_refused("--kind", "write", "x")
        self.release(second, "--kind", "read", "x")
        self.assertFalse(self.server.lock_exists("x"))

    def test_what_cannot_be_told_is_given_back(self):
        for words in (["x"], ["--json", "x"], ["--kind", "write", "x"]):
            with open("/dev/full", "wb") as full:
                code = subprocess.call(
                    [BIN, "acquire", *words], env=self.environment(),
                    stdout=full, stderr=subprocess.DEVNULL, timeout=LIMIT)
            self.assertEqual(code, 74)
            self.assertFalse(self.server.lock_exists("x"))


class Tokens(TokenTest):
    def test_wrong_token(self):
        self.is_not_held(NOBODYS, "x")
        self.assertFalse(self.server.lock_exists("x"))
        token = self.acquire("--lease", "1m", "x")
        self.is_not_held(NOBODYS, "x")
        self.is_not_held(token + "0", "x")
        self.is_not_held(token, "y")
        self.release(token, "x")

    def test_no_token_at_all(self):
        self.acquire("--lease", "1m", "x")
        for token in ("", "nobody", NOBODYS + "2" * 40):
            for verb in (["renew", "--lease", "1h"], ["release"]):
                result = self.holdfast(*verb, "--token", token, "x")
                self.assert_code(result, 64)
                self.assert_one_message(result, "no owner's id")
        self.is_refused("x")

    def test_wrong_kind(self):
        for kind in KINDS:
            words = ("--kind", kind, "x")
            token = self.acquire("--lease", "1m", *words)
            for other in KINDS:
                if other != kind and not {kind, other} <= set(HASHES):
                    with self.subTest(kind=kind, other=other):
                        self.is_not_held(token, "--kind", other, "x")
            self.release(token, *words)
            self.assertFalse(self.server.lock_exists("x"))

    def test_wrong_type(self):
        self.server.command("RPUSH", "x", "1")
        for verb in (["acquire", "-n"], ["release", "--token", NOBODYS]):
            self.assert_code(self.holdfast(*verb, "x"), 65)


class Words(TokenTest):
    def test_json(self):
        for kind in ("reentrant", "fenced", "write"):
            result = self.holdfast("acquire", "--json", "--kind", kind, kind)
            self.assert_code(result, 0)
            line = json.loads(result.stdout)
            self.assertIn(self.server.socket_path, line.pop("server"))
            token = line.pop("token")
            self.assertRegex(token + "\n", TOKEN)
            wanted = {"v": 1, "name": kind}
            if kind == "fenced":
                wanted["fencing_token"] = int(self.server.command(
                    "GET", "redisson_lock_token:{fenced}"))
            self.assertEqual(line, wanted)
            self.release(token, "--kind", kind, kind)

    def test_json_name_of_any_bytes(self):
        result = self.holdfast("acquire", "--json", b"\xff")
        self.assertEqual(json.loads(result.stdout)["name_base64"], "/w==")

    def test_verbose(self):
        result = self.holdfast("acquire", "--verbose", "x")
        self.assertRegex(result.stdout, TOKEN)
        self.assertIn('holdfast: acquired "x"\n', result.stderr)
        for verb in (["renew", "--lease", "1m"], ["release"]):
            words = ["--verbose", "--token", result.stdout.strip(), "x"]
            self.assertRegex(self.holdfast(*verb, *words).stderr,
                             f'holdfast: {verb[0]}e?d "x"\n')

    def test_usage(self):
        token = ["--token", NOBODYS]
        for words, pattern in (
                (["acquire"], "NAME is missing"),
                (["acquire", ""], "empty"),
                (["acquire", "x", "y"], "too many"),
                (["acquire", "-n", "-w", "1", "x"], "exclude each other"),
                (["acquire", "--permits", "2", "x"], "--permits"),
                (["acquire", "--kind", "permit", "x"], "not one of"),
                (["acquire", "--lease", "0", "x"], "--lease .*duration"),
                (["acquire", "--lease", "8785h", "x"], "--lease .*duration"),
                (["acquire", *token, "x"], "--token"),
                (["renew", "--lease", "1m", "x"], "--token is missing"),
                (["renew", *token, "x"], "--lease is missing"),
                (["renew", *token, "--lease", "1m"], "NAME is missing"),
                (["renew", *token, "--lease", "1m", "x", "y"], "too many"),
                (["renew", *token, "--lease", "1m", "--kind", "", "x"],
                 "not one of"),
                (["release", "x"], "--token is missing"),
                (["release", *token, ""], "empty"),
                (["release", *token, "x", "y"], "too many"),
                (["release", *token, "--permits", "2", "x"], "--permits"),
                (["release", *token, "--lease", "1m", "x"], "--lease")):
            result = self.holdfast(*words)
            self.assert_code(result, 64)
            self.assert_one_message(result, pattern)
        self.assertEqual(self.server.command("KEYS", "*"), [])

    def test_unreachable(self):
        nowhere = ("--url", "redis://127.0.0.1:1", "x")
        for words in (["acquire", "-n"],
                      ["renew", "--token", NOBODYS, "--lease", "1m"],
                      ["release", "--token", NOBODYS]):
            result = self.holdfast(*words, *nowhere)
            self.assert_code(result, 69)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
