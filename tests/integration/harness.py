"""A private feedd for a test: its directory, its configuration, starting it, and stopping it without leftovers.

runner.py runs the tests; ../README.md tells how one is written. Standard library alone.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FEEDD_TEST_BUILD", ROOT / "build")).resolve()
# Where every user can run the programs: the build directory, or a copy of it.
PROGRAMS = pathlib.Path(os.environ.get("FEEDD_TEST_PROGRAMS", BUILD))
SLOWNESS = float(os.environ.get("FEEDD_TEST_SLOWNESS", "1"))
# Where consumers receive their batches unless a test says otherwise: tests/README.md.
DEVICE = os.environ.get("FEEDD_TEST_DEVICE", "")
SANITIZER_OPTIONS = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
PR_SET_PDEATHSIG = 1


class Skip(Exception):
    """Raised by skip()."""


def skip(reason):
    """Ends the test as skipped; the reason is shown."""
    raise Skip(reason)


def sanitized():
    """Whether this build has the address sanitizer, which keeps freed memory for a while and shadow memory for all."""
    return b"__asan_init" in (BUILD / "feedd").read_bytes()


def limit(seconds):
    """Decorates a test that may take longer (or has to be faster) than the runner's default."""

    def set_limit(test):
        test.limit_s = seconds
        return test

    return set_limit


def host_memory(test):
    """Decorates a test that is only about host memory: it is left out when the consumers' device is a GPU."""
    test.host_memory = True
    return test


def quick_attach(test):
    """Decorates a test whose timing relies on attaching quickly, or whose client is wire.py: it is left out on a real
    GPU, where each process takes a second to open the driver."""
    test.quick_attach = True
    return test


def on_real_gpu():
    return bool(DEVICE) and not DEVICE.lower().startswith("host")


def eventually(condition, seconds=10.0, what="condition"):
    """Waits until condition() is true and returns its result. `what` may be a function that says what is there instead."""
    deadline = time.monotonic() + seconds * SLOWNESS
    while True:
        if result := condition():
            return result
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(0.02)


def slowly(us):
    """How long a consumer should work on each batch while a test does something to it; scales with SLOWNESS."""
    return int(us * SLOWNESS)


