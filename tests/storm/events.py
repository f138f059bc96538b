"""The events of plan.py: each is a function of the storm and a source of chance, and returns whether it hit something."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time

import harness
from lanes import Lane

FLAKY = ("skipping", "failing")


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


# ---- Kills -------------------------------------------------------------------------------------------------


def hinder_lanes_of(storm, loader, seconds):
    """Those that this loader reads for, and those of which nobody knows yet which feed they are on."""
    feed = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{loader}/cmdline", encoding="utf-8") as file:
            feed = int(file.read().replace("\0", " ").split()[-1])
    alive = [(lane, storm.feed_of(lane.process.pid)) for lane in storm.everyone() if lane.alive()]
    known = [lane for lane, its in alive if feed is not None and its == feed]
    unknown = [lane for lane, its in alive if feed is None or its is None]
    storm.recovery.hinder(unknown, seconds)
    return storm.recovery.hinder(known, seconds)


def lanes_on(storm, datasets):
    return [lane for lane in storm.everyone() if lane.shape.dataset in datasets]


def lanes_on_gpus(storm):
    return [lane for lane in storm.everyone() if lane.shape.device]


def kill_loader(storm, chance):
    loaders = storm.daemon.children("loader")["loader"]
    if not loaders:
        return False
    victim = chance.choice(loaders)
    hindrance = hinder_lanes_of(storm, victim, 0.5)
    send(victim, signal.SIGKILL)
    if hindrance[0]:
        storm.recovery.of_lanes("loader", hindrance, 0.5)
    return True


def age_s(pid):
    """Of a process; 0: it has gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    return 0


def kill_transfer(storm, chance):
    """Not before it has worked, as far as one can tell: five that die earlier are the end of the GPU's feeds. On a real GPU it
    takes a second to start, and a slow driver some more to open all pools."""
    youngest = 8 if storm.arguments.slow_driver else 0.5 if storm.arguments.gpu.startswith("host") else 3
    transfers = [pid for pid in storm.daemon.children("transfer")["transfer"] if age_s(pid) >= youngest]
    if not transfers:
        return False
    send(chance.choice(transfers), signal.SIGKILL)
    storm.recovery.of_lanes("transfer process", storm.recovery.hinder(lanes_on_gpus(storm), 1.5), 1.5)
    return True


def kill_supervisor(storm, chance):
    if not storm.daemon.alive() or storm.file_is_cut:
        return False
    storm.upset()
    storm.daemon.kill()
    storm.restart_delay = chance.choice((0, 0, 0.05, 0.3))
    storm.recovery.of_supervisor()
    return True


def kill_consumer(storm, chance):
    victims = [lane for lane in storm.lanes if lane.alive() and lane.running_ns()]
    if not victims:
        return False
    lane = chance.choice(victims)
    lane.signal(signal.SIGKILL)
    storm.recovery.of_consumer(lane)
    return True


def kill_attaching(storm, chance):
    """A visitor is killed within its first milliseconds."""
    lane = visit(storm, chance)
    if lane:
        storm.later(chance.random() * 0.03, lambda: lane.signal(signal.SIGKILL))
    return bool(lane)


# ---- Pauses ------------------------------------------------------------------------------------------------


def pause(storm, pid, seconds):
    send(pid, signal.SIGSTOP)
    storm.later(seconds, lambda: send(pid, signal.SIGCONT))


def pause_loader(storm, chance):
    """Some for longer than loader_timeout."""
    loaders = storm.daemon.children("loader")["loader"]
    if not loaders or time.monotonic() < storm.stalled_until:
        return False
    victim = chance.choice(loaders)
    seconds = chance.choice((0.05, 0.3, 1, 3))
    storm.stalled_until = time.monotonic() + seconds + 1
    hindrance = hinder_lanes_of(storm, victim, seconds + 1)
    pause(storm, victim, seconds)
    if hindrance[0]:
        storm.recovery.of_lanes("loader paused", hindrance, 4.0)
    return True


