"""The command: its exit code, its environment, its descriptors."""

import os
import signal
import subprocess
import unittest

from support import BIN, CliTest, children, is_alive


class ExitCodes(CliTest):
    def test_the_commands_own(self):
        for code in (0, 1, 3, 64, 75, 79, 255):
            result = self.holdfast("run", "x", "--", "sh", "-c",
                                   f"exit {code}")
            self.assert_code(result, code)
            self.assertEqual(result.stderr, "")

    def test_128_and_the_signal(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT,
                       signal.SIGSEGV):
            result = self.holdfast("run", "x", "--", "sh", "-c",
                                   f"kill -{int(number)} $$")
            self.assert_code(result, 128 + number)

    def test_not_found(self):
        for name in ("no-such-command-here", "/no/such/command"):
            result = self.holdfast("run", "x", "--", name)
            self.assert_code(result, 127)
            self.assert_one_message(result, "no.such.command")

    def test_cannot_be_executed(self):
        plain = self.dir / "plain"
        plain.write_text("#!/bin/sh\n")
        for path in (plain, self.dir):
            result = self.holdfast("run", "x", "--", str(path))
            self.assert_code(result, 126)
            self.assert_one_message(result, "Permission denied")

    def test_unreachable(self):
        for url in (f"unix://{self.dir}/none.sock", "redis://127.0.0.1:1"):
            result = self.holdfast("run", "--url", url, "x", "--", "echo", "no")
            self.assert_code(result, 69)
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, r"\Aholdfast: [^\n]*\n\Z")

    def test_configuration(self):
        result = self.holdfast("run", "--url", "ftp://somewhere", "x", "--",
                               "true")
        self.assert_code(result, 78)

    def test_permission(self):
        self.server.command("ACL", "SETUSER", "small", "on", ">pw", "~other:*",
                            "&*", "+@all")
        self.addCleanup(self.server.command, "ACL", "DELUSER", "small")
        result = self.holdfast(
            "run", "--url",
            f"redis+unix://small@{self.server.socket_path}", "x", "--",
            "echo", "no", env=self.environment(HOLDFAST_PASSWORD="pw"))
        self.assert_code(result, 77)
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.server.lock_exists("x"))

    def test_wrong_type_names_the_key(self):
        self.server.command("SET", "plain-string", "1")
        result = self.holdfast("run", "plain-string", "--", "echo", "no")
        self.assert_code(result, 65)
        self.assert_one_message(result, "plain-string")
        self.assertEqual(self.server.command("GET", "plain-string"), "1")


class Shell(CliTest):
    def test_command_option_uses_the_shell(self):
        result = self.holdfast("run", "x", "-c", "echo a | tr a b; exit 4",
                               env=self.environment(SHELL="/bin/sh"))
        self.assert_code(result, 4)
        self.assertEqual(result.stdout, "b\n")

    def test_shell_variable_is_honoured(self):
        fake = self.dir / "fakeshell"
        fake.write_text('#!/bin/sh\necho "fake:$1:$2"\n')
        fake.chmod(0o755)
        result = self.holdfast("run", "--command", "the line", "x",
                               env=self.environment(SHELL=str(fake)))
        self.assertEqual(result.stdout, "fake:-c:the line\n")

    def test_without_the_variable_it_is_sh(self):
        result = self.holdfast("run", "x", "-c", 'echo "$0"',
                               env=self.environment(SHELL=None))
        self.assertEqual(result.stdout, "/bin/sh\n")

    def test_no_shell_without_it(self):
        result = self.holdfast("run", "x", "--", "echo", "$HOME", "*", "; ls")
        self.assertEqual(result.stdout, "$HOME * ; ls\n")

    def test_options_of_the_command_are_its_own(self):
        result = self.holdfast("run", "x", "--", "echo", "-n", "--wait", "--")
        self.assertEqual(result.stdout, "--wait --")