def kill(pid, number=signal.SIGKILL):
    """Sends a signal to a process that may already have ended; returns whether it was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def die_with_parent():
    """Runs in a child between fork and exec, so that nothing outlives the test that started it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def session_processes(leader):
    """{pid: command line} of the live processes in the session of `leader`."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def open_files(pid):
    """[(path below /proc, the kernel's name for its target, os.stat_result)] of a process's descriptors."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            found.append((entry, os.readlink(entry), entry.stat()))
    return found


def prlimit(pid, resource, value):
    """Sets a soft limit of a running process, which keeps its hard limit; None restores it."""
    owner = os.stat(f"/proc/{pid}")
    subprocess.run(
        ["prlimit", f"--pid={pid}", f"--{resource}={'unlimited' if value is None else value}:"], check=True,
        stdin=subprocess.DEVNULL, user=owner.st_uid, group=owner.st_gid,
    )  # fmt: skip


def shared_objects():
    """Files only: other programs, such as the fuzzer, create folders there."""
    return {entry.name for entry in pathlib.Path("/dev/shm").iterdir() if entry.is_file()}


def dotted(key):
    """The key in feedd.conf that `key` stands for."""
    kind, _, name = key.partition("_")
    return f"{kind}.{name}" if kind in ("field", "transform", "pad", "source") else key


class Instance:
    """feedd in its own directory. As a context manager it ends with stop(), or with kill() if the test failed.

    `feedd` are settings of the [feedd] section; datasets are added with add_dataset() before start().
    """

    def __init__(self, **feedd):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="feedd-test-"))
        self.socket = self.directory / "feedd.sock"
        self.stats = self.directory / "feedd.sock.stats"
        self.config = self.directory / "feedd.conf"
        self.log = self.directory / "feedd.log"
        # Loaders that wait for a feed would count among processes and descriptors: test_prepared.py has them.
        plain = {
            "loaders": 2, "ring_memory": "256M", "log_level": "info", "simulated_gpus": 2, "prepare_loaders": "no",
        }  # fmt: skip
        self.settings = {"socket": self.socket, **plain, **feedd}
        if DEVICE:
            # As small as the rings of most tests, and nothing stays longer than the feed.
            self.settings = {"device_pool": "64K", "device_linger": 1, **self.settings}
        self.datasets = {}
        self.views = {}
        self.mixes = {}
        self.process = None
        self.leaders = []  # session leaders: each feedd that was started
        self.objects_before = shared_objects()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
                for leader in self.leaders:  # children of a feedd that was killed end by themselves
                    eventually(
                        lambda leader=leader: not session_processes(leader), 5,
                        lambda leader=leader: f"no process left of {session_processes(leader)}",
                    )  # fmt: skip
            else:
                self.kill()
                if kind is not Skip:
                    print(f"---- log of feedd ({self.log})\n{self.read_log()}----")
        finally:
            self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    # ---- Configuration -------------------------------------------------------------------------------------

    def add_dataset(self, name, **options):
        """Options as in feedd.conf; field_NAME stands for field.NAME, and so do transform_NAME and pad_NAME."""
        self.datasets[name] = {dotted(key): value for key, value in options.items()}

    def add_view(self, name, of, **options):
        self.views[name] = {"of": of, **{dotted(key): value for key, value in options.items()}}

    def add_mix(self, name, sources, epoch_samples, **options):
        """sources: {name of a dataset or view: weight}"""
        weights = {f"source.{source}": weight for source, weight in sources.items()}
        self.mixes[name] = {**weights, "epoch_samples": epoch_samples, **options}

    def write_config(self, text=None):
        """Writes `text`, or a configuration from the settings, datasets, views and mixes."""
        if text is None:
            lines = ["[feedd]", *(f"{key} = {value}" for key, value in self.settings.items())]
            for kind, sections in (("dataset", self.datasets), ("view", self.views), ("mix", self.mixes)):
                for name, options in sections.items():
                    lines += [f"[{kind} {name}]", *(f"{key} = {value}" for key, value in options.items())]
            text = "\n".join(lines) + "\n"
        self.config.write_text(text)

    # ---- Life ----------------------------------------------------------------------------------------------

    def environment(self, **more):
        """For a program under test; sanitizers write reports to the directory, where stop() looks for them."""
        environment = {**os.environ, "FEEDD_SOCKET": str(self.socket), "LC_ALL": "C.UTF-8"}
        environment.pop("COLUMNS", None)
        for name in SANITIZER_OPTIONS:
            environment[name] = environment.get(name, "") + f":log_path={self.directory}/sanitizer"
        return {**environment, **more}

    def start(self, limit_s=15.0, wrap=(), arguments=(), environment=None, program="feedd"):
        """Starts feedd, or another program that is one, and returns when it accepts connections."""
        if not self.config.exists():
            self.write_config()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*wrap, PROGRAMS / program, "--config", self.config, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True,
                preexec_fn=die_with_parent, env=self.environment(**(environment or {})),
            )  # fmt: skip
        self.leaders.append(self.process.pid)
        eventually(self._listens, limit_s, "feedd takes connections")
        return self

    def _listens(self):
        assert self.process.poll() is None, f"feedd ended with status {self.process.returncode} instead of starting"
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(self.socket))
            # A child that a killed feedd was just starting may still have its socket: whoever listens must be alive.
            peer, _, _ = struct.unpack("iII", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            os.getsid(peer)
            return True
        return False

    def wait(self, limit_s=15.0):
        """Waits until feedd exits on its own and returns its exit status."""
        try:
            return self.process.wait(limit_s * SLOWNESS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"feedd has not ended within {limit_s:g} s") from None

    def stop(self, limit_s=15.0):
        """Asks feedd to stop and checks that it does so cleanly and leaves nothing. Harmless if it is not running."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        status = self.wait(limit_s)
        assert status == 0, f"feedd ended with status {status} on SIGTERM"
        self.check_nothing_left()
        self.process = None

    def kill(self):
        """Kills everything that runs here, without checks."""
        if self.process is None:
            return
        for pid in [self.process.pid, *session_processes(self.process.pid)]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def check_nothing_left(self):
        """Checks that feedd left no process, shared-memory object, socket, statistics file or sanitizer report."""
        leader = self.process.pid
        eventually(lambda: not session_processes(leader), 2, lambda: f"no process left of {session_processes(leader)}")
        self.check_shared_objects()
        assert not self.socket.exists(), f"the socket {self.socket} is left"
        assert not self.stats.exists(), f"the statistics file {self.stats} is left"
        self.check_sanitizers()

    def check_shared_objects(self, seconds=3.0):
        """Fails if anything new stays in /dev/shm. Tests that run at the same time create and unlink their own objects, hence
        the patience."""
        eventually(
            lambda: not shared_objects() - self.objects_before, seconds,
            lambda: f"nothing new in /dev/shm, but {shared_objects() - self.objects_before}",
        )  # fmt: skip

    def check_sanitizers(self):
        for report in sorted(self.directory.glob("sanitizer*")):
            # The leak checker says this of a process that is killed while it runs: not a finding.
            text = re.sub(r"==\d+==Unable to get registers from thread \d+\.", "", report.read_text(errors="replace"))
            assert not text.strip(), f"{report.name}:\n{text}"

    # ---- Looking at it -------------------------------------------------------------------------------------

    def read_log(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def processes(self):
        """{pid: command line} of feedd and its children."""
        return session_processes(self.process.pid)

    def children(self):
        return {pid: command for pid, command in self.processes().items() if pid != self.process.pid}

    def children_called(self, name):
        """Children that have become a "loader" or "transfer"; before exec they are still called feedd."""
        return [pid for pid, command in self.children().items() if command.startswith(f"feedd-{name}")]

    def loaders(self, count):
        """Waits until there are that many loaders and returns their pids. A batch does not show that: one loader may have
        filled it before the others were named loaders."""
        return eventually(
            lambda: len(found := self.children_called("loader")) == count and found, 10,
            lambda: f"{count} loaders among {self.children()}",
        )  # fmt: skip

    def only_loader(self):
        """The one loader of the one feed. It may be a prepared one that does not know yet that it has a feed."""
        return self.loaders(1)[0]

    def descriptors(self, pid=None):
        """How many descriptors feedd (or one of its children) has open."""
        return len(os.listdir(f"/proc/{pid or self.process.pid}/fd"))

    def cpu_seconds(self):
        """What the daemon itself, without its children, has used so far in user and kernel mode."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check_descriptors(self, count, seconds=10.0):
        """Fails unless feedd returns to `count` open descriptors: those of a session are gone."""
        eventually(
            lambda: self.descriptors() <= count, seconds,
            lambda: f"feedd back at {count} descriptors; it has {[target for _, target, _ in open_files(self.process.pid)]}",
        )  # fmt: skip

    # ---- Talking to it -------------------------------------------------------------------------------------

    def client(self, timeout_s=10.0):
        return wire.Client(self.socket, timeout_s * SLOWNESS)

    def program(self, *command, limit_s=25.0, check=True, environment=None, **options):
        """Runs a program with FEEDD_SOCKET set; returns its CompletedProcess with text output."""
        done = subprocess.run(
            [str(item) for item in command], capture_output=True, text=True, timeout=limit_s * SLOWNESS,
            stdin=subprocess.DEVNULL, cwd=self.directory, preexec_fn=die_with_parent, check=False,
            env=self.environment(**(environment or {})), **options,
        )  # fmt: skip
        said = f"{done.args} ended with status {done.returncode}\n{done.stdout}{done.stderr}"
        assert not check or done.returncode == 0, said
        return done

    def ctl(self, *arguments, **options):
        return self.program(PROGRAMS / "feedctl", *arguments, **options)

    def indexed(self):
        """Waits until every dataset has its index, which is built while the daemon serves; before files are changed."""
        eventually(
            lambda: all(row["state"] == "open" for row in json.loads(self.ctl("datasets", "--json").stdout)), 15,
            "all datasets have their indices",
        )  # fmt: skip
        return self

    def statistics(self):
        """The current output of feedctl stats --json."""
        return json.loads(self.ctl("stats", "--once", "--json").stdout)

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def check(self, **options):
        """Runs feedd --check on the current configuration; never raises on a bad exit status."""
        if not self.config.exists():
            self.write_config()
        return self.program(PROGRAMS / "feedd", "--config", self.config, "--check", check=False, **options)
