"""What a machine may deny: io_uring, locked memory, shared memory, descriptors. feedd runs on with less where it can,
and says so; else it refuses with numbers, and running feeds continue."""

import errno
import os
import resource
import sys

import consumer
import data
import expected
import harness
import test_making
import test_ragged_room

NOBODY = 65534


def started_loaders(instance):
    """What status says of each of them, once all have a reader."""

    def look():
        rows = [process for process in instance.status()["processes"] if process["role"] == "loader"]
        return rows if rows and all(row["reader"] != "none" for row in rows) else None

    return harness.eventually(look, 10, "every loader has a reader")


def check_reading(instance, path, reader, reason):
    """Everything is delivered, and feedctl status names reader and reason, perhaps only after a while."""
    content = expected.read_records([path], 64, {"x": (0, 64)})
    with consumer.Consumer(instance, "numbers", 32, epochs=2, shuffle=True, step=True) as first:
        first.attached()
        batches = first.take(20)
        harness.eventually(lambda: all(process["reader"] == reader and reason in process["reason"]
                                       for process in started_loaders(instance)), 10, f"{reader}: {reason}")
        text = instance.ctl("status").stdout
        assert reader in text and reason in text, text
        batches += first.take(len(expected.run_batches(1000, 32, epochs=2)) - 20)
        first.next_ends()
        expected.check_run(content, batches, 32, epochs=2, shuffle=True)


def without_uring(error, reason):
    with harness.Instance(io="uring") as feedd:
        path = data.add_records(feedd)
        script = harness.ROOT / "tests/integration/forbid_uring.py"
        feedd.start(wrap=[sys.executable, script, str(int(error))])
        check_reading(feedd, path, "pread", reason)


def test_io_uring_is_forbidden():
    without_uring(errno.EPERM, "io_uring is forbidden here")


def test_kernel_has_no_io_uring():
    without_uring(errno.ENOSYS, "this kernel has no io_uring")


def test_io_uring_is_there():
    """The other side of the two tests above: on this machine, as it is, buffers are registered, after a while."""
    with harness.Instance(io="uring") as feedd:
        path = data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 32, step=True) as reader:
            reader.attached()
            reader.take(1)
            kinds = {process["reader"] for process in started_loaders(feedd)}
            if kinds == {"pread"}:
                harness.skip("this machine itself forbids io_uring")
            harness.eventually(lambda: {process["reader"] for process in started_loaders(feedd)} == {"uring (registered)"},
                               10, "the ring is registered")
        consumer.read(feedd, "numbers", 32)
        assert path.exists()


def test_a_ring_with_ragged_fields_is_registered_too():
    """... as far as slots have memory in any case. The batch with the large sample, which comes later, needs more."""
    feedd, content = test_ragged_room.serve(test_ragged_room.samples(300), io="uring")
    with feedd, consumer.Consumer(feedd, "wds", 5, epochs=1, step=True, ring_bytes=1) as reader:
        reader.attached()
        batches = reader.take(20)
        if {process["reader"] for process in started_loaders(feedd)} == {"pread"}:
            harness.skip("this machine itself forbids io_uring")
        harness.eventually(lambda: {process["reader"] for process in started_loaders(feedd)} == {"uring (registered)"},
                           10, "the ring is registered")
        before = feedd.status()["ring_bytes"]
        batches += reader.take(60)
        reader.next_ends()
        assert feedd.status()["ring_bytes"] > before + test_ragged_room.LARGE / 2
    expected.check_run(content, batches, 5)


def test_delay_without_io_uring():
    with harness.Instance() as feedd:
        data.add_records(feedd, io_delay_us=2000)
        script = harness.ROOT / "tests/integration/forbid_uring.py"
        feedd.start(wrap=[sys.executable, script, str(int(errno.EPERM))])
        batches = consumer.read(feedd, "numbers", 32)
        assert expected.check_exactly_once(1000, batches) == 1


