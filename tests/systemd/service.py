"""feedd as a service of the machine, its users, and consumers. alice is in group feed, bob is not."""

import contextlib
import json
import pathlib
import subprocess
import time

from machine import eventually

UNITS = ("feedd.service", "feedd.socket")
SOCKET = "/run/feedd/feedd.sock"
BATCHES, BATCH, RECORD = 200, 64, 64
CONFIG = """[feedd]
socket_group = feed
loaders = 2
include = datasets.d/*.conf
"""
DATASET = f"""[dataset numbers]
format = records
path = /srv/data/numbers.bin
record_bytes = {RECORD}
field.x = u8[{RECORD}] @ 0
"""
USERS = """u alice 2001 - /
u bob 2002 - /
m alice feed
"""


class Service:
    def __init__(self, machine, packages):
        self.machine, self.packages = machine, packages

    def prepare(self):
        """Users and data."""
        self.machine.write("/etc/sysusers.d/users.conf", USERS)
        self.machine.run("systemd-sysusers")
        numbers = b"".join(i.to_bytes(8, "little") * (RECORD // 8) for i in range(BATCHES * BATCH))
        self.machine.write("/srv/data/numbers.bin", numbers)

    def reset(self):
        """Nothing runs, and nothing is left of an earlier test."""
        machine = self.machine
        if not machine.path("/srv/data").exists():
            self.prepare()
        machine.systemctl("stop", *UNITS, "feedd@*", "feedd-exporter*")
        for folder in ("/etc/systemd/system/feedd.service.d", "/etc/feedd/datasets.d"):
            for file in machine.path(folder).glob("*"):
                file.unlink()
        self.configure()
        machine.systemctl("daemon-reload")
        machine.systemctl("reset-failed")

    def configure(self, text=CONFIG, **datasets):
        self.machine.write("/etc/feedd/feedd.conf", text)
        for name, content in {"numbers": DATASET, **datasets}.items():
            self.machine.write(f"/etc/feedd/datasets.d/{name}.conf", content)

    def drop_in(self, text):
        self.machine.write("/etc/systemd/system/feedd.service.d/test.conf", text)
        self.machine.systemctl("daemon-reload")

    def states(self):
        """Of the service and of its socket."""
        return tuple(self.machine.show(unit, "ActiveState") for unit in UNITS)

    def pid(self):
        return int(self.machine.show("feedd.service", "MainPID"))

    def kill(self, signal, pid=None):
        self.machine.run("sh", "-c", f"kill -{signal} {pid or self.pid()}")

    def loaders(self, count=2):
        """Waits until there are that many, and returns their pids in the machine. A process is not called a loader until it has
        executed feedd anew, or heard of its feed."""
        proc = self.machine.path("/proc")

        def called():
            pid, found = self.pid(), []
            with contextlib.suppress(FileNotFoundError):  # one has just ended
                for child in (proc / f"{pid}/task/{pid}/children").read_text(encoding="ascii").split():
                    if b"feedd-loader" in (proc / child / "cmdline").read_bytes():
                        found.append(int(child))
            return found

        return eventually(lambda: len(found := called()) == count and found, 5, lambda: f"{count} loaders, but {called()}")

    def ctl(self, *arguments, user="alice", check=True, environment=None):
        return self.machine.run("feedctl", *arguments, user=user, check=check, environment=environment)

    def stays(self, states, seconds=3):
        """Nothing starts or stops it for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = self.states()
            assert now == states, f"service and socket are {now}, not {states} any more"
            time.sleep(0.05)

    def attached(self, number=1):
        """Waits until so many consumers read."""

        def listed():
            return self.ctl("clients", user="root", check=False).stdout

        eventually(lambda: listed().count("attached") >= number, 10, listed)

    def reads(self):
        """Waits until the only consumer has given a batch back: it has opened the file that it compares with."""

        def consumers():
            done = self.ctl("clients", "--json", user="root", check=False)
            return [row for row in json.loads(done.stdout or "[]") if row["feed"]]

        eventually(lambda: [row for row in consumers() if row["batches"] > row["held"]], 10, consumers)

    def consume(self, epochs=1, work_ms=20, user="alice", dataset="numbers", environment=None):
        return Consumer(self, epochs, work_ms, user, dataset, environment)


class Consumer:
    """Reads whole epochs, compares every byte with the file, and counts samples."""

    def __init__(self, service, epochs, work_ms, user, dataset, environment):
        self.epochs = epochs
        self.process = service.machine.start(
            "feedctl", "read", dataset, "--verify", f"--batch-size={BATCH}", f"--epochs={epochs}", f"--work={work_ms}",
            "--shuffle", user=user, environment=environment,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def runs(self):
        return self.process.poll() is None

    def finish(self, seconds=120):
        text, _ = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, text
        return text


def repacked(package, version, folder):
    """The same package with another version."""
    tree = pathlib.Path(folder) / package.name
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    text = control.read_text(encoding="utf-8")
    old = next(line for line in text.splitlines() if line.startswith("Version: "))
    number = old.split(": ")[1]
    control.write_text(text.replace(old, f"Version: {version}").replace(f"(= {number})", f"(= {version})"), encoding="utf-8")
    target = pathlib.Path(folder) / package.name.replace(number, version)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, target], check=True, stdout=subprocess.DEVNULL)
    return target
