"""What processes cost: CPU, bytes read, memory. Of a process and all that it has started."""

import os
import threading

TICKS = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """Fields of /proc/PID/stat after the name, or None where the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def tree(*roots):
    """The processes and everything below them that lives."""
    parents = {}
    for name in os.listdir("/proc"):
        fields = stat_of(name) if name.isdigit() else None
        if fields and fields[0] != "Z":
            parents[int(name)] = int(fields[1])
    found = {pid for pid in roots if pid in parents}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return sorted(found)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "gone"


def cpu_seconds(pids):
    return sum((int(fields[11]) + int(fields[12])) / TICKS for fields in map(stat_of, pids) if fields)


def read_bytes(pids):
    """Bytes that came from read calls, whether a disk or the page cache had them."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io", encoding="ascii") as file:
                total += int(dict(line.split(": ") for line in file)["rchar"])
        except OSError:
            pass
    return total


def pss(pid):
    """Bytes of a process, shared pages by its share."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def memory_available():
    """Of the machine, as the kernel estimates it: page cache is available, pinned and shared memory is not."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo says nothing of MemAvailable")


class Peak(threading.Thread):
    """Looks at the memory of a tree of processes every few milliseconds; keeps the moment at which they had most
    together, and how little the machine had left."""

    def __init__(self, root, pause=0.003):
        super().__init__(daemon=True)
        self.root = root
        self.pause = pause
        self.over = threading.Event()
        self.most = {}
        self.looks = 0
        self.least_available = memory_available()
        self.start()

    def run(self):
        while True:
            now = {pid: (name_of(pid), pss(pid)) for pid in tree(self.root)}
            self.least_available = min(self.least_available, memory_available())
            self.looks += 1
            if total(now) > total(self.most):
                self.most = now
            if self.over.wait(self.pause):
                return

    def stop(self):
        self.over.set()
        self.join()
        return self.most


def total(processes):
    return sum(size for _, size in processes.values())
