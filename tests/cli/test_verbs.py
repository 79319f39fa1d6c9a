"""status, list, unlock, help, version, and their JSON."""

import base64
import json
import re
import subprocess
import unittest

from support import BIN, CliTest, ROOT

OWNER = "11111111-2222-4333-8444-555555555555:7"
HEAD = ["STATE", "KIND", "HOLDS", "REMAINING", "VALUE", "OWNER", "NAME"]


class VerbTest(CliTest):
    def lock(self, name, owner=OWNER, count=1, ttl=60000):
        self.server.command("HSET", name, owner, str(count))
        if ttl:
            self.server.command("PEXPIRE", name, str(ttl))

    def objects(self, *words, code=0):
        result = self.holdfast(*words, "--json")
        self.assert_code(result, code)
        return [json.loads(line) for line in result.stdout.splitlines()]


class Status(VerbTest):
    def test_json_of_a_held_lock(self):
        self.lock("deploy", count=2)
        (line,) = self.objects("status", "deploy")
        self.assertTrue(0 < line.pop("remaining_ms") <= 60000)
        self.assertIn(self.server.socket_path, line.pop("server"))
        (holder,) = line.pop("holders")
        self.assertTrue(0 < holder.pop("remaining_ms") <= 60000)
        self.assertEqual(holder, {"owner": OWNER, "hold_count": 2})
        self.assertEqual(line, {"v": 1, "name": "deploy", "kind": "lock",
                                "locked": True, "owner": OWNER,
                                "hold_count": 2, "waiters": []})

    def test_json_of_a_free_one(self):
        (line,) = self.objects("status", "deploy")
        line.pop("server")
        self.assertEqual(line, {"v": 1, "name": "deploy", "kind": None,
                                "locked": False, "owner": None,
                                "hold_count": 0, "remaining_ms": None,
                                "holders": [], "waiters": []})

    def test_json_of_one_without_an_end(self):
        self.lock("deploy", ttl=None)
        (line,) = self.objects("status", "deploy")
        self.assertEqual((line["locked"], line["remaining_ms"]), (True, None))

    def test_several_in_order(self):
        self.lock("b")
        lines = self.objects("status", "c", "b", "a")
        self.assertEqual([line["name"] for line in lines], ["c", "b", "a"])
        self.assertEqual([line["locked"] for line in lines],
                         [False, True, False])

    def test_table(self):
        self.lock("deploy now")
        result = self.holdfast("status", "deploy now", "free")
        self.assert_code(result, 0)
        head, held, free = result.stdout.splitlines()
        self.assertEqual(head.split(), HEAD)
        self.assertRegex(held,
                         rf"\Alocked +lock +1 +59s +- +{OWNER} +deploy now\Z")
        self.assertRegex(free, r"\Afree .* free\Z")
        self.assertEqual(result.stderr, "")

    def test_one_of_our_own_runners(self):
        self.hold("deploy", "--ttl", "20s")
        (line,) = self.objects("status", "deploy")
        self.assertTrue(10000 < line["remaining_ms"] <= 20000)

    def test_what_is_no_lock(self):
        self.server.command("RPUSH", "pile", "1")
        self.server.command("HSET", "user", "name", "ann", "age", "7")
        self.server.command("SET", "page", "x" * 300)
        self.server.command("HSET", "two", "a:1", 1, "b:2", 1)
        self.lock("b")
        result = self.holdfast("status", "pile", "user", "page", "two", "b")
        self.assert_code(result, 65)
        for line, name, kind in zip(result.stderr.splitlines(),
                                    ("pile", "user", "page", "two"),
                                    ("list", "hash", "string", "hash"),
                                    strict=True):
            self.assertRegex(line, rf'\Aholdfast: "{name}" on .*a {kind}, no')
        self.assertRegex(result.stdout, "(?m)^locked .* b$")

    def test_name_that_is_not_utf8(self):
        name = b"caf\xe9"
        self.lock(name)
        (line,) = self.objects("status", name)
        self.assertNotIn("name", line)
        self.assertEqual(base64.b64decode(line["name_base64"]), name)
        result = self.holdfast("status", name)
        self.assertIn(r"caf\xe9", result.stdout)

    def test_name_of_other_letters(self):
        self.lock("größe-鎖")
        (line,) = self.objects("status", "größe-鎖")
        self.assertEqual(line["name"], "größe-鎖")

    def test_unreachable(self):
        result = self.holdfast("status", "--url", "redis://127.0.0.1:1", "x")
        self.assert_code(result, 69)
        self.assertEqual(result.stdout, "")