class Surroundings(CliTest):
    def test_environment(self):
        result = self.holdfast(
            "run", "the lock", "--", "sh", "-c",
            'echo "$HOLDFAST_LOCK|$KEPT"; echo "$HOLDFAST_OWNER" > owner; '
            "sleep 0.01",
            env=self.environment(KEPT="yes", HOLDFAST_LOCK="old",
                                 HOLDFAST_OWNER="old"))
        self.assertEqual(result.stdout, "the lock|yes\n")
        self.assertRegex((self.dir / "owner").read_text(), r"^[^:\n]+:\d+$")

    def test_owner_is_the_one_on_the_server(self):
        runner = self.start("run", "x", "--", "sh", "-c",
                            "echo held by $HOLDFAST_OWNER; exec sleep 1000")
        shown = runner.out.wait_for(r"held by (\S+)\n")[1]
        self.assertEqual(self.server.command("HGETALL", "x"), [shown, "1"])

    def test_password_is_not_handed_on(self):
        result = self.holdfast(
            "run", "x", "--", "sh", "-c", 'echo "${HOLDFAST_PASSWORD-unset}"',
            env=self.environment(HOLDFAST_PASSWORD=""))
        self.assertEqual(result.stdout, "unset\n")

    def test_url_is_handed_on(self):
        result = self.holdfast("run", "x", "--", BIN, "run", "-n", "x", "--",
                               "true")
        self.assert_code(result, 75)

    def test_standard_input_passes_through(self):
        text = "".join(f"line {i}\n" for i in range(20000))
        result = self.holdfast("run", "x", "--", "cat", stdin=text)
        self.assertEqual(result.stdout, text)

    def test_pipeline_ends_with_the_command(self):
        # A reader of our stdout sees its end although guard and library ran.
        result = subprocess.run(
            f"'{BIN}' run x -- echo out | cat", shell=True, text=True,
            capture_output=True, env=self.environment(), timeout=30,
            check=False)
        self.assertEqual(result.stdout, "out\n")

    def test_no_descriptor_of_ours_reaches_the_command(self):
        result = self.holdfast("run", "x", "--", "sh", "-c",
                               "ls /proc/$$/fd; true")
        self.assertEqual(result.stdout.split(), ["0", "1", "2"])

    def test_inherited_descriptors_do(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        with os.fdopen(write, "w"):
            self.holdfast("run", "x", "--", "sh", "-c", f"echo hi >&{write}",
                          pass_fds=[write])
            self.assertEqual(os.read(read, 10), b"hi\n")

    def test_closed_standard_descriptors(self):
        result = subprocess.run(
            f"'{BIN}' run x -- sh -c 'echo ran > ran' <&- >&- 2>&-",
            shell=True, env=self.environment(), cwd=self.dir, timeout=30,
            check=False)
        self.assertEqual(result.returncode, 0)
        self.assertEqual((self.dir / "ran").read_text(), "ran\n")

    def test_signal_mask_and_dispositions(self):
        fields = "SigBlk|SigIgn|SigCgt"
        script = f"grep -E '{fields}' /proc/self/status"
        plain = subprocess.run(["sh", "-c", script], text=True, check=False,
                               capture_output=True).stdout
        result = self.holdfast("run", "x", "--", "sh", "-c", script)
        self.assertEqual(result.stdout, plain)

    def test_ignored_signals_stay_ignored(self):
        # As under nohup: the command is not to die of what its caller
        # ignores.
        runner = self.hold(
            "x",
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        runner.signal(signal.SIGHUP)
        runner.signal(signal.SIGTERM)
        self.assertEqual(runner.wait(), 128 + signal.SIGTERM)

    def test_own_process_group(self):
        result = self.holdfast(
            "run", "x", "--", "sh", "-c",
            "ps -o pgid= -p $$ | tr -d ' '; echo $$")
        group, pid = result.stdout.split()
        self.assertEqual(group, pid)


class LeftBehind(CliTest):
    def test_background_children_live_on(self):
        # As with flock(1): what the command leaves on purpose is its affair.
        result = self.holdfast("run", "x", "--", "sh", "-c",
                               "sleep 1000 >&- 2>&- & echo $!")
        self.assert_code(result, 0)
        pid = int(result.stdout)
        self.assertTrue(is_alive(pid))
        os.kill(pid, signal.SIGKILL)

    def test_no_process_of_ours_is_left(self):
        runner = self.start("run", "x", "--", "sh", "-c",
                            "echo held; read x < fifo", cwd=None)
        runner.signal(signal.SIGTERM)
        runner.wait()
        self.assertEqual(self.still_running(), [])

    def setUp(self):
        super().setUp()
        os.mkfifo(self.dir / "fifo")

    def start(self, *words, **options):
        options.pop("cwd", None)
        runner = super().start(*words, **options)
        runner.out.wait_for("held")
        self.family = children(runner.pid)
        self.assertEqual(len(self.family), 2)  # command and guard
        return runner

    def still_running(self):
        return [pid for pid in self.family if is_alive(pid)]


if __name__ == "__main__":
    unittest.main()
