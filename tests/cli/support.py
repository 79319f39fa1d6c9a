"""What the tests of the tool share: a private server, ways to run the tool,
and waiting for conditions instead of for time."""

import contextlib
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = os.path.abspath(
    os.environ.get("HOLDFAST_BIN", str(ROOT / "build" / "holdfast")))
SERVER = (os.environ.get("HOLDFAST_TEST_SERVER")
          or shutil.which("redis-server") or shutil.which("valkey-server"))
LIMIT = 30  # seconds; generous, only a failure waits that long

# SIGQUIT is one of the signals that are tried.
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wait_until(condition, what, limit=LIMIT):
    """Polls until condition() is true, and returns its value."""
    end = boottime() + limit
    while True:
        value = condition()
        if value:
            return value
        if boottime() > end:
            raise AssertionError(f"waited {limit} s in vain: {what}")
        time.sleep(0.005)


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def process_state(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def wait_for_exec(pid, name):
    """Waits until a process executes that program: a shell that gets a signal
    while it starts a program may swallow it."""
    path = pathlib.Path(f"/proc/{pid}/comm")
    wait_until(lambda: path.read_text().strip() == name, f"{name} runs")


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += (task / "children").read_text().split()
    return [int(child) for child in found]


class ServerError(Exception):
    pass


class Server:
    """A redis-server (or valkey-server) of its own, on a unix socket. It dies
    with the test, also when that is killed."""

    def __init__(self):
        if not SERVER:
            raise unittest.SkipTest("no redis-server and no valkey-server")
        self.dir = tempfile.mkdtemp(prefix="holdfast-cli-")
        self.socket_path = os.path.join(self.dir, "server.sock")
        self.url = "unix://" + self.socket_path
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", SERVER, "--port", "0",
             "--unixsocket", self.socket_path, "--save", "", "--dir", self.dir],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(self._answers, "the server answers")

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(
                f"{SERVER} ended with status {self.process.returncode}")
        with contextlib.suppress(OSError, ServerError):
            return self.command("PING") == "PONG"
        return False

    def command(self, *words, password=None):
        """Sends one command on a connection of its own."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT)
            connection.connect(self.socket_path)
            stream = connection.makefile("rwb")
            if password:
                self._exchange(stream, ["AUTH", password])
            return self._exchange(stream, words)

    def _exchange(self, stream, words):
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
        stream.flush()
        return self._reply(stream)

    def _reply(self, stream):
        line = stream.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise ServerError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return stream.read(int(rest) + 2)[:-2].decode("latin-1")
        if kind == b"*":
            return [self._reply(stream) for _ in range(int(rest))]
        raise ServerError(f"not understood: {line!r}")

    def lock_exists(self, name):
        return self.command("EXISTS", name) == 1

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(self.process.pid) == "T",
                   "the server is stopped")

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Output:
    """Collects what a process writes to a file, readable while it runs."""

    def __init__(self, path):
        self.path = path

    def text(self):
        return self.path.read_text(errors="replace")

    def wait_for(self, pattern, limit=LIMIT):
        return wait_until(lambda: re.search(pattern, self.text()),
                          f"{pattern!r} in {self.path.name}", limit)


class Started:
    """The tool, running."""

    def __init__(self, process, out, err):
        self.process = process
        self.pid = process.pid
        self.out = out
        self.err = err

    def wait(self, limit=LIMIT):
        return self.process.wait(limit)

    def signal(self, number):
        self.process.send_signal(number)


class CliTest(unittest.TestCase):
    """A test with a server; HOLDFAST_URL points at it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(lambda: cls.server.close())

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(self._stop_embedded)
        self.server.command("FLUSHALL")
        self.count = 0

    def _stop_embedded(self):
        """Also one that a test has started by mistake."""
        if (self.dir / "runtime").exists():
            self.holdfast("server", "stop")

    def environment(self, **changes):
        """Ours without anything that would choose a server, plus changes;
        None takes a variable away."""
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("HOLDFAST_") and key != "REDIS_URL"}
        env["HOLDFAST_URL"] = self.server.url
        env["HOLDFAST_RUNTIME_DIR"] = str(self.dir / "runtime")
        env.update(changes)
        return {key: value for key, value in env.items() if value is not None}

    def holdfast(self, *words, env=None, stdin=None, limit=LIMIT, **options):
        """Runs the tool to its end."""
        if stdin is None:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [BIN, *words], env=env or self.environment(), input=stdin,
            capture_output=True, text=True, timeout=limit, cwd=self.dir,
            check=False, **options)

    def start(self, *words, env=None, **options):
        """Starts the tool in the background; it is killed at the end."""
        self.count += 1
        out = self.dir / f"out{self.count}"
        err = self.dir / f"err{self.count}"
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen(
                [BIN, *words], env=env or self.environment(),
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                cwd=self.dir, **options)
        self.addCleanup(self._end, process)
        return Started(process, Output(out), Output(err))

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()

    def hold(self, name, *options, **started):
        """A runner that holds a lock until it is killed."""
        holder = self.start("run", *options, name, "--", "sh", "-c",
                            "echo held $$; exec sleep 1000", **started)
        holder.command = int(holder.out.wait_for(r"held (\d+)\n")[1])
        wait_for_exec(holder.command, "sleep")
        return holder

    def wait_for_waiter(self, waiter):
        waiter.err.wait_for("waiting for")

    def assert_code(self, result, code):
        self.assertEqual(result.returncode, code,
                         f"stdout: {result.stdout}\nstderr: {result.stderr}")

    def assert_one_message(self, result, pattern):
        """One line on stderr, with our prefix, and nothing on stdout. A
        waiting line may stand before it: the machine may be slow."""
        self.assertEqual(result.stdout, "")
        self.assertRegex(
            result.stderr,
            r"\A(holdfast: waiting for [^\n]*\n)?holdfast: [^\n]*\n\Z")
        self.assertRegex(result.stderr, pattern)


