"""A private feedd in its own directory, and what its processes cost."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_SECONDS = 15
STOP_SECONDS = 20
TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """A measurement that could not be made, in one sentence."""


def process_times(pid):
    """CPU seconds of a live process, and of the children that it has reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, child_user, child_system = (int(field) for field in fields[11:15])
    return (user + system) / TICKS, (child_user + child_system) / TICKS


def own_memory(pid, foreign):
    """Bytes of a process beyond the ring, the statistics and the data: its share of every other mapping, and
    its page tables. `foreign`: prefixes of the files that do not count."""
    total = 0
    counted = True
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                if not fields[0].endswith(":"):
                    path = fields[5] if len(fields) > 5 else ""
                    counted = not path.startswith(foreign)
                elif counted and fields[0] == "Pss:":
                    total += int(fields[1]) * 1024
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("VmPTE:"):
                    total += int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return total


class Instance:
    """feedd with the datasets and settings given, from `with` to its end. "view NAME" and "mix NAME" stand among them."""

    def __init__(self, build, datasets, preload=None, **settings):
        self.build = build
        self.preload = preload
        self.directory = tempfile.mkdtemp(prefix="feedd-bench.")
        self.socket = os.path.join(self.directory, "s")
        self.log = os.path.join(self.directory, "log")
        self.process = None
        self.data_files = tuple(dataset["path"] for dataset in datasets.values() if "path" in dataset)
        defaults = {"socket": self.socket, "linger": 0, "log_level": "warning", "ring_memory": "2G"}
        settings = {**defaults, **settings}
        with open(os.path.join(self.directory, "feedd.conf"), "w", encoding="utf-8") as file:
            self._section(file, "feedd", settings)
            for name, dataset in datasets.items():
                self._section(file, name if " " in name else f"dataset {name}", dataset)

    @staticmethod
    def _section(file, name, settings):
        file.write(f"[{name}]\n")
        for key, value in settings.items():
            file.write(f"{key} = {value}\n")

    def __enter__(self):
        config = os.path.join(self.directory, "feedd.conf")
        command = [os.path.join(self.build, "feedd"), "--config", config]
        environment = {**os.environ, **({"LD_PRELOAD": self.preload} if self.preload else {})}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, env=environment)
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                text = self._log_text()
                self._end()
                raise BenchError(f"feedd did not start: {text}")
            time.sleep(0.01)
        return self

    def _answers(self):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.socket)
            except OSError:
                return False
        return True

    def _log_text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read().strip()

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            status = "none: it did not stop"
        text = self._log_text()
        self._end()
        if kind is None and (status != 0 or text):
            raise BenchError(f"feedd ended with status {status} and said: {text or 'nothing'}")

    def _end(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        shutil.rmtree(self.directory)

    def pids(self, ended=False):
        """The supervisor first, then the children: all processes of the session that it leads. `ended`: also those that
        have ended and are not reaped."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid and (ended or fields[0] != "Z"):
                found.append(int(name))
        return sorted(found, key=lambda pid: (pid != self.process.pid, pid))

    def cpu_seconds(self):
        """Of the supervisor and all loaders, those that are gone included."""
        while True:
            reaped = process_times(self.process.pid)[1]
            total = reaped + sum(process_times(pid)[0] for pid in self.pids(ended=True))
            if process_times(self.process.pid)[1] == reaped:  # or else one may have been left out
                return total

    def memory(self):
        """Bytes of the supervisor and of each loader beyond the ring."""
        foreign = ("/dev/shm/", "/memfd:", "/SYSV", self.directory, *self.data_files)
        supervisor, *loaders = self.pids()
        return own_memory(supervisor, foreign), [own_memory(pid, foreign) for pid in loaders]
