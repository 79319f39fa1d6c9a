"""What the scenarios run in: a private server, and actors beside it, one
program on Redisson and one on libholdfast, that obey the same orders."""

import collections
import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import support  # noqa: E402 (the path comes first)
from support import wait_until  # noqa: E402

LIMIT = 60  # seconds; generous, only a failure waits that long
BUILD = pathlib.Path(os.environ.get("HOLDFAST_BUILD_DIR",
                                    HERE.parent.parent / "build")).resolve()
ACTOR = BUILD / "tests" / "interop" / "interop_actor"
DEFAULT_WATCHDOG = 30_000  # milliseconds, of Redisson and of holdfast
SHORT_WATCHDOG = 3_000
NO_END = 922337203685477  # what Redisson says for a permit without a lease
# Redisson's notes of unlocks; holdfast's of what was taken, and of writers that
# wait.
PRIVATE = re.compile("^redisson_unlock_latch:|^holdfast_|:holdfast_writer$")


def now():
    """The clock of all actors: System.nanoTime is CLOCK_MONOTONIC on Linux,
    which each answer proves anew, see Actor."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Server(support.Server):
    """A server on a TCP port too, for Redisson 3.15.6 knows no other way."""

    PORTS = 20  # one that was free may be another's a moment later

    def __init__(self, program):
        self.program = program
        self.dir = tempfile.mkdtemp(prefix="holdfast-interop-")
        self.socket_path = os.path.join(self.dir, "server.sock")
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise

    def start(self):
        for _ in range(self.PORTS):
            if self._start_on(self._free_port()):
                return
        raise AssertionError(f"{self.program} does not start:\n"
                             + self._log().read_text(errors="replace"))

    @staticmethod
    def _free_port():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    def _log(self):
        return pathlib.Path(self.dir) / "log"

    def _start_on(self, port):
        """Whether it listens there."""
        with open(self._log(), "wb") as log:
            # setpriv: it shall not outlive a run that is killed.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", self.program,
                 "--port", str(port), "--bind", "127.0.0.1",
                 "--unixsocket", self.socket_path, "--save", "",
                 "--appendonly", "no", "--dir", self.dir],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers_or_has_ended, "the server answers", LIMIT)
        self.tcp_url = f"redis://127.0.0.1:{port}"
        return self.process.poll() is None

    def _answers_or_has_ended(self):
        with contextlib.suppress(OSError, support.ServerError):
            return self.command("PING") == "PONG"
        return self.process.poll() is not None

    def version(self):
        """Such as "Redis 7.0.15"."""
        found = dict(line.split(":", 1) for line in
                     self.command("INFO", "server").splitlines()
                     if ":" in line)
        if "valkey_version" in found:
            return "Valkey " + found["valkey_version"]
        return "Redis " + found["redis_version"]

    def calls(self, command):
        """How often a command ran; "script": any script."""
        names = ("eval", "evalsha") if command == "script" else (command,)
        stats = self.command("INFO", "commandstats")
        total = 0
        for name in names:
            found = re.search(rf"^cmdstat_{name}:calls=(\d+).*?"
                              r"(?:failed_calls=(\d+))?\r?$", stats,
                              re.MULTILINE)
            if found:
                total += int(found[1]) - int(found[2] or 0)
        return total

    def holdfast_listens(self):
        """Whether a connection is subscribed to a channel that is not one of
        Redisson's, which now and then forgets to unsubscribe."""
        return any(" sub=0 " not in line and " name=redisson " not in line
                   for line in self.command("CLIENT", "LIST").splitlines())

    def keys(self):
        """Names but the private ones of either side."""
        return sorted(name for name in self.command("KEYS", "*")
                      if not PRIVATE.search(name))

    def keyspace(self):
        """All that is kept: name, type, content, and times: milliseconds left,
        of the key and of each of a sorted set's members."""
        found = (self._key(name.encode("latin-1")) for name in self.keys())
        return [key for key in found if key[1] != "none"]

    def _key(self, name):
        kind = self.command("TYPE", name)
        times = [self.command("PTTL", name)]
        content = None
        if kind == "hash":
            flat = self.command("HGETALL", name)
            content = sorted(zip(flat[::2], flat[1::2]))
        elif kind == "string":
            content = self.command("GET", name)
        elif kind == "list":
            content = self.command("LRANGE", name, 0, -1)
        elif kind == "zset":
            flat = self.command("ZRANGE", name, 0, -1, "WITHSCORES")
            content = flat[::2]
            times += map(self._left, flat[1::2])
        return name.decode("latin-1"), kind, content, times

    @staticmethod
    def _left(score):
        """Milliseconds from now; what is no time stays itself."""
        score = float(score)
        return score if score >= NO_END else score - time.time() * 1000


class Ear:
    """Hears all that is published."""

    MARK = "interop:mark"

    def __init__(self, server):
        self.server = server
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(LIMIT)
        self.connection.connect(server.socket_path)
        self.stream = self.connection.makefile("rwb")
        server._exchange(self.stream, ["PSUBSCRIBE", "*"])

    def heard(self):
        """(channel, payload) of each message since the last call."""
        self.server.command("PUBLISH", self.MARK, "")
        messages = []
        while True:
            _, _, where, what = self.server._reply(self.stream)
            if where == self.MARK:
                return messages
            messages.append((where, what))

    def close(self):
        self.stream.close()
        self.connection.close()


Answer = collections.namedtuple("Answer", "start end text")


