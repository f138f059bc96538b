"""The memory limit of a control group (a container, MemoryMax= of a unit): a ring that does not fit is refused with the
numbers, and the kernel ends nobody."""

import contextlib
import os
import pathlib
import time

import data
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
