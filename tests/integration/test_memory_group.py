"""The memory limit of a control group (a container, MemoryMax= of a unit): a ring that does not fit is refused with the
numbers, and the kernel ends nobody. If others use up the memory, it ends loaders, which are replaced."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import consumer
import data
import expected
import harness

LIMIT_MIB = 96


def own_group():
    """The folder of this process's memory control group, and the name of the file with its limit."""
    root = pathlib.Path("/sys/fs/cgroup")
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return root / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        if not controllers and (root / path.lstrip("/") / "memory.max").exists():
            return root / path.lstrip("/"), "memory.max"
    return harness.skip("this process is in no memory control group")


@contextlib.contextmanager
def limited_group():
    parent, limit = own_group()
    folder = parent / f"feedd-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(LIMIT_MIB << 20), encoding="ascii")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        harness.skip(f"cannot make a memory control group: {error}")
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            harness.eventually(lambda: not (folder / "cgroup.procs").read_text(encoding="ascii"), 5, "the group is empty")
        folder.rmdir()


def served(session):
    slots = session.expect("grant")["slots"]
    session.send("release", slots=slots, waiting=True)


@harness.host_memory
def test_a_ring_beyond_the_limit_is_refused():
    with limited_group() as group, harness.Instance(loaders=2, linger=0, ring_memory="4G", ring="8M") as feedd:
        data.add_records(feedd)
        enter = ("sh", "-c", f'echo $$ >"{group}/cgroup.procs"; exec "$@"', "sh")
        feedd.start(wrap=enter)
        with feedd.client() as bystander, feedd.client(timeout_s=20) as greedy, feedd.client() as modest:
            bystander.attach("numbers", 10)
            served(bystander)
            greedy.hello()
            greedy.send("attach", dataset="numbers", batch_size=10_000, ring_bytes=256 << 20)
            error = greedy.expect("error")
            assert error["code"] == 28, error  # ENOSPC
            assert f"the memory limit of {group} is {LIMIT_MIB} MiB, of which a ring may have " in error["text"], error
            served(bystander)
            modest.attach("numbers", 20, ring_bytes=4 << 20)
            served(modest)
        time.sleep(0.2)
        feedd.stop()


# Enters the group in argv[1] and fills it until the process in argv[2] has ended, with memory that is no process's own. In
# pieces that are smaller than what the end of a loader gives back. It is the next to be killed after that.
BALLAST = """
import os, pathlib, sys, time
pathlib.Path("/proc/self/oom_score_adj").write_text("50")
(pathlib.Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
for _ in range(int(sys.argv[3])):
    if not os.path.exists(f"/proc/{sys.argv[2]}"):
        sys.exit(0)
    os.write(file, bytes(1 << 16))
    time.sleep(0.001)
sys.exit("the group is full, and nobody has been killed")
"""


def use_up(group, pid):
    subprocess.run(
        [sys.executable, "-c", BALLAST, group, str(pid), str(LIMIT_MIB << 5)], check=False, timeout=20 * harness.SLOWNESS,
        stdin=subprocess.DEVNULL, preexec_fn=harness.die_with_parent,
    )  # fmt: skip


@harness.host_memory
def test_a_loader_is_killed_for_memory_and_replaced():
    """The daemon itself continues, although its score is only lower than theirs because they raise theirs."""
    if harness.sanitized():
        harness.skip("a sanitizer's own memory decides who is killed")
    with limited_group() as group, harness.Instance(loaders=1, ring="4M", io="mapped") as feedd:
        data.add_records(feedd)
        feedd.start(wrap=("sh", "-c", f'echo $$ >"{group}/cgroup.procs"; exec "$@"', "sh"))
        with consumer.Consumer(feedd, "numbers", 32, epochs=40, step=True) as reader:
            reader.attached()
            batches = reader.take(10)
            loader = feedd.only_loader()
            use_up(group, loader)
            harness.eventually(lambda: loader not in feedd.children_called("loader"), 5, "the loader is killed")
            batches += reader.take(len(expected.run_batches(1000, 32, epochs=40)) - 10)
            reader.next_ends()
            assert expected.check_exactly_once(1000, batches) == 40
        assert "was killed by signal 9" in feedd.read_log(), feedd.read_log()
        feedd.stop()
