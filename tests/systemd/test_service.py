"""The units: activation, who may attach, reloads, ends of all kinds, and what the journal says of them."""

import contextlib
import json
import pathlib
import re
import signal
import time

from machine import eventually
from service import CONFIG, DATASET, SOCKET

ACTIVE, STOPPED = ("active", "active"), ("inactive", "inactive")
INFO, WARNING, ERROR = 6, 4, 3
OF_JOB = {"FEEDD_SOCKET": "/run/feedd@job/feedd.sock"}  # the socket of feedd@job
HUGE = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")


def activate(service):
    """The socket listens; the first client starts the daemon."""
    service.reset()
    service.machine.systemctl("start", "feedd.socket")
    assert service.states() == ("inactive", "active"), service.states()


def start(service):
    service.reset()
    service.machine.systemctl("start", "feedd")
    assert service.states() == ACTIVE, service.states()


def texts(lines, priority):
    return [text for number, text in lines if number == priority]


# ---- Starting ----------------------------------------------------------------------------------------------


def test_the_first_client_starts_it(service):
    activate(service)
    mark = service.machine.mark()
    with service.consume(work_ms=0) as consumer:
        assert "12800 samples" in consumer.finish()
    assert service.states() == ACTIVE
    lines = service.machine.journal(mark)
    hello = [text for _, text in lines if "serves 1 dataset on" in text]
    assert len(hello) == 1 and hello[0].endswith(SOCKET), lines
    worse = [text for number, text in lines if number != INFO and "the kernel refuses" not in text]
    assert not worse, worse


def test_python_reads(service):
    start(service)
    code = "import feedd; print(sum(1 for _ in feedd.DataLoader('numbers', batch_size=64)))"  # without NumPy
    assert service.machine.run("python3", "-c", code, user="alice").stdout == "200\n"


def test_users_outside_the_group_are_told_so(service):
    activate(service)
    done = service.ctl("datasets", user="bob", check=False)
    assert done.returncode and "members of group feed" in done.stderr, done
    assert service.states() == ("inactive", "active"), "it started the daemon"
    assert "numbers" in service.ctl("datasets", user="alice").stdout


def test_instances_are_apart(service):
    start(service)
    machine = service.machine
    machine.write("/etc/feedd/job.conf", "[feedd]\nloaders = 1\n" + DATASET.replace("[dataset numbers]", "[dataset jobs]"))
    machine.systemctl("start", "feedd@job.socket")
    with service.consume(dataset="jobs", environment=OF_JOB, work_ms=0) as consumer:
        consumer.finish()
    assert machine.show("feedd@job.service", "ActiveState") == "active"
    assert "numbers" in service.ctl("datasets").stdout and "jobs" not in service.ctl("datasets").stdout
    machine.systemctl("stop", "feedd@job")
    assert machine.show("feedd@job.socket", "ActiveState") == "inactive"
    assert service.states() == ACTIVE and "numbers" in service.ctl("datasets").stdout


