"""A container with Debian and a systemd of its own, booted with systemd-nspawn. It shares the kernel of this machine, has no
network, and writes to memory, which ends with it."""

import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = f"feedd-check-{os.getpid()}"
PR_SET_PDEATHSIG = 1
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Beside these, the tree has what the packages depend on.
ALWAYS = {"systemd", "systemd-sysv", "python3"}


class Failed(Exception):
    """What a person should read, instead of a trace."""


PATIENCE = 3  # how many times longer things may take than on an idle machine


def eventually(condition, seconds, what):
    deadline = time.monotonic() + PATIENCE * seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE * seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)
    return value


# ---- The files ---------------------------------------------------------------------------------------------


def dependencies(packages):
    """The names of the packages from Debian that these ones depend on; of alternatives, the first."""
    names, own = set(ALWAYS), {package.name.split("_")[0] for package in packages}
    for package in packages:
        wanted = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, capture_output=True, text=True).stdout
        names |= {item.split("|")[0].split("(")[0].split(":")[0].strip() for item in wanted.split(",")}
    return sorted(names - own - {""})


def make_tree(folder, packages):
    """A minimal Debian with what the packages depend on; the one of the previous run, if it has the same."""
    wanted = ",".join(dependencies(packages))
    tree, stamp, new = folder / "base", folder / "base.packages", folder / "base.new"
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return tree
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]  # whose libraries the packages were built with
    stamp.unlink(missing_ok=True)
    for old in (tree, new):
        shutil.rmtree(old, ignore_errors=True)
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=essential", "--dpkgopt=force-unsafe-io",
               f"--include={wanted}", suite, new]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"mmdebstrap could not make a Debian (is there a network?):\n{done.stdout}{done.stderr}")
    new.rename(tree)
    stamp.write_text(wanted, encoding="ascii")
    return tree


# ---- Memory ------------------------------------------------------------------------------------------------


def memory_group_v1():
    """The folder of this process's memory control group, if it is one of version 1."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory") / path.lstrip("/")
    return None


def remove_group(group):
    """With those that systemd has made in it. They are empty as soon as the kernel has ended their processes."""
    folders = [pathlib.Path(path) for path, _, _ in os.walk(group, topdown=False)]
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, AssertionError):
            eventually(lambda folder=folder: remove_folder(folder), 5, folder)


def remove_folder(folder):
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


# ---- The machine -------------------------------------------------------------------------------------------


class Machine:
    def __init__(self, tree, log):
        self.tree, self.log = tree, log
        self.process = self.group = self.leader = None

    def __enter__(self):
        parent = memory_group_v1()
        if parent:
            self.group = parent / NAME
            self.group.mkdir(exist_ok=True)
        command = ["systemd-nspawn", "--quiet", f"--directory={self.tree}", "--volatile=overlay", f"--machine={NAME}",
                   "--register=no", "--private-network", "--console=pipe", "--kill-signal=SIGRTMIN+3"]  # fmt: skip
        if not pathlib.Path("/run/systemd/system").is_dir():
            command.append("--keep-unit")  # there is no systemd out here, which could make it a unit of its own
        if parent:
            # systemd only limits memory if it may make groups before it starts.
            command += ["sh", "-c", "mount -o remount,bind,rw /sys/fs/cgroup/memory && exec /lib/systemd/systemd"]
        else:
            command.append("--boot")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # in its own group, so that what systemd makes can be removed
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=self.prepare,
                env={**os.environ, "SYSTEMD_SECCOMP": "0"},  # nspawn's filter knows no Landlock
            )
        try:
            self.leader = eventually(self.find_leader, 20, self.why_not)
            eventually(self.is_up, 60, self.why_not)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def prepare(self):
        """In the child: it ends with this process, however that ends, and enters the group."""
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if self.group:
            (self.group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def find_leader(self):
        if self.process.poll() is not None:
            raise Failed(f"systemd-nspawn cannot start a container here: {self.why_not()}")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        for child in children.split():
            with contextlib.suppress(OSError):
                numbers = re.search(r"^NSpid:(.*)$", pathlib.Path(f"/proc/{child}/status").read_text(encoding="ascii"), re.M)
                if numbers and numbers.group(1).split()[1:] == ["1"]:
                    return child
        return None

    def is_up(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def why_not(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
        if self.group:
            remove_group(self.group)

    # ---- What is done in it ----

    def path(self, path):
        """As this process sees it."""
        return pathlib.Path(f"/proc/{self.leader}/root") / str(path).lstrip("/")

    def write(self, path, content):
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def install(self, packages):
        for package in packages:
            self.write(f"/srv/packages/{package.name}", package.read_bytes())
        self.run("dpkg", "--install", *(f"/srv/packages/{package.name}" for package in packages), seconds=120)

    def memory_group(self, control_group):
        """The folder, in the machine, of the group that limits a unit's memory."""
        if self.group:
            return f"/sys/fs/cgroup/memory{control_group}"
        assert self.path(f"/sys/fs/cgroup{control_group}/memory.max").exists(), "no memory can be limited in this container"
        return f"/sys/fs/cgroup{control_group}"

    def words(self, arguments, user=None, environment=None):
        """The command that does this in the machine. Users get the groups that they are members of there."""
        settings = [f"{key}={value}" for key, value in {"PATH": PATH, "LC_ALL": "C.UTF-8", **(environment or {})}.items()]
        identity = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        inside = ["nsenter", f"--target={self.leader}", "--all", "env", "--chdir=/", "-i", *settings]
        return [*inside, *identity, *map(str, arguments)]

    def run(self, *arguments, user=None, environment=None, check=True, seconds=60):
        words = self.words(arguments, user, environment)
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def start(self, *arguments, user=None, environment=None):
        words = self.words(arguments, user, environment)
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
        )

    def systemctl(self, *arguments, check=True):
        return self.run("systemctl", *arguments, check=check)

    def show(self, unit, key):
        return self.systemctl("show", "--value", f"--property={key}", unit).stdout.strip()

    # ---- Its journal ----

    def mark(self):
        """A place in the journal."""
        self.run("journalctl", "--sync", check=False)
        text = self.run("journalctl", "--quiet", "--lines=0", "--show-cursor").stdout
        return text.split("-- cursor: ")[1].strip()

    def journal(self, mark):
        """What the daemon and its processes have written since then: pairs of priority and message."""
        rows = [row for row in self.rows(mark) if row.get("SYSLOG_IDENTIFIER") == "feedd"]
        return [(int(row["PRIORITY"]), row["MESSAGE"]) for row in rows]

    def journal_of_systemd(self, mark, unit="feedd.service"):
        """What systemd has written about the unit."""
        rows = [row for row in self.rows(mark) if row.get("UNIT") == unit and row.get("_PID") == "1"]
        return [(int(row["PRIORITY"]), row["MESSAGE"]) for row in rows]

    def rows(self, mark):
        """All of it. journalctl would leave out the first one that matches something after the mark."""
        self.run("journalctl", "--sync", check=False)
        text = self.run("journalctl", "--quiet", "--output=json", f"--after-cursor={mark}").stdout
        return [json.loads(line) for line in text.splitlines()]
