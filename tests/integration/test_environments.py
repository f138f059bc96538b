"""What containers, service managers and administrators may take away. Each environment is a row of the table below. In
each of them feedd delivers the right bytes, resumes, reloads, and replaces a loader that was killed. What an environment
makes impossible is refused with a sentence, and other consumers are not affected.

More about single limits: test_fallback.py (descriptors, processes, locked memory, a full /dev/shm), test_memory_group.py,
test_limits.py (quotas of users), test_odd_storage.py (storage that cannot be mapped, or hangs), ../storm (limits that come
and go)."""

import contextlib
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import typing

import consumer
import data
import expected
import harness
import test_fallback
import test_memory_group

SAMPLES, SIZE, BATCH = 1000, 64, 20
SHAPE = {"shuffle": True, "seed": 5}


@dataclasses.dataclass
class Environment:
    """`enter(instance)` is a context that yields the words before feedd's command line; it may skip."""

    enter: typing.Callable
    settings: dict = dataclasses.field(default_factory=dict)
    # What a loader's row in feedctl status says then: reader, and a part of the reason.
    reader: tuple = ("", "")
    # What is refused there: options of a consumer, the error, and parts of its sentence.
    refused: tuple = ()


# ---- Ways to enter -----------------------------------------------------------------------------------------


def words(*wrap):
    """An environment that another program makes before it runs feedd."""
    return lambda instance: contextlib.nullcontext(wrap)


def computed(make):
    return lambda instance: contextlib.nullcontext(make(instance))


def unshared(*options, script='exec "$@"'):
    """A namespace of its own, entered with unshare(1), in which the script then runs."""

    def enter(_):
        wrap = ["unshare", *options, "--", "sh", "-c", script, "sh"]
        done = subprocess.run([*wrap, "true"], capture_output=True, text=True, check=False)
        if done.returncode:
            harness.skip(f"{' '.join(wrap[1:-1])} is not permitted here: {done.stderr.strip()}")
        return contextlib.nullcontext(wrap)

    return enter


def mounted(script):
    return unshared("--mount", "--propagation=private", script=f'{script} && exec "$@"')


def read_only_root(instance):
    """Only its own folder can be written, and /dev/shm."""
    keep = f"mount --bind {instance.directory} {instance.directory} && mount -o remount,bind,ro /"
    return mounted(keep)(instance)


@contextlib.contextmanager
def memory_group(_):
    if harness.sanitized():
        harness.skip("the address sanitizer takes more memory than the group may have")
    with test_memory_group.limited_group() as group:
        yield ("sh", "-c", f'echo $$ >"{group}/cgroup.procs"; exec "$@"', "sh")


def forbid_uring(error):
    return words(sys.executable, harness.ROOT / "tests/integration/forbid_uring.py", str(int(error)))


def as_nobody(*wrap):
    return computed(lambda instance: [*test_fallback.as_nobody(instance), *wrap])


MANY = {"batch_size": 5000, "ring_bytes": 200 << 20}

ENVIRONMENTS = {
    "memory group": Environment(
        memory_group, {"ring_memory": "4G"}, refused=(MANY, "ENOSPC", "the memory limit of", "96 MiB")),
    "small files": Environment(
        words("prlimit", f"--fsize={6 << 20}:{6 << 20}", "--"), refused=(MANY, "EFBIG", "RLIMIT_FSIZE")),
    "little locked memory": Environment(as_nobody("prlimit", "--memlock=0:0", "--"), {"io": "uring"}),
    "few descriptors": Environment(words("prlimit", "--nofile=64:64", "--")),
    "io_uring forbidden": Environment(
        forbid_uring(errno.EPERM), {"io": "uring"}, reader=("pread", "io_uring is forbidden here")),
    "no io_uring": Environment(
        forbid_uring(errno.ENOSYS), {"io": "uring"}, reader=("pread", "this kernel has no io_uring")),
    "read-only root": Environment(read_only_root),
    "user namespace": Environment(unshared("--user", "--map-root-user")),
    "no network": Environment(unshared("--net", "--ipc", "--uts")),
    "no capabilities": Environment(as_nobody()),
}  # fmt: skip


# ---- What must work ----------------------------------------------------------------------------------------


def check_loader_is_replaced(feedd, content):
    with consumer.Consumer(feedd, "numbers", BATCH, epochs=2, step=True, **SHAPE) as reader:
        reader.attached()
        batches = reader.take(10)
        victim = harness.eventually(lambda: feedd.children_called("loader"), 10, "a loader")[0]
        os.kill(victim, signal.SIGKILL)
        batches += reader.take(60)
        harness.eventually(lambda: len(feedd.children_called("loader")) == 2, 10, "both loaders are there")
        batches += reader.take(30)
        reader.next_ends()
        expected.check_run(content, batches, BATCH, epochs=2, **SHAPE)