# A command that writes the time every few milliseconds, to see when it ended.
# argv: file, names of signals to note and survive.
HEARTBEAT = [sys.executable, "-S", "-c", """
import signal, sys, time
out = open(sys.argv[1], "w", 1)
def note(number, frame):
    out.write("%s %.6f\\n" % (signal.Signals(number).name,
                              time.clock_gettime(time.CLOCK_BOOTTIME)))
for name in sys.argv[2:]:
    signal.signal(signal.Signals[name], note)
while True:
    out.write("beat %.6f\\n" % time.clock_gettime(time.CLOCK_BOOTTIME))
    time.sleep(0.005)
"""]


class Beats:
    """Reads what HEARTBEAT wrote."""

    def __init__(self, path):
        self.path = path

    def times(self, kind):
        if not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")[:-1]
        return [float(line.split()[1]) for line in lines
                if line.startswith(kind + " ")]

    def wait_for(self, kind):
        return wait_until(lambda: self.times(kind), f"{kind} in heartbeat")


class Terminal:
    """A process in a session of its own, on a pseudo-terminal."""

    def __init__(self, words, env, cwd):
        self.pid, self.fd = os.forkpty()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(words[0], words, env)
        self.text = ""
        self.code = None

    def send(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.send(text + "\n")

    def _read(self, limit):
        ready, _, _ = select.select([self.fd], [], [], limit)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: nobody has the other side open
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, limit=LIMIT):
        """Waits for a pattern, and forgets the text up to its end."""
        end = boottime() + limit
        while True:
            found = re.search(pattern, self.text)
            if found:
                self.text = self.text[found.end():]
                return found
            if boottime() > end or not self._read(0.1) and self.ended():
                raise AssertionError(
                    f"no {pattern!r} on the terminal, but {self.text!r}")

    def ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self._read(0):
                    pass
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, limit=LIMIT):
        """Reads to the end, and returns the exit code."""
        end = boottime() + limit
        while not self.ended():
            self._read(0.05)
            if boottime() > end:
                raise AssertionError(f"does not end: {self.text!r}")
        return self.code

    def close(self):
        if self.code is None:
            for pid in self._session():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def _session(self):
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if os.getsid(int(entry.name)) == self.pid:
                        yield int(entry.name)