def test_an_instance_of_another_user(service):
    """A drop-in names the user; members of its group attach."""
    service.reset()
    machine = service.machine
    machine.write("/etc/feedd/bob.conf", "[feedd]\n" + DATASET)
    machine.write("/etc/systemd/system/feedd@bob.service.d/user.conf", "[Service]\nUser=bob\nGroup=bob\n")
    machine.write("/etc/systemd/system/feedd@bob.socket.d/user.conf", "[Socket]\nSocketUser=bob\nSocketGroup=bob\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "feedd@bob")
    theirs = {"FEEDD_SOCKET": "/run/feedd@bob/feedd.sock"}
    assert "numbers" in service.ctl("datasets", user="bob", environment=theirs).stdout
    assert service.ctl("datasets", user="alice", environment=theirs, check=False).returncode
    machine.systemctl("stop", "feedd@bob")


def set_huge_pages(machine, how):
    """Whether the kernel has them at all for a mount."""
    return machine.run("mount", "-o", f"remount,huge={how}", "/dev/shm", check=False).returncode == 0


def huge_pages_of_mount(machine):
    """What /dev/shm offers; None: small pages only."""
    (options,) = [line.split()[3] for line in machine.run("cat", "/proc/mounts").stdout.splitlines()
                  if " /dev/shm " in line]  # fmt: skip
    return next((option.split("=")[1] for option in options.split(",") if option.startswith("huge=")), None)


def huge_bytes(machine, pid):
    """Those of the ring that a loader has mapped; None if it has not mapped one yet."""
    _, *rings = machine.run("cat", f"/proc/{pid}/smaps").stdout.split(" /dev/shm/")
    return int(re.search(r"^ShmemPmdMapped: +(\d+) kB$", rings[0], re.M)[1]) * 1024 if rings else None


def test_rings_have_huge_pages(service):
    """The unit remounts /dev/shm, unless that has a setting of its own."""
    service.reset()
    machine = service.machine
    offered = set_huge_pages(machine, "never")
    assert huge_pages_of_mount(machine) is None
    service.configure(CONFIG + "ring = 32M\n")
    machine.systemctl("start", "feedd")
    assert huge_pages_of_mount(machine) == ("advise" if offered else None)
    with service.consume() as consumer:
        service.attached()
        wanted = offered and "[deny]" not in HUGE.read_text(encoding="ascii")
        for loader in service.loaders():
            # It maps the ring when it starts, and touches it when it reads.
            eventually(
                lambda loader=loader: (huge_bytes(machine, loader) or 0) > 0 if wanted else huge_bytes(machine, loader) == 0, 5,
                lambda loader=loader: f"huge pages are {wanted}, but {huge_bytes(machine, loader)} bytes of them",
            )  # fmt: skip
        consumer.finish()
    if offered:
        set_huge_pages(machine, "within_size")
        machine.systemctl("restart", "feedd")
        assert huge_pages_of_mount(machine) == "within_size"


# ---- Reloading ---------------------------------------------------------------------------------------------


def test_reload(service):
    start(service)
    mark, pid = service.machine.mark(), service.pid()
    with service.consume() as consumer:
        service.attached()
        service.configure(more=DATASET.replace("[dataset numbers]", "[dataset more]"))
        service.machine.systemctl("reload", "feedd")
        eventually(lambda: "more" in service.ctl("datasets").stdout, 5, "the new dataset is there")
        consumer.finish()
    assert service.pid() == pid
    lines = service.machine.journal(mark)
    assert [line for line in lines if "dataset more" in line[1]] == [(INFO, "reloaded: dataset more: added")], lines


def test_a_wrong_reload_fails_and_changes_nothing(service):
    start(service)
    mark = service.machine.mark()
    service.configure(more="[dataset more]\nformat = recods\n")
    done = service.machine.systemctl("reload", "feedd", check=False)
    assert done.returncode, done
    assert "numbers" in service.ctl("datasets").stdout and service.states() == ACTIVE
    errors = texts(service.machine.journal(mark), ERROR)
    assert len(errors) == 1 and "/etc/feedd/datasets.d/more.conf:2: [dataset more] format" in errors[0], errors


def test_the_journal_has_a_line_per_event(service):
    start(service)
    machine = service.machine
    # One more at its start if this kernel lacks what it would give up its rights with.
    missing = any(row["missing"] for row in json.loads(service.ctl("status", "--json").stdout)["confinement"])
    refused = [(WARNING, "confinement: the kernel refuses ")] if missing else []
    service.reset()

    def after(act, *wanted):
        """The lines of an event: their priorities, and what they contain."""
        mark = machine.mark()
        act()
        if wanted:  # the end of a process, for example, is noticed with a delay
            eventually(lambda: len(machine.journal(mark)) >= len(wanted), 5, lambda: machine.journal(mark))
        lines = machine.journal(mark)
        assert len(lines) == len(wanted), lines
        for (priority, text), (number, part) in zip(lines, wanted, strict=True):
            assert priority == number and part in text, lines

    def attach_and_leave():
        with service.consume(work_ms=0) as consumer:
            consumer.finish()

    def first_loader():
        """Of those that waited for a feed, any may be the first."""
        rows = json.loads(service.ctl("status", "--json", user="root").stdout)["processes"]
        return next(row["pid"] for row in rows if row["role"] == "loader" and row["serial"] == 1)

    hello = (INFO, "serves 1 dataset on"), (INFO, "delivery to GPUs: ")
    after(lambda: machine.systemctl("start", "feedd"), *hello, *refused)
    after(attach_and_leave, (INFO, "feed 1: dataset numbers"))
    after(attach_and_leave)
    after(lambda: service.ctl("datasets", user="bob", check=False))
    after(lambda: service.ctl("reload", user="root"), (INFO, "reloaded: serving 1 dataset"))
    after(lambda: service.kill("KILL", first_loader()), (ERROR, "loader 1 of feed 1 was killed by signal 9"))
    ends = (INFO, "stopping: got signal 15"), (INFO, "feed 1 of dataset numbers is closed")
    after(lambda: machine.systemctl("stop", "feedd"), *ends)


# ---- Ends that it does not want ----------------------------------------------------------------------------


def continues_after(service, end, seconds=20):
    """end(service) ends the daemon; systemd starts another with the same socket, and a consumer gets each sample once. Returns
    systemd's lines."""
    pid, mark, inode = service.pid(), service.machine.mark(), service.machine.path(SOCKET).stat().st_ino
    with service.consume() as consumer:
        service.attached()
        end(service)
        eventually(lambda: service.pid() not in (0, pid) and service.states() == ACTIVE, seconds, service.states)
        consumer.finish()
    assert service.machine.path(SOCKET).stat().st_ino == inode, "it is another socket"
    return service.machine.journal_of_systemd(mark)


def test_a_killed_daemon_is_replaced(service):
    start(service)
    lines = continues_after(service, lambda service: service.kill("KILL"))
    assert len([text for _, text in lines if "Main process exited, code=killed, status=9/KILL" in text]) == 1, lines
    assert service.machine.show("feedd", "NRestarts") == "1"


def test_the_watchdog_ends_a_daemon_that_stands_still(service):
    start(service)
    assert service.machine.show("feedd", "WatchdogUSec") == "30s"
    service.drop_in("[Service]\nWatchdogSec=2\nLimitCORE=0\n")
    service.machine.systemctl("restart", "feedd")
    lines = continues_after(service, lambda service: service.kill("STOP"))
    assert len([text for _, text in lines if "Watchdog timeout" in text]) == 1, lines
    service.stays(ACTIVE, 4)  # the new one feeds it, although nothing happens
    assert service.machine.show("feedd", "NRestarts") == "1"


# Takes the memory that the group has left, bit by bit, until the process in argv[2] has been killed, even if nobody has
# waited for it yet. It would be the next.
BALLAST = """
import os, pathlib, sys, time
pathlib.Path("/proc/self/oom_score_adj").write_text("150")
(pathlib.Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
stat = pathlib.Path(f"/proc/{sys.argv[2]}/stat")
def has_ended():
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may also end between opening and reading
        return True
for _ in range(4096):
    if has_ended():
        sys.exit(0)
    os.write(file, bytes(1 << 16))
    time.sleep(0.001)
sys.exit("the group is full, and nobody has been killed")
"""


def test_a_full_memory_limit_costs_a_loader(service):
    """Not the daemon, and no sample."""
    service.reset()
    service.configure(CONFIG.replace("loaders = 2", "loaders = 1\nring = 4M"))
    service.drop_in("[Service]\nMemoryMax=96M\n")
    machine = service.machine
    machine.systemctl("start", "feedd")
    assert machine.show("feedd", "OOMPolicy") == "continue"  # of no effect with control groups of version 1
    group = machine.memory_group(machine.show("feedd", "ControlGroup"))
    pid, mark = service.pid(), machine.mark()
    with service.consume(epochs=2) as consumer:
        service.attached()
        (loader,) = service.loaders(1)
        done = machine.run("python3", "-c", BALLAST, group, loader, check=False)
        # The group stays full until the ballast ends, so it may be killed before it has seen that the loader was.
        assert done.returncode in (0, -signal.SIGKILL), done
        consumer.finish()
    assert service.pid() == pid and service.states() == ACTIVE
    errors = texts(machine.journal(mark), ERROR)
    assert errors and all("was killed by signal 9" in text for text in errors), errors


# ---- Ends that are wanted ----------------------------------------------------------------------------------


def test_a_stopped_daemon_stays_stopped(service):
    """A consumer waits for it and a client asks; one command starts it, and the consumer gets the rest."""
    start(service)
    with service.consume() as consumer:
        service.attached()
        service.machine.systemctl("stop", "feedd")
        assert service.states() == STOPPED
        assert "systemctl status feedd" in service.ctl("datasets", check=False).stderr
        service.stays(STOPPED)
        assert consumer.runs()
        service.machine.systemctl("start", "feedd")
        assert service.states() == ACTIVE
        consumer.finish()


def test_a_restart_leaves_the_socket_open(service):
    start(service)
    continues_after(service, lambda service: service.machine.systemctl("restart", "feedd"))


def test_a_drained_daemon_stays_away(service):
    start(service)
    mark = service.machine.mark()
    with service.consume(work_ms=10) as consumer:
        service.attached()
        service.ctl("drain", user="root")
        consumer.finish()
    eventually(lambda: service.states() == STOPPED, 10, service.states)
    assert service.ctl("datasets", check=False).returncode
    service.stays(STOPPED)
    lines = service.machine.journal(mark)
    assert len([text for _, text in lines if "draining" in text]) == 1, lines
    assert not texts(lines, ERROR), lines
    service.machine.systemctl("start", "feedd")
    assert service.states() == ACTIVE and "numbers" in service.ctl("datasets").stdout


def test_a_mended_configuration_starts_with_one_command(service):
    """Also when a client had started it with the wrong one."""
    activate(service)
    mark = service.machine.mark()
    service.configure(CONFIG + "nonsense = 1\n")
    assert service.ctl("datasets", check=False).returncode
    eventually(lambda: service.states() == ("failed", "inactive"), 10, service.states)
    service.stays(("failed", "inactive"))
    errors = texts(service.machine.journal(mark), ERROR)
    assert len(errors) == 1 and "/etc/feedd/feedd.conf:5: [feedd] nonsense: unknown key" in errors[0], errors
    done = service.machine.systemctl("start", "feedd", check=False)
    assert done.returncode and "control process exited with error code" in done.stderr, done
    service.configure()
    service.machine.systemctl("start", "feedd")
    assert service.states() == ACTIVE and "numbers" in service.ctl("datasets").stdout


@contextlib.contextmanager
def missing_data(service):
    data = service.machine.path("/srv/data/numbers.bin")
    away = data.rename(data.with_suffix(".away"))
    try:
        yield
    finally:
        away.rename(data)


def test_missing_data_is_waited_for(service):
    """It may be on a file system that is not there yet. Consumers wait, too."""
    start(service)
    machine, mark = service.machine, service.machine.mark()
    with service.consume() as consumer:
        service.reads()
        with missing_data(service):
            service.kill("KILL")
            eventually(lambda: int(machine.show("feedd", "NRestarts")) >= 2, 15, lambda: machine.show("feedd", "NRestarts"))
            assert service.states()[1] == "active", "the socket is closed"
        consumer.finish()
    errors = texts(machine.journal(mark), ERROR)
    assert errors and all("/srv/data/numbers.bin: the file cannot be opened" in text for text in errors), errors


def test_missing_data_is_not_waited_for_indefinitely(service):
    """At some time, systemd gives up. One command starts it again."""
    service.reset()
    service.drop_in("[Service]\nRestartSec=100ms\n[Unit]\nStartLimitIntervalSec=10\nStartLimitBurst=3\n")
    machine = service.machine
    machine.systemctl("start", "feedd.socket")
    with missing_data(service):
        assert service.ctl("datasets", check=False).returncode
        eventually(lambda: service.states() == ("failed", "failed"), 15, service.states)
    time.sleep(10)  # StartLimitIntervalSec, within which a busy machine has to have tried so often
    machine.systemctl("start", "feedd")
    assert service.states() == ACTIVE
