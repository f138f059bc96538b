"""A small service manager: starts the daemon again whenever it has ended."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import harness
import test_memory_group


def tasks_called(session, *names):
    """pids of a session's processes by the beginning of their command lines."""
    found = harness.session_processes(session)
    return {name: [pid for pid, command in found.items() if command.startswith(f"feedd-{name}")] for name in names}


class MemoryGroup:
    """A memory control group for the daemon and its children. Where none can be made, `refusal` says why."""

    def __init__(self):
        self.refusal, self.wrap = "", ()
        try:
            parent, self.limit = test_memory_group.own_group()
            self.folder = parent / f"feedd-storm-{os.getpid()}"
            self.folder.mkdir()
            self.restore()
            self.wrap = ("sh", "-c", f'echo $$ >"{self.folder}/cgroup.procs"; exec "$@"', "sh")
        except (harness.Skip, OSError) as refusal:
            self.refusal = str(refusal)

    def squeeze(self, spare):
        """Leaves that many bytes, or less if there is something to reclaim."""
        usage = {"memory.max": "memory.current"}.get(self.limit, "memory.usage_in_bytes")
        with contextlib.suppress(OSError):
            used = int((self.folder / usage).read_text(encoding="ascii"))
            (self.folder / self.limit).write_text(str(used + spare), encoding="ascii")

    def restore(self):
        (self.folder / self.limit).write_text("max" if self.limit == "memory.max" else "-1", encoding="ascii")

    def ended(self):
        """How many processes the kernel has killed."""
        with contextlib.suppress(OSError, ValueError):
            name = "memory.events" if self.limit == "memory.max" else "memory.oom_control"
            words = (self.folder / name).read_text(encoding="ascii").split()
            return int(words[words.index("oom_kill") + 1])
        return 0

    def end(self):
        if not self.refusal:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


class Daemon:
    """`wrap` are words before its command line, `environment` further variables."""

    def __init__(self, instance, wrap=(), environment=()):
        self.instance, self.wrap, self.environment = instance, wrap, dict(environment)
        self.process = None
        self.sessions = []  # of all daemons so far: nothing may be left in them
        self.starts_at = self.started_at = 0.0
        self.ends = {}  # how often it has ended with which status
        self.expected = False  # somebody has killed it
        self.is_silent = False  # that has been reported
        self.unexpected = []

    def start(self):
        with self.instance.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrap, harness.PROGRAMS / "feedd", "--config", self.instance.config], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.instance.directory, start_new_session=True,
                preexec_fn=harness.die_with_parent, env=self.instance.environment(**self.environment),
            )  # fmt: skip
        self.instance.process = self.process
        self.sessions.append(self.process.pid)
        self.expected, self.is_silent, self.started_at = False, False, time.monotonic()

    @property
    def pid(self):
        if self.process is None:
            raise ProcessLookupError
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.returncode is None

    def watch(self, now, delay, may_start=True, faulty=False):
        """Reaps it, and starts the next one after `delay`. Returns true when it has started one. While storage is `faulty`,
        it may refuse to start, since it looks at all files first."""
        if self.process is not None and self.process.poll() is not None:
            status = self.process.returncode
            self.ends[status] = self.ends.get(status, 0) + 1
            if not self.expected and not (status == 1 and faulty):
                self.unexpected.append(f"the daemon ended by itself with status {status}")
            self.process = None
            self.starts_at = now + delay
        if self.process is None and may_start and now >= self.starts_at:
            self.start()
            return True
        return False

    def kill(self, number=signal.SIGKILL):
        if number == signal.SIGKILL:
            self.expected = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def describe(self):
        """What each of its threads waits for, as far as the kernel says."""
        found = []
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                words = [(task / name).read_text(errors="replace").strip() for name in ("comm", "wchan", "syscall")]
                state = (task / "status").read_text().partition("State:")[2].split()[0]
                found.append(" ".join([state, *words]))
        return "; ".join(found)

    def children(self, *names):
        return tasks_called(self.pid, *names) if self.alive() else {name: [] for name in names}

    def left_behind(self):
        """Processes of daemons that have ended."""
        old = [session for session in self.sessions if not self.alive() or session != self.pid]
        return {pid: command for session in old for pid, command in harness.session_processes(session).items()}

    def holdings(self):
        """What must be again as it was: descriptors by kind, mappings of shared memory, private memory in KiB."""
        pid = self.pid
        kinds = []
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                kinds.append(os.readlink(entry).split(":")[0].split("#")[0])
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        shared = [line.split(None, 5)[5] for line in maps.splitlines() if "/dev/shm/" in line or "/memfd:" in line]
        memory = pathlib.Path(f"/proc/{pid}/status").read_text().partition("RssAnon:")[2].split()[0]
        return {"descriptors": sorted(kinds), "shared": sorted(shared), "anonymous_kib": int(memory)}

    def settle(self, seconds):
        """Waits until it has no children."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and len(harness.session_processes(self.pid)) > 1:
            time.sleep(0.05)
