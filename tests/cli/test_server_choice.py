"""Which server, and passwords that nobody sees."""

import json
import os
import pathlib
import unittest

from support import BIN, CliTest, Server, children, wait_until

SECRET = "s3cr3t-of-the-test"


class Precedence(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = Server()
        cls.addClassCleanup(cls.other.close)
        cls.third = Server()
        cls.addClassCleanup(cls.third.close)

    def server_used(self, *options, **variables):
        """The one of the three on which the lock appears."""
        env = self.environment(**variables)
        holder = self.hold("which", *options, env=env)
        found = [server for server in (self.server, self.other, self.third)
                 if server.lock_exists("which")]
        holder.signal(15)
        holder.wait()
        self.assertEqual(len(found), 1)
        return found[0]

    def test_option_over_both_variables(self):
        self.assertIs(self.server_used(
            "--url", self.third.url, HOLDFAST_URL=self.server.url,
            REDIS_URL=self.other.url), self.third)

    def test_holdfast_url_over_redis_url(self):
        self.assertIs(self.server_used(
            HOLDFAST_URL=self.other.url, REDIS_URL=self.server.url),
            self.other)

    def test_redis_url(self):
        self.assertIs(self.server_used(
            HOLDFAST_URL=None, REDIS_URL=self.other.url), self.other)

    def test_empty_variable_is_not_set(self):
        self.assertIs(self.server_used(
            HOLDFAST_URL="", REDIS_URL=self.other.url), self.other)

    def test_unix_urls_and_databases(self):
        path = self.server.socket_path
        for url in (f"unix://{path}?db=3", f"redis+unix://{path}?db=3"):
            holder = self.hold("deep", "--url", url)
            self.assertFalse(self.server.lock_exists("deep"))
            self.assertIn("db3:keys=1", self.server.command("INFO", "keyspace"))
            holder.signal(15)
            holder.wait()


class Verbose(CliTest):
    def test_one_line_says_the_server(self):
        result = self.holdfast("run", "--verbose", "x", "--", "true")
        self.assertEqual(result.stdout, "")
        lines = [line for line in result.stderr.splitlines()
                 if self.server.socket_path in line and "server" in line]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn("HOLDFAST_URL", lines[0])
        self.assertTrue(lines[0].startswith("holdfast: "))

    def test_option_as_origin(self):
        result = self.holdfast("status", "--verbose", "--url", self.server.url,
                               "x")
        self.assertRegex(result.stderr, r"server \S+ \(from --url\)")

    def test_silent_without_it(self):
        result = self.holdfast("run", "x", "--", "true")
        self.assertEqual(result.stdout + result.stderr, "")


class Embedded(CliTest):
    def setUp(self):
        super().setUp()
        self.env = self.environment(HOLDFAST_URL=None)
        self.addCleanup(self.holdfast, "server", "stop", env=self.env)

    def server_status(self):
        result = self.holdfast("server", "status", "--json", env=self.env)
        return result.returncode, json.loads(result.stdout)

    def test_life(self):
        code, status = self.server_status()
        self.assertEqual((code, status["running"], status["v"]), (1, False, 1))
        result = self.holdfast("server", "status", env=self.env)
        self.assert_code(result, 1)
        self.assertEqual(result.stdout, "not running\n")

        result = self.holdfast("run", "--verbose", "x", "--", "echo", "ran",
                               env=self.env)
        self.assert_code(result, 0)
        self.assertEqual(result.stdout, "ran\n")
        self.assertRegex(result.stderr, r"server \S+ \(embedded\)")

        code, status = self.server_status()
        self.assertEqual((code, status["running"]), (0, True))
        self.assertTrue(os.path.exists(status["socket"]))
        self.assertRegex(status["version"], r"\d+\.\d+")
        self.assertGreaterEqual(status["uptime_s"], 0)
        self.assertTrue(pathlib.Path(f"/proc/{status['pid']}").exists())
        result = self.holdfast("server", "status", env=self.env)
        self.assertRegex(result.stdout, rf"\Arunning: .*pid {status['pid']}\b")

        result = self.holdfast("server", "stop", "--json", env=self.env)
        self.assertEqual(json.loads(result.stdout), {"v": 1, "stopped": True})
        code, status = self.server_status()
        self.assertEqual((code, status["running"]), (1, False))
        result = self.holdfast("server", "stop", env=self.env)
        self.assert_code(result, 0)
        self.assertEqual(result.stdout, "")

    def test_all_processes_share_it(self):
        holder = self.hold("x", env=self.env)
        result = self.holdfast("run", "-n", "x", "--", "true", env=self.env)
        self.assert_code(result, 75)

    def test_signals_reach_its_own_command_only(self):
        # Started by a runner that blocks signals and is killed: the server
        # must have neither.
        holder = self.hold("x", env=self.env)
        pid = self.server_status()[1]["pid"]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertRegex(status, r"SigBlk:\t0+\n")
        holder.signal(9)
        holder.wait()
        self.assertEqual(self.server_status()[0], 0)


class Passwords(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.command("ACL", "SETUSER", "ann", "on", ">" + SECRET,
                           "~*", "&*", "+@all")

    def setUp(self):
        super().setUp()
        self.url = f"redis+unix://ann@{self.server.socket_path}"
        self.url_with = f"redis+unix://ann:{SECRET}@{self.server.socket_path}"

    def password_file(self, text):
        path = self.dir / "password"
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def assert_secret_unseen(self, pid):
        """Neither in the arguments nor in the environment of the runner and
        of the guard, as ps shows them."""
        for process in [pid, *children(pid)]:
            for name in ("cmdline", "environ"):
                data = pathlib.Path(f"/proc/{process}/{name}").read_bytes()
                self.assertNotIn(SECRET.encode(), data, (process, name))

    def hold_and_look(self, *options, command_sees=False, **variables):
        holder = self.hold("x", "--verbose", *options,
                           env=self.environment(**variables))
        if not command_sees:
            self.assert_secret_unseen(holder.pid)
        else:
            data = pathlib.Path(f"/proc/{holder.pid}/environ").read_bytes()
            self.assertNotIn(SECRET.encode(), data)
        self.assertTrue(self.server.lock_exists("x"))
        self.assertNotIn(SECRET, holder.err.text())
        return holder

    def test_variable(self):
        holder = self.hold_and_look(HOLDFAST_URL=self.url,
                                    HOLDFAST_PASSWORD=SECRET)
        self.assertNotIn("warning", holder.err.text())

    def test_file(self):
        self.hold_and_look(
            "--password-file", self.password_file(SECRET + "\nnot this\n"),
            HOLDFAST_URL=self.url)

    def test_file_over_variable_over_url(self):
        wrong = f"redis+unix://ann:wrong@{self.server.socket_path}"
        self.hold_and_look(
            "--password-file", self.password_file(SECRET),
            HOLDFAST_URL=wrong, HOLDFAST_PASSWORD="wrong").signal(15)
        wait_until(lambda: not self.server.lock_exists("x"), "released")
        self.hold_and_look(HOLDFAST_URL=wrong, HOLDFAST_PASSWORD=SECRET)

    def test_url_in_variable(self):
        holder = self.hold_and_look(command_sees=True,
                                    HOLDFAST_URL=self.url_with)
        self.assertNotIn("warning", holder.err.text())
        # The command may take locks of its own.
        result = self.holdfast("run", "y", "--", BIN, "run", "z", "--", "true",
                               env=self.environment(HOLDFAST_URL=self.url_with))
        self.assert_code(result, 0)

    def test_url_on_the_command_line_works_and_is_warned_about(self):
        for words in (["--url", self.url_with], ["--url=" + self.url_with]):
            holder = self.hold_and_look(*words)
            self.assertRegex(holder.err.text(),
                             r"(?m)^holdfast: warning: a password on the "
                             r"command line .*--password-file$")
            holder.signal(15)
            holder.wait()

    def test_no_warning_without_a_password(self):
        result = self.holdfast("status", "--url", self.server.url, "x")
        self.assertEqual(result.stderr, "")

    def test_wrong_password(self):
        for url, password in ((self.url, "wr0ng-one"), (self.url_with, None)):
            self.server.command("ACL", "SETUSER", "ann", "resetpass", ">other")
            result = self.holdfast(
                "run", "--verbose", "x", "--", "echo", "no",
                env=self.environment(HOLDFAST_URL=url,
                                     HOLDFAST_PASSWORD=password))
            self.server.command("ACL", "SETUSER", "ann", "resetpass",
                                ">" + SECRET)
            self.assert_code(result, 77)
            self.assertEqual(result.stdout, "")
            self.assertNotIn(SECRET, result.stderr)
            self.assertNotIn("wr0ng-one", result.stderr)

    def test_secret_in_bad_urls(self):
        for url in (f"ftp://u:{SECRET}@host", f"redis://u:{SECRET}@host:port",
                    f"redis://u:{SECRET}/x@host", f"redis:/u:{SECRET}@host",
                    f"redis://u:{SECRET}@host/db",
                    f"unix://u:{SECRET}@/path?nosuch=1"):
            result = self.holdfast("run", "--verbose", "--url", url, "x", "--",
                                   "true")
            self.assert_code(result, 78)
            self.assertNotIn(SECRET, result.stdout + result.stderr)

    def test_file_that_is_no_use(self):
        for path in (str(self.dir / "none"), str(self.dir),
                     self.password_file("\nsecond line\n")):
            result = self.holdfast("run", "--password-file", path, "x", "--",
                                   "echo", "no")
            self.assert_code(result, 78)
            self.assert_one_message(result, "password-file")
        result = self.holdfast("run", "--password-file",
                               self.password_file("x" * 10000), "x", "--",
                               "true")
        self.assert_code(result, 78)


if __name__ == "__main__":
    unittest.main()