def pause_transfer(storm, chance):
    transfers = storm.daemon.children("transfer")["transfer"]
    if not transfers:
        return False
    seconds = chance.choice((0.05, 0.3, 1, 3))
    storm.recovery.hinder(lanes_on_gpus(storm), seconds + 1)
    pause(storm, chance.choice(transfers), seconds)
    return True


def pause_supervisor(storm, chance):
    if not storm.daemon.alive():
        return False
    storm.upset()
    pause(storm, storm.daemon.pid, chance.choice((0.05, 0.3, 1)))
    return True


def pause_consumer(storm, chance):
    """For longer than max_lag, some of them."""
    victims = [lane for lane in storm.lanes if lane.alive()]
    if not victims:
        return False
    lane = chance.choice(victims)
    pause_s = chance.choice((0.05, 0.3, 1, 3))
    lane.signal(signal.SIGSTOP)
    process = lane.process
    storm.recovery.hinder([lane], pause_s)  # and its neighbours, which wait for it
    storm.later(pause_s, lambda: (process is lane.process) and lane.signal(signal.SIGCONT))
    return True


# ---- Comings and goings ------------------------------------------------------------------------------------


def visit(storm, chance):
    """A consumer joins a feed that is there, or has one made, and leaves after some batches."""
    free = [lane for lane in storm.visitors if not lane.alive()]
    if not free:
        return None
    lane: Lane = chance.choice(free)
    lane.seed = chance.randrange(3) if not lane.shape.group else lane.seed
    lane.fresh = True
    lane.start(batches=chance.randrange(1, 60), user=storm.stranger if chance.random() < 0.5 else None)
    return lane


def reload(storm, chance):
    """Not of a daemon that has just begun: it may not yet know the signal."""
    if storm.file_is_cut or not storm.daemon.alive() or time.monotonic() - storm.daemon.started_at < 1:
        return False
    storm.write_config(
        loaders=chance.choice((1, 2, 3)), queue_depth=chance.choice((2, 64)), linger=chance.choice((0, 1, 2)),
        extra=chance.random() < 0.5, io={name: chance.choice(("uring", "mapped", "pread", "auto")) for name in storm.plain},
    )  # fmt: skip
    storm.daemon.kill(signal.SIGHUP)
    storm.reloaded = time.monotonic()
    return True


def flood(storm, chance):
    """Hundreds of sessions that attach and go."""
    script = storm.here / "flood.py"
    user = str(storm.stranger or os.getuid())
    command = [sys.executable, script, storm.instance.socket, str(chance.choice((0.3, 1.0))), user]
    storm.background.append(subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=harness.die_with_parent,
    ))  # fmt: skip
    return True


# ---- What the machine denies -------------------------------------------------------------------------------


def heirs(storm):
    """Processes that keep the limits with which they were started. Loaders set their own."""
    return storm.daemon.children("transfer")["transfer"]


def limit(storm, kind, value, seconds):
    """Of the daemon, and of the processes that it starts meanwhile."""
    pid = storm.daemon.pid
    # The first time, it is still as it was: a later limit may begin before an earlier one ends.
    soft, hard = storm.limits.setdefault((pid, kind), resource.prlimit(pid, kind))

    def restore():
        storm.end_denial()
        for process in (pid, *heirs(storm)):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process, kind, (soft, hard))

    resource.prlimit(pid, kind, (value, hard))
    storm.begin_denial()
    storm.later(seconds, restore)
    return True


def few_descriptors(storm, chance):
    try:
        open_now = len(os.listdir(f"/proc/{storm.daemon.pid}/fd"))
        value = max(8, open_now + chance.choice((-5, 0, 2, 5, 10)))
        return limit(storm, resource.RLIMIT_NOFILE, value, chance.choice((0.3, 1.0)))
    except OSError:  # it has just ended
        return False


def small_files(storm, chance):
    try:
        return limit(storm, resource.RLIMIT_FSIZE, chance.choice((0, 4096, 1 << 20)), chance.choice((0.3, 1.0)))
    except OSError:
        return False


