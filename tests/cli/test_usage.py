"""Bad input: a clear error, and nothing is changed or run."""

import unittest

from support import CliTest


class Usage(CliTest):
    def refused(self, *words, pattern=".", code=64):
        result = self.holdfast(*words)
        self.assert_code(result, code)
        self.assert_one_message(result, pattern)
        self.assertEqual(self.server.command("KEYS", "*"), [])
        self.assertFalse((self.dir / "ran").exists())

    def test_no_verb(self):
        self.refused(pattern="verb")

    def test_unknown_option(self):
        self.refused("--nosuch", pattern="--nosuch")
        self.refused("run", "--nosuch", "x", "--", "touch", "ran",
                     pattern="--nosuch")
        self.refused("run", "x", "-q", "--", "touch", "ran", pattern="-q")
        self.refused("run", "-nq", "x", "--", "touch", "ran", pattern="-nq")
        self.refused("status", "--ttl", "3", "x", pattern="--ttl")
        self.refused("server", "status", "--url", "x", pattern="--url")

    def test_value_of_an_unknown_option_is_not_repeated(self):
        result = self.holdfast("run", "--passwrod=geheim", "x", "--", "true")
        self.assert_code(result, 64)
        self.assertNotIn("geheim", result.stderr)

    def test_option_without_its_value(self):
        self.refused("run", "x", "-w", pattern="--wait needs DURATION")
        self.refused("run", "x", "--ttl", pattern="--ttl needs DURATION")
        self.refused("run", "--nonblock=1", "x", "--", "touch", "ran",
                     pattern="--nonblock takes no value")

    def test_empty_name(self):
        self.refused("run", "", "--", "touch", "ran", pattern="empty")
        self.refused("status", "", pattern="empty")
        self.refused("unlock", "--force", "--yes", "", pattern="empty")

    def test_missing_name(self):
        self.refused("run", pattern="NAME is missing")
        self.refused("run", "-n", pattern="NAME is missing")
        self.refused("status", pattern="NAME is missing")
        self.refused("unlock", "--force", "--yes", pattern="NAME is missing")
        self.refused("server", pattern="status or stop")

    def test_missing_command(self):
        self.refused("run", "x", pattern="no command")
        self.refused("run", "x", "--", pattern="no command")
        self.refused("run", "--", "x", pattern="no command")

    def test_command_without_dashes(self):
        self.refused("run", "x", "touch", "ran", pattern="put --")
        self.refused("run", "x", "-n", "touch", "ran", pattern="put --")

    def test_two_commands(self):
        self.refused("run", "x", "-c", "touch ran", "--", "touch", "ran",
                     pattern="exclude each other")

    def test_too_many(self):
        self.refused("list", "a", "b", pattern="too many")
        self.refused("unlock", "--force", "--yes", "a", "b",
                     pattern="too many")
        self.refused("server", "status", "stop", pattern="too many")
        self.refused("server", "start", pattern="start")

    def test_durations(self):
        for text in ("", "x", "1x", "-1", "1e3", "0x10", "inf", "nan", " 1",
                     "1 s", "1m30s", ".", "s", "1,5", "1d", "+1", "9" * 30,
                     "1.2.3"):
            self.refused("run", "--wait", text, "x", "--", "touch", "ran",
                         pattern="--wait .*duration")

    def test_ranges(self):
        for option, text in (("--ttl", "0"), ("--ttl", "19ms"),
                             ("--ttl", "8785h"), ("--lease", "0"),
                             ("--lease", "8785h"), ("--max-hold", "0"),
                             ("--wait", "8785h"), ("--kill-after", "9000h")):
            self.refused("run", option, text, "x", "--", "touch", "ran",
                         pattern=f"{option} .*duration from")
        for text in ("256", "-1", "x", "", "1.5", "99999999999999"):
            self.refused("run", "-E", text, "x", "--", "touch", "ran",
                         pattern="number from 0 to 255")

    def test_durations_that_are_good(self):
        for text in ("500ms", "30s", "2m", "1h", "30", "0.5", ".5", "0.5s",
                     "1.5m", "0"):
            result = self.holdfast("run", "--wait", text, "x", "--", "true")
            self.assert_code(result, 0)

    def test_on_lost(self):
        for text in ("", "stop", "signal", "signal:", "signal:NOSUCH",
                     "signal:0", "signal:999", "signal:-1", "KILL"):
            self.refused("run", "--on-lost", text, "x", "--", "touch", "ran",
                         pattern="--on-lost takes")

    def test_what_excludes_each_other(self):
        for words in (["-n", "-w", "1"], ["--lease", "1", "--ttl", "1"],
                      ["--lease", "1", "--max-hold", "5"]):
            self.refused("run", *words, "x", "--", "touch", "ran",
                         pattern="exclude each other")

    def test_kill_after_is_at_most_a_third_of_the_lease(self):
        for words in (["--kill-after", "10001ms"],
                      ["--kill-after", "4s", "--ttl", "10s"],
                      ["--kill-after", "4s", "--lease", "10s"]):
            self.refused("run", *words, "x", "--", "touch", "ran",
                         pattern="third of the lease")
        self.refused("run", "--kill-after", "5s", "--max-hold", "5s", "x",
                     "--", "touch", "ran", pattern="--max-hold")
        result = self.holdfast("run", "--kill-after", "10s", "x", "--", "true")
        self.assert_code(result, 0)

    def test_urls(self):
        for url in ("", "localhost", "http://localhost", "redis:",
                    "redis://host:0", "redis://host:99999",
                    "redis://host/notanumber", "unix://relative",
                    "redis+sentinel://host", "unix:///path?nosuch=1"):
            self.refused("run", "--url", url, "x", "--", "touch", "ran",
                         code=78)

    def test_odd_names_work(self):
        for name in ("-n", "--", "a b", "a\nb", "{x}", "%s%n", "*"):
            result = self.holdfast("run", "--", name, "--", "sh", "-c",
                                   'printf "%s|" "$HOLDFAST_LOCK"')
            self.assert_code(result, 0)
            self.assertEqual(result.stdout, name + "|")
        result = self.holdfast("run", "n" * 100000, "--", "true")
        self.assert_code(result, 0)


if __name__ == "__main__":
    unittest.main()
