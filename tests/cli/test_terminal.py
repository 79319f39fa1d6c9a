"""On a terminal: the waiting line, Ctrl-C, Ctrl-Z, fg, reading from it."""

import os
import re
import shlex
import shutil
import unittest

from support import (BIN, HEARTBEAT, Beats, CliTest, Terminal, boottime,
                     process_state, wait_for_exec, wait_until)

BASH = shutil.which("bash")


class TerminalTest(CliTest):
    def environment(self, **changes):
        changes.setdefault("TERM", "dumb")
        changes.setdefault("PS1", "prompt> ")
        changes.setdefault("HISTFILE", "")
        return super().environment(**changes)

    def terminal(self, *words):
        terminal = Terminal(list(words), self.environment(), self.dir)
        self.addCleanup(terminal.close)
        return terminal

    def shell(self):
        """An interactive shell, which knows job control."""
        if not BASH:
            self.skipTest("no bash")
        shell = self.terminal(BASH, "--norc", "--noprofile", "--noediting",
                              "-i")
        shell.expect("prompt> ")
        # What is typed must not be taken for what is printed.
        shell.line(f"hf='{BIN}'; stty -echo")
        shell.expect("prompt> ")
        return shell


    def expect_exec(self, terminal, name="sleep"):
        """Waits for a command that ended with `echo ready $$; exec name`: a
        shell that forks is no good target for a key."""
        wait_for_exec(int(terminal.expect(r"ready (\d+)\r")[1]), name)


class WaitingLine(TerminalTest):
    def test_rewritten_each_second_and_cleared(self):
        holder = self.hold("deploy")
        terminal = self.terminal(BIN, "run", "deploy", "--", "echo", "mine")
        for second in (0, 1, 2):
            terminal.expect(rf'\rholdfast: waiting for "deploy": {second}s, '
                            r"lock's remaining time \d+s")
        self.assertNotIn("\n", terminal.text)
        holder.signal(15)
        self.assertEqual(terminal.wait(), 0)
        # Overwritten by blanks, then the command's line from column 0.
        self.assertRegex(terminal.text, r"\r {60,}\rmine\r\n\Z")

    def test_nothing_when_the_lock_is_free(self):
        terminal = self.terminal(BIN, "run", "deploy", "--", "echo", "mine")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.text, "mine\r\n")

    def test_long_name_stays_on_one_line(self):
        name = "n" * 300
        self.hold(name)
        terminal = self.terminal(BIN, "run", name, "--", "true")
        shown = terminal.expect(r"\rholdfast: waiting for [^\r]* time \d+s")[0]
        self.assertLess(len(shown), 80)

    def test_cleared_when_interrupted(self):
        self.hold("deploy")
        terminal = self.terminal(BIN, "run", "deploy", "--", "true")
        terminal.expect("waiting for")
        terminal.send("\x03")
        self.assertEqual(terminal.wait(), -2)
        self.assertRegex(terminal.text, r"\r {60,}\r\Z")


class WaitingLineElsewhere(CliTest):
    def test_one_line_at_the_start(self):
        holder = self.hold("deploy")
        waiter = self.start("run", "deploy", "--", "echo", "mine")
        waiter.err.wait_for("waiting for")
        end = boottime() + 2.5
        wait_until(lambda: boottime() > end, "two more seconds")
        holder.signal(15)
        self.assertEqual(waiter.wait(), 0)
        self.assertRegex(
            waiter.err.text(),
            r'\Aholdfast: waiting for "deploy": 0s, '
            r"lock's remaining time \d+s\n\Z")

    def test_lock_without_an_end(self):
        self.server.command("HSET", "deploy", "someone:1", "1")
        waiter = self.start("run", "deploy", "--", "true")
        waiter.err.wait_for("waiting for")
        self.assertRegex(waiter.err.text(), "lock without an end")

    def test_nothing_when_the_lock_is_free(self):
        result = self.holdfast("run", "deploy", "--", "true")
        self.assertEqual(result.stderr, "")

    def test_name_cannot_drive_the_terminal(self):
        name = "a\x1b[2Jb\nc\u202ed\u00e9"
        self.hold(name)
        waiter = self.start("run", name, "--", "true")
        waiter.err.wait_for(
            re.escape(r'"a\x1b[2Jb\x0ac\xe2\x80\xaed' + '\u00e9"'))