def as_nobody(instance):
    """The command prefix for running as another user, in a directory which that user then owns."""
    if os.geteuid() != 0:
        harness.skip("only root can run programs as another user")
    for path in (instance.directory, *instance.directory.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all", "--"]


def test_little_memory_may_be_locked():
    with harness.Instance(io="uring", ring="128K", loaders=1) as feedd:
        path = data.add_records(feedd)
        wrap = as_nobody(feedd)
        feedd.start(wrap=[*wrap, "prlimit", "--memlock=65536:65536", "--"])
        check_reading(feedd, path, "uring", "RLIMIT_MEMLOCK")


def in_small_shared_memory(size):
    """The words before a command that sees a /dev/shm of that size."""
    if os.geteuid() != 0:
        harness.skip("only root can mount a small /dev/shm")
    mount = f'mount -t tmpfs -o size={size},mode=1777 none /dev/shm && exec "$@"'
    return ["unshare", "--mount", "--propagation=private", "--", "sh", "-c", mount, "sh"]


def test_shared_memory_is_too_small():
    """Refused with what is needed and what is there; smaller feeds can be had, also afterwards."""
    with harness.Instance(linger=0) as feedd:
        path = data.add_records(feedd)
        feedd.start(wrap=in_small_shared_memory("8m"))
        with consumer.Consumer(feedd, "numbers", 10, ring_bytes=1 << 20, step=True) as running:
            running.attached()
            harness.eventually(lambda: all(ring.st_blocks > 2048 for ring in test_making.rings_of(feedd)), 10, "all slots")
            before = feedd.descriptors()
            for _ in range(3):
                large = {"batch_size": 500, "ring_bytes": 20 << 20}
                consumer.refused(feedd, "ENOSPC", "/dev/shm", "ring of 2", "6 MiB free", **large)
            running.take(50)
            feedd.check_descriptors(before)
            assert feedd.statistics()["ring_bytes"] < 2 << 20
        batches = consumer.read(feedd, "numbers", 10, ring_bytes=2 << 20)
        expected.check_run(expected.read_records([path], 64, {"x": (0, 64)}), batches, 10)


def test_shared_memory_fills_up_feed_by_feed():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start(wrap=in_small_shared_memory("8m"))
        running = []
        for seed in range(20):
            reader = consumer.Consumer(feedd, "numbers", 10, ring_bytes=2 << 20, step=True, shuffle=True, seed=seed)
            event = reader.event()
            if event["event"] == "error":
                break
            running.append(reader)
        assert event["event"] == "error" and event["code"] == "ENOSPC", event
        assert len(running) == 3, len(running)
        for reader in running:
            reader.take(30)
            reader.kill()


# ---- Descriptors -------------------------------------------------------------------------------------------


@harness.quick_attach
def test_out_of_descriptors():
    """The daemon lives, says so, serves those it has, and takes clients again when there are descriptors again."""
    with harness.Instance(linger=0) as feedd:
        data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            before = feedd.descriptors()
            harness.prlimit(feedd.process.pid, "nofile", before + 10)
            sessions = [feedd.client() for _ in range(40)]
            for session in sessions[:5]:
                session.hello()
            harness.eventually(lambda: "out of file descriptors" in feedd.read_log(), 5, "a word about it in the log")
            reader.take(50)
            cpu = feedd.cpu_seconds()
            for session in sessions:
                session.close()
            feedd.check_descriptors(before)
            reader.take(50)
            assert feedd.cpu_seconds() - cpu < 2, "it turns in circles"
        harness.eventually(lambda: feedd.ctl("status", check=False).returncode == 0, 5, "it takes clients again")
        consumer.read(feedd, "numbers", 10)


def test_waiting_for_descriptors_costs_nothing():
    with harness.Instance(linger=0) as feedd:
        data.add_records(feedd)
        feedd.start()
        harness.prlimit(feedd.process.pid, "nofile", feedd.descriptors())
        with feedd.client(), feedd.client():
            harness.eventually(lambda: "out of file descriptors" in feedd.read_log(), 5, "a word about it in the log")
            before = feedd.cpu_seconds()
            harness.eventually(lambda: heartbeat_age(feedd) < 1, 3, "it continues")
            lines = feedd.read_log().count("out of file descriptors")
            assert feedd.cpu_seconds() - before < 0.2
            assert lines < 50, f"{lines} lines in the log"


def heartbeat_age(instance):
    return instance.statistics()["heartbeat_age_s"]


@harness.limit(90)
def test_out_of_descriptors_for_a_feed():
    """A feed needs several: whichever is missing, attaching fails in words, and nothing is half there. Where loaders find too
    few, they are started five times, with pauses of 15 s in all."""
    with harness.Instance(linger=0, device_linger=0, loaders=3) as feedd:
        data.add_records(feedd)
        feedd.start()
        before = feedd.descriptors()
        outcomes = []
        for spare in range(1, 45 if harness.DEVICE else 30):
            harness.prlimit(feedd.process.pid, "nofile", before + spare)
            with consumer.Consumer(feedd, "numbers", 10, step=True, connect_timeout=3000) as reader:
                event = reader.event()
                outcomes.append(event["event"])
                if event["event"] == "attached":  # loaders inherit the limit, which may be too low for them alone
                    reader.command("next", 20000)
                    event = reader.event()
                assert event["event"] != "error" or len(event["text"]) > 20, event
            harness.prlimit(feedd.process.pid, "nofile", 4096)
            harness.eventually(lambda: not feedd.children(), 10, "all loaders are gone")
            feedd.check_descriptors(before)
        assert outcomes[-1] == "attached", outcomes
        assert "error" in outcomes, outcomes
        consumer.read(feedd, "numbers", 10)


def test_out_of_processes():
    """Loaders cannot be started: the consumer is told, and the daemon is unaffected."""
    with harness.Instance(linger=0) as feedd:
        data.add_records(feedd)
        wrap = as_nobody(feedd)
        feedd.start(wrap=wrap)
        before = feedd.descriptors()
        harness.prlimit(feedd.process.pid, "nproc", 1)
        consumer.refused(feedd, "EAGAIN", "loader process")
        harness.prlimit(feedd.process.pid, "nproc", 4096)
        feedd.check_descriptors(before)
        consumer.read(feedd, "numbers", 10)


# ---- In the consumer's process -----------------------------------------------------------------------------


def limited(kind, value):
    return {"preexec_fn": lambda: resource.setrlimit(kind, (value, value))}


@harness.quick_attach
def test_consumer_without_a_descriptor_for_the_ring():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, program=limited(resource.RLIMIT_NOFILE, 4)) as reader:
            error = reader.expect("error")
            assert error["code"] == "EMFILE" and "open files" in error["text"], error
        consumer.read(feedd, "numbers", 10)


@harness.host_memory
def test_consumer_without_address_space_for_the_ring():
    if harness.sanitized():
        harness.skip("the address sanitizer needs the address space itself")
    with harness.Instance(ring_memory="1G") as feedd:
        data.add_records(feedd)
        feedd.start()
        program = limited(resource.RLIMIT_AS, 40 << 20)
        with consumer.Consumer(feedd, "numbers", 1000, ring_bytes=200 << 20, program=program) as reader:
            error = reader.expect("error")
            assert error["code"] == "ENOMEM" and len(error["text"]) > 10, error
        consumer.read(feedd, "numbers", 10)