def little_memory(storm, chance):
    """The kernel reclaims what it can, and may end processes of the daemon."""
    if storm.group.refusal or not storm.daemon.alive():
        return False
    storm.begin_denial()
    storm.upset()
    storm.daemon.expected = True
    storm.group.squeeze(chance.choice((1 << 20, 8 << 20)))

    def restore():
        storm.end_denial()
        storm.group.restore()

    storm.later(chance.choice((0.3, 1.0)), restore)
    return True


# ---- Storage -----------------------------------------------------------------------------------------------


def fault(storm, seconds, **faults):
    """Nothing else stalls a loader meanwhile: a batch that two loaders in turn have waited for, each for longer than
    loader_timeout, is rightly the end of its feed."""
    if storm.storage.refusal or time.monotonic() < storm.stalled_until:
        return False
    storm.storage.set(**faults)
    storm.faulty_from = time.monotonic()
    storm.faulty_until = storm.stalled_until = storm.faulty_from + seconds + 1
    storm.recovery.hinder(lanes_on(storm, FLAKY), seconds + 3)
    storm.later(seconds, storm.storage.set)
    return True


def failing_reads(storm, chance):
    return fault(storm, 1.0, failing=chance.choice((5, 200, 1000)))


def slow_reads(storm, chance):
    return fault(storm, 1.5, delay_us=chance.choice((2000, 50000)))


def hanging_reads(storm, chance):
    seconds = chance.choice((0.5, 3.0))  # with and without loader_timeout passing
    return fault(storm, seconds, hang_s=seconds)


def files_may_change(storm):
    """Nothing opens a dataset whose files are not as they were: that would be another one. The daemon has said that it had
    all indices after it was last given a reason to build any."""
    since = max(storm.reloaded, storm.last_upset_ns() / 1e9, storm.daemon.started_at)
    return not storm.file_is_cut and time.monotonic() >= since + 2 and storm.all_open >= since + 0.5


def cut_file(storm, chance):
    """Two of them. A whole number of pages stays, since the rest of a page that is mapped would read as zeros. Of files whose
    samples are replaced, most stays, so that another one is soon found."""
    if not files_may_change(storm):
        return False
    storm.file_is_cut = True
    cut = []
    for path, content, least in chance.sample(storm.cuts, 2):
        pages = len(content) // 4096
        keep = chance.randrange(pages * least // 4, pages) * 4096
        os.truncate(path, keep)
        cut.append((path, content, keep))

    def restore():
        for path, content, keep in cut:
            with path.open("r+b") as file:
                file.seek(keep)
                file.write(content[keep:])
        storm.file_is_cut = False

    storm.later(chance.choice((0.1, 0.5)), restore)
    return True


def lose_files(storm, chance):
    """Some are gone, some are cut, and some are folders or links; then all are as they were."""
    if not files_may_change(storm):
        return False
    storm.file_is_cut = True
    lost = chance.sample(storm.pictures, len(storm.pictures) // 5)
    for path in lost:
        path.rename(path.with_suffix(".lost"))
        kind = chance.randrange(5)
        if kind == 0:
            path.mkdir()
        elif kind == 1:
            path.symlink_to("/etc/hostname")
        elif kind == 2:
            path.write_bytes(b"longer than any of them" * 50)

    def restore():
        for path in lost:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.with_suffix(".lost").replace(path)
        storm.file_is_cut = False

    storm.later(chance.choice((0.1, 0.5)), restore)
    return True


def grow_folder(storm, chance):
    """Files and directories come that do not belong to the dataset, also while it is indexed; some stay."""
    folder = chance.choice(storm.pictures).parent
    for _ in range(chance.randrange(1, 40)):
        (folder / f"{chance.getrandbits(32):08x}.part").write_bytes(b"half a file")
    for path in list(folder.glob("*.part"))[: chance.randrange(60)]:
        path.unlink()
    return True