def check_resume(feedd, content):
    with consumer.Consumer(feedd, "numbers", BATCH, epochs=1, step=True, **SHAPE) as reader:
        reader.attached()
        batches = reader.take(7)
        token = reader.token()
    batches += consumer.read(feedd, "numbers", BATCH, resume=token, **SHAPE)
    expected.check_run(content, batches, BATCH, **SHAPE)


def check_reload(feedd):
    path = data.add_records(feedd, "others", samples=100, size=8)
    path.chmod(0o644)
    feedd.write_config()
    assert "dataset others: added" in feedd.ctl("reload").stdout
    content = expected.read_records([path], 8, {"x": (0, 8)})
    expected.check_run(content, consumer.read(feedd, "others", 10), 10)


def check(name):
    environment = ENVIRONMENTS[name]
    plain = {"loaders": 2, "ring": "256K", "linger": 0}
    with harness.Instance(**{**plain, **environment.settings}) as feedd:
        path = data.add_records(feedd, samples=SAMPLES, size=SIZE)
        content = expected.read_records([path], SIZE, {"x": (0, SIZE)})
        with environment.enter(feedd) as wrap:
            feedd.start(wrap=wrap)
            expected.check_run(content, consumer.read(feedd, "numbers", BATCH, **SHAPE), BATCH, **SHAPE)
            check_loader_is_replaced(feedd, content)
            check_resume(feedd, content)
            check_reload(feedd)
            check_refusal(feedd, environment)
            feedd.stop()


def check_refusal(feedd, environment):
    """Another consumer receives batches before and after."""
    reader, reason = environment.reader
    with consumer.Consumer(feedd, "numbers", BATCH, step=True) as bystander:
        bystander.attached()
        bystander.take(5)
        if reader:
            for process in test_fallback.started_loaders(feedd):
                assert process["reader"] == reader and reason in process["reason"], process
        if environment.refused:
            options, code, *parts = environment.refused
            consumer.refused(feedd, code, *parts, **options)
        bystander.take(20)


# ---- The table's rows --------------------------------------------------------------------------------------


def test_memory_limit_of_a_control_group():
    check("memory group")


def test_files_may_not_be_large():
    check("small files")


def test_nothing_may_be_locked():
    check("little locked memory")


def test_few_descriptors():
    check("few descriptors")


def test_io_uring_is_forbidden():
    check("io_uring forbidden")


def test_kernel_without_io_uring():
    check("no io_uring")


def test_read_only_root():
    check("read-only root")


def test_user_namespace():
    check("user namespace")


def test_no_network():
    check("no network")


def test_no_proc():
    """Descriptors are opened read-only through it, so nothing can be delivered; the daemon says so and answers."""
    if harness.sanitized():
        harness.skip("the address sanitizer needs /proc itself")
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=SAMPLES, size=SIZE)
        with mounted("mount -t tmpfs -o ro none /proc")(feedd) as wrap:
            feedd.start(wrap=wrap)
            consumer.refused(feedd, "ENOENT", "/proc", dataset="numbers")
            assert "numbers" in feedd.ctl("datasets").stdout


def test_no_capabilities():
    check("no capabilities")


@harness.host_memory
def test_small_shared_memory():
    """Where rings lie in /dev/shm, one that does not fit is refused; where they do not, its size does not matter."""
    with harness.Instance(loaders=2, ring="256K", linger=0) as feedd:
        path = data.add_records(feedd, samples=SAMPLES, size=SIZE)
        content = expected.read_records([path], SIZE, {"x": (0, SIZE)})
        feedd.start(wrap=test_fallback.in_small_shared_memory("2m"))
        check_loader_is_replaced(feedd, content)
        check_resume(feedd, content)
        check_reload(feedd)
        with consumer.Consumer(feedd, "numbers", 500, ring_bytes=16 << 20) as reader:
            event = reader.event()
            assert event["event"] == "attached" or "/dev/shm" in event["text"], event


@harness.host_memory
def test_no_shared_memory():
    """The same without any: refused in words, and the daemon serves what it can."""
    with harness.Instance(loaders=2, ring="256K", linger=0) as feedd:
        data.add_records(feedd, samples=SAMPLES, size=SIZE)
        with mounted("mount -t tmpfs -o ro none /dev/shm")(feedd) as wrap:
            feedd.start(wrap=wrap)
            with consumer.Consumer(feedd, "numbers", BATCH, step=True) as reader:
                event = reader.event()
                assert event["event"] == "attached" or "/dev/shm" in event["text"], event
            assert "numbers" in feedd.ctl("datasets").stdout