class Pending(concurrent.futures.Future):
    """An answer to come."""

    def __init__(self, words):
        super().__init__()
        self.words = words
        self.sent = now()

    def result(self, timeout=LIMIT):
        try:
            return super().result(timeout)
        except concurrent.futures.TimeoutError:
            raise AssertionError(
                f"{self.words}: no answer within {timeout} s") from None


class Actor:
    """A process that obeys orders. Each names the thread that shall obey it;
    a thread obeys one after the other."""

    def __init__(self, words, log):
        self.log = log
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, encoding="utf-8", bufsize=1)
        self.mutex = threading.Lock()
        self.pending = {}
        self.count = 0
        self.ready = Pending("start")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def version(self):
        """Waits until the actor is connected; what it works with, such as
        "redisson-4.7.0"."""
        return pathlib.Path(self.ready.result()).name.removesuffix(".jar")

    def order(self, thread, verb, name, *arguments):
        """Gives an order; the answer is to come."""
        words = " ".join([thread, verb, name, *map(str, arguments)])
        answer = Pending(words)
        with self.mutex:
            self.count += 1
            self.pending[self.count] = answer
            self.process.stdin.write(f"{self.count} {words}\n")
        return answer

    def ask(self, *words):
        """Gives an order and waits for the answer's text."""
        return self.order(*words).result().text

    def _read(self):
        for line in self.process.stdout:
            word, rest = line.rstrip("\n").split(" ", 1)
            if word == "ready":
                self.ready.set_result(rest)
            else:
                self._answered(int(word), *rest.split(" ", 2))
        ended = AssertionError(f"an actor has ended:\n{self.last_words()}")
        if not self.ready.done():
            self.ready.set_exception(ended)
        with self.mutex:
            for answer in self.pending.values():
                answer.set_exception(ended)
            self.pending.clear()

    def _answered(self, number, start, end, text):
        with self.mutex:
            order = self.pending.pop(number)
        answer = Answer(int(start), int(end), text)
        if text.startswith("error"):
            order.set_exception(AssertionError(f"{order.words}: {text}"))
        elif order.sent <= answer.start <= answer.end <= now():
            order.set_result(answer)
        else:
            order.set_exception(AssertionError(
                f"{order.words}: the actor's clock is another: sent"
                f" {order.sent}, started {start}, ended {end}, heard {now()}"))

    def last_words(self):
        return pathlib.Path(self.log).read_text(errors="replace")[-2000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.reader.join()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


def build_jar(version):
    """Builds the Java program with that version of Redisson, once in a build
    folder; the first time Maven fetches what it needs."""
    missing = [name for name in ("mvn", "javac") if not shutil.which(name)]
    if missing:
        raise AssertionError(
            f"{' and '.join(missing)} not found: the Java side needs the"
            " packages maven and default-jdk-headless")
    folder = BUILD / "tests" / "interop" / f"redisson-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [HERE / "pom.xml", *sorted((HERE / "java").glob("*.java"))]
    state = hashlib.sha256(b"".join(map(pathlib.Path.read_bytes, sources)))
    stamp = folder / "built"
    # One at a time: Maven's own folder is not made for two.
    with open(folder.parent / "maven.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == state.hexdigest()):
            run_maven(f"-Dredisson.version={version}",
                      f"-Dinterop.directory={folder}")
            stamp.write_text(state.hexdigest())
    return folder / "actor.jar"


def run_maven(*options):
    words = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), *options,
             "package"]
    made = subprocess.run(words, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False)
    if made.returncode != 0:
        raise AssertionError(f"{' '.join(words)} failed:\n{made.stdout}"
                             f"{made.stderr}")


class World:
    """One server, one version of Redisson. Of each side there is an actor
    with the usual watchdog, and one whose watchdog's lease is short."""

    JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData", "-jar"]

    def __init__(self, server_program, redisson):
        self.server_program = server_program
        self.redisson = redisson
        self.title = f"Redisson {redisson}, {server_program}"
        self.version = tuple(map(int, redisson.split(".")))
        self.told = {}  # the stories of scenarios.py
        self.played = {}  # and what Redisson alone leaves
        self.closing = contextlib.ExitStack()

    def open(self):
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self):
        if not ACTOR.exists():
            raise AssertionError(f"{ACTOR} is missing: build interop_actor, and"
                                 " name the build folder: HOLDFAST_BUILD_DIR")
        jar = build_jar(self.redisson)
        folder = tempfile.mkdtemp(prefix="holdfast-interop-")
        self.closing.callback(shutil.rmtree, folder, ignore_errors=True)
        self.folder = pathlib.Path(folder)
        self.server = Server(self.server_program)
        self.closing.callback(self.server.close)

        def start(words, watchdog):
            actor = Actor([*map(str, words), self.server.tcp_url,
                           str(watchdog)], self.folder / "actors.log")
            self.closing.callback(actor.close)
            return actor

        self.start_c = lambda: start([ACTOR], DEFAULT_WATCHDOG)
        self.java = start([*self.JAVA, jar], DEFAULT_WATCHDOG)
        self.java_short = start([*self.JAVA, jar], SHORT_WATCHDOG)
        self.c = start([ACTOR], DEFAULT_WATCHDOG)
        self.c_short = start([ACTOR], SHORT_WATCHDOG)
        for actor in (self.java, self.java_short, self.c, self.c_short):
            actor.version()
            # The first acquire may do more than the others.
            assert actor.ask("main", "try", "first") == "yes"
            assert actor.ask("main", "release", "first") == "yes"

        version = self.java.version().replace("redisson-", "Redisson ")
        self.title = f"{version}, {self.server.version()}"

    def close(self):
        self.closing.close()