class JobControl(TerminalTest):
    def test_terminal_is_the_commands(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'echo ready; read line; "
                   "echo got=$line; test -t 0 -a -t 1 -a -t 2; echo tty=$?'")
        shell.expect("ready")
        shell.line("hello")
        shell.expect("got=hello\r\n")
        shell.expect("tty=0")
        shell.expect("prompt> ")
        shell.line("echo shell reads again")
        shell.expect("shell reads again")

    def test_command_is_in_the_foreground(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'ps -o stat= -p $$; echo end'")
        self.assertIn("+", shell.expect(r"(?s)(\S+)\s+end")[1])

    def test_interrupt(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'echo ready $$; exec sleep 1000'")
        self.expect_exec(shell)
        shell.send("\x03")
        shell.expect("prompt> ")
        shell.line("echo code=$?")
        shell.expect("code=130\r\n")
        self.assertFalse(self.server.lock_exists("x"))

    def test_interrupt_is_the_commands_to_handle(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'trap \"echo caught; exit 4\" INT; "
                   "echo ready; while :; do sleep 0.01; done'; echo code=$?")
        shell.expect("ready")
        shell.send("\x03")
        shell.expect("caught")
        shell.expect("code=4\r\n")

    def test_stop_and_foreground(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'echo ready $$; read line; "
                   "echo got=$line; exit 6'; echo code=$?")
        pid = int(shell.expect(r"ready (\d+)\r")[1])
        for _ in range(2):
            # A key that comes before its SIGCONT would have no effect.
            wait_until(lambda: os.tcgetpgrp(shell.fd) == pid
                       and process_state(pid) == "S", "it may read")
            shell.send("\x1a")
            shell.expect("Stopped")
            shell.expect("prompt> ")
            self.assertTrue(self.server.lock_exists("x"))
            shell.line("fg; echo code=$?")
            shell.expect("run x")
        shell.line("hello")
        shell.expect("got=hello")
        shell.expect("code=6\r\n")
        shell.expect("prompt> ")
        self.assertFalse(self.server.lock_exists("x"))

    def test_stop_and_background(self):
        shell = self.shell()
        os.mkfifo(self.dir / "fifo")
        shell.line("$hf run x -- sh -c 'echo ready $$; exec cat fifo'")
        self.expect_exec(shell, "cat")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect("prompt> ")
        shell.line("bg")
        shell.expect("prompt> ")
        (self.dir / "fifo").write_text("the end\n")
        shell.expect("the end")
        shell.line("wait; echo code=$?")
        shell.expect("code=0")

    def test_continued_too_late(self):
        shell = self.shell()
        beats = Beats(self.dir / "beats")
        words = " ".join(map(shlex.quote, [*HEARTBEAT, str(beats.path)]))
        shell.line(f"$hf run --ttl 1s x -- {words}")
        beats.wait_for("beat")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect("prompt> ")
        wait_until(lambda: not self.server.lock_exists("x"), "the lease ended")
        count = len(beats.times("beat"))
        shell.line("fg; echo code=$?")
        shell.expect("code=79\r\n")
        self.assertEqual(len(beats.times("beat")), count)

    def test_background_that_reads_is_stopped_until_foreground(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'read line; echo got=$line' &")
        shell.expect("prompt> ")
        wait_until(lambda: self.server.lock_exists("x"), "it runs")
        shell.line("while ! jobs | grep -q Stopped; do sleep 0.05; done; "
                   "echo is stopped")
        shell.expect("is stopped")
        shell.line("fg")
        shell.expect("run x")
        shell.line("hello")
        shell.expect("got=hello")
        shell.expect("prompt> ")

    def test_in_a_pipeline_the_others_keep_the_terminal(self):
        shell = self.shell()
        shell.line("$hf run x -- echo out | "
                   "sh -c 'cat; echo ready; read line < /dev/tty; "
                   "echo got=$line'")
        shell.expect("out")
        shell.expect("ready")
        shell.line("hello")
        shell.expect("got=hello")

    def test_in_a_pipeline_the_command_gets_it_when_it_asks(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'echo ready; read line < /dev/tty; "
                   "echo got=$line' | cat")
        shell.expect("ready")
        shell.line("hello")
        shell.expect("got=hello")
        shell.expect("prompt> ")

    def test_interrupt_in_a_pipeline(self):
        shell = self.shell()
        shell.line("$hf run x -- sh -c 'echo ready $$; exec sleep 1000' | cat")
        self.expect_exec(shell)
        shell.send("\x03")
        shell.expect("prompt> ")
        wait_until(lambda: not self.server.lock_exists("x"), "it is released")

    def test_interrupt_reaches_the_script_around_it(self):
        (self.dir / "script").write_text(
            "$hf run x -- sh -c 'echo ready $$; exec sleep 1000'\n"
            "echo after\n")
        shell = self.shell()
        shell.line("export hf; sh script")
        self.expect_exec(shell)
        shell.send("\x03")
        self.assertNotIn("after", shell.expect("(?s).*prompt> ")[0])
        shell.line("echo code=$?")
        shell.expect("code=130\r\n")

    def test_stop_of_the_script_around_it(self):
        (self.dir / "script").write_text(
            "$hf run x -- sh -c 'echo ready; read line; echo got=$line'\n"
            "echo after\n")
        shell = self.shell()
        shell.line("export hf; sh script")
        shell.expect("ready")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect("prompt> ")
        shell.line("fg")
        shell.expect("sh script")
        shell.line("hello")
        shell.expect("got=hello")
        shell.expect("after")

    def test_stop_while_waiting(self):
        self.hold("x")
        shell = self.shell()
        shell.line("$hf run x -- echo mine; echo code=$?")
        shell.expect("waiting for")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect("prompt> ")
        shell.line("fg")
        shell.expect("waiting for")
        shell.send("\x03")
        shell.expect("prompt> ")
        shell.line("echo code=$?")
        shell.expect("code=130")


class WithoutAShell(TerminalTest):
    """The runner as leader of the session, as under ssh -t or in a
    container: its process group is orphaned, and nobody could continue it."""

    def test_reading_and_writing(self):
        terminal = self.terminal(BIN, "run", "x", "--", "sh", "-c",
                                 "echo ready; read line; echo got=$line")
        terminal.expect("ready")
        terminal.line("hello")
        terminal.expect("got=hello")
        self.assertEqual(terminal.wait(), 0)

    def test_stop_key_stops_nobody(self):
        terminal = self.terminal(BIN, "run", "x", "--", "sh", "-c",
                                 "echo ready; read line; echo got=$line")
        terminal.expect("ready")
        terminal.send("\x1a")
        terminal.line("hello")
        terminal.expect("got=hello")
        self.assertEqual(terminal.wait(), 0)

    def test_stop_key_in_a_pipeline_stops_nobody(self):
        terminal = self.terminal(
            "sh", "-c", f"'{BIN}' run x -- sh -c 'echo ready; "
            "read line < /dev/tty; echo got=$line' | cat")
        terminal.expect("ready")
        terminal.send("\x1a")
        terminal.line("hello")
        terminal.expect("got=hello")
        self.assertEqual(terminal.wait(), 0)

    def test_hangup_ends_it(self):
        terminal = self.terminal(BIN, "run", "x", "--", "sh", "-c",
                                 "echo ready $$; sleep 1000")
        terminal.expect("ready")
        os.close(terminal.fd)
        terminal.fd = os.open("/dev/null", os.O_RDONLY)
        wait_until(lambda: not self.server.lock_exists("x"), "it is released")


class Asking(TerminalTest):
    def unlock(self, answer):
        self.server.command("HSET", "x", "someone:1", "1")
        self.server.command("PEXPIRE", "x", "60000")
        terminal = self.terminal(BIN, "unlock", "--force", "x")
        terminal.expect(r'"x" is held by "someone:1", remaining time \d+s?')
        terminal.expect(r"\[y/N\] ")
        terminal.send(answer)
        return terminal.wait()

    def test_yes(self):
        self.assertEqual(self.unlock("y\n"), 0)
        self.assertFalse(self.server.lock_exists("x"))

    def test_no(self):
        for answer in ("n\n", "\n", "\x04", "what\n"):
            self.assertEqual(self.unlock(answer), 1)
            self.assertTrue(self.server.lock_exists("x"))

    def test_not_with_yes(self):
        self.server.command("HSET", "x", "someone:1", "1")
        terminal = self.terminal(BIN, "unlock", "--force", "--yes", "x")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.text, "")
        self.assertFalse(self.server.lock_exists("x"))


if __name__ == "__main__":
    unittest.main()