class List(VerbTest):
    def names(self, *words):
        return sorted(line["name"] for line in self.objects("list", *words))

    def test_all(self):
        self.lock("a")
        self.lock("b")
        self.server.command("SET", "string", "1")
        self.assertEqual(self.names(), ["a", "b"])

    def test_glob(self):
        for name in ("deploy:1", "deploy:2", "other"):
            self.lock(name)
        self.assertEqual(self.names("deploy:*"), ["deploy:1", "deploy:2"])
        self.assertEqual(self.names("deploy:[2]"), ["deploy:2"])
        self.assertEqual(self.names("nothing*"), [])

    def test_many_and_without_keys(self):
        names = sorted(f"lock:{i}" for i in range(3000))
        for name in names:
            self.server.command("HSET", name, OWNER, "1")
        self.server.command("CONFIG", "RESETSTAT")
        self.assertEqual(self.names(), names)
        stats = self.server.command("INFO", "commandstats")
        self.assertIn("cmdstat_scan", stats)
        self.assertNotIn("cmdstat_keys", stats)

    def test_object_is_that_of_status(self):
        self.lock("deploy")
        (line,) = self.objects("list")
        (other,) = self.objects("status", "deploy")
        self.assertEqual(line.keys(), other.keys())
        self.assertEqual((line["owner"], line["locked"]), (OWNER, True))

    def test_table_of_none(self):
        result = self.holdfast("list")
        self.assert_code(result, 0)
        self.assertEqual(result.stdout.split(), HEAD)

    def test_binary_names(self):
        name = b"a\x00b\xff\n"
        self.lock(name)
        (line,) = self.objects("list")
        self.assertEqual(base64.b64decode(line["name_base64"]), name)
        result = self.holdfast("list")
        self.assertRegex(result.stdout, re.escape(r"a\x00b\xff\x0a") + "\n\\Z")

    def test_output_that_cannot_be_written(self):
        self.lock("a")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([BIN, "list"], stdout=full, check=False,
                                    stderr=subprocess.PIPE, text=True,
                                    env=self.environment(), timeout=30)
        self.assertEqual(result.returncode, 74)
        self.assertRegex(result.stderr, "holdfast: .*stdout")


class Unlock(VerbTest):
    def test_released(self):
        self.lock("deploy")
        result = self.holdfast("unlock", "--force", "--yes", "deploy")
        self.assert_code(result, 0)
        self.assertEqual(result.stdout + result.stderr, "")
        self.assertFalse(self.server.lock_exists("deploy"))

    def test_wakes_a_waiter(self):
        self.lock("deploy", ttl=600000)
        waiter = self.start("run", "deploy", "--", "echo", "mine")
        self.wait_for_waiter(waiter)
        self.holdfast("unlock", "--force", "-y", "deploy")
        self.assertEqual(waiter.wait(), 0)

    def test_not_locked(self):
        result = self.holdfast("unlock", "--force", "--yes", "deploy")
        self.assert_code(result, 1)
        self.assert_one_message(result, '"deploy" was not locked')

    def test_needs_force(self):
        self.lock("deploy")
        result = self.holdfast("unlock", "--yes", "deploy")
        self.assert_code(result, 64)
        self.assert_one_message(result, "--force")
        self.assertTrue(self.server.lock_exists("deploy"))

    def test_needs_yes_without_a_terminal(self):
        self.lock("deploy")
        result = self.holdfast("unlock", "--force", "deploy", stdin="y\n")
        self.assert_code(result, 64)
        self.assert_one_message(result, "--yes")
        self.assertTrue(self.server.lock_exists("deploy"))

    def test_json(self):
        self.lock("deploy")
        words = ("unlock", "--force", "--yes", "deploy")
        (line,) = self.objects(*words)
        self.assertIn(self.server.socket_path, line.pop("server"))
        self.assertEqual(line, {"v": 1, "name": "deploy", "released": True})
        (line,) = self.objects(*words, code=1)
        self.assertFalse(line["released"])

    def test_leaves_alone_what_is_no_lock(self):
        self.server.command("SET", "string", "1")
        result = self.holdfast("unlock", "--force", "--yes", "string")
        self.assert_code(result, 65)
        self.assert_one_message(result, "string")
        self.assertEqual(self.server.command("GET", "string"), "1")


class Help(CliTest):
    VERBS = ("run", "acquire", "renew", "release", "status", "list", "unlock",
             "sem", "latch", "server", "help")

    def test_version(self):
        header = (ROOT / "include/holdfast/holdfast.h").read_text()
        version = re.search(r'HF_VERSION_STRING "(.*)"', header)[1]
        result = self.holdfast("--version")
        self.assert_code(result, 0)
        self.assertEqual(result.stdout, f"holdfast {version}\n")

    def test_of_the_tool_names_each_verb(self):
        for words in (["help"], ["--help"], ["-h"]):
            result = self.holdfast(*words)
            self.assert_code(result, 0)
            self.assertEqual(result.stderr, "")
            for verb in self.VERBS:
                self.assertRegex(result.stdout, f"(?m)^  {verb} ")

    def test_of_each_verb_in_three_ways(self):
        for verb in self.VERBS:
            text = self.holdfast("help", verb).stdout
            self.assertIn(f"Usage: holdfast {verb}", text)
            for option in ("--help", "-h"):
                result = self.holdfast(verb, option)
                self.assert_code(result, 0)
                self.assertEqual(result.stdout, text)
            self.assertLess(max(map(len, text.splitlines())), 80)

    def test_behind_other_words(self):
        result = self.holdfast("run", "-n", "x", "--help")
        self.assert_code(result, 0)
        self.assertIn("Usage: holdfast run", result.stdout)

    def test_unknown_verb(self):
        for words in (["help", "nosuch"], ["nosuch"]):
            result = self.holdfast(*words)
            self.assert_code(result, 64)
            self.assert_one_message(result, "nosuch")


if __name__ == "__main__":
    unittest.main()
