"""GPUs that are not available, run out of memory or are lost, and consumers that hold up others: the clients concerned get
an error, and the others continue. On simulated GPUs, which fail on demand."""

import contextlib
import errno
import os
import struct
import time

import consumer
import data
import devices
import expected
import harness
from devices import CPU, FAULTS, OTHER, SIMULATED, SIMULATED_UUID

SHAPE = {"epochs": 3, "shuffle": True, "seed": 13}
GPUS_AT_ONCE = 12  # The more become ready at once, the later each of them runs again.


def faulty(faults, **settings):
    return devices.serve(environment={FAULTS: faults}, **settings)


def test_example_without_a_driver():
    """It is libfeed that says so, and not the CUDA runtime."""
    example = harness.PROGRAMS / "tests/example_gpu"
    if not example.exists() or os.path.exists("/dev/nvidiactl"):
        harness.skip("needs a build with nvcc, and no driver")
    with devices.serve() as feedd:
        done = feedd.program(example, "numbers", check=False)
        assert done.returncode == 1 and "there is no NVIDIA driver on this machine" in done.stderr, done


# ---- GPUs that fail ----------------------------------------------------------------------------------------


def test_gpu_that_cannot_be_had():
    """The consumer is told why; those of the same feed in host memory do not notice."""
    with faulty("no_export") as feedd:
        with devices.start(feedd, CPU, step=True, share="job", **SHAPE) as host:
            batches = host.take(5)
            for _ in range(3):
                options = {"batch_size": 20, "device": SIMULATED, "share": "job", **SHAPE}
                consumer.refused(feedd, "EOPNOTSUPP", SIMULATED_UUID, "cannot export", **options)
                consumer.refused(feedd, "EOPNOTSUPP", "cannot export", device=SIMULATED)
                batches += host.take(5)
            assert any("cannot export" in line for line in feedd.status()["last_errors"])
            batches += host.take(280)
            host.next_ends()
            expected.check_run(devices.content(feedd), batches, 20, **SHAPE)
        harness.eventually(lambda: not devices.transfers(feedd), 10, "no transfer process")


def test_gpu_whose_faults_nobody_knows():
    with faulty("nonsense=1") as feedd:
        consumer.refused(feedd, "EINVAL", "nonsense", device=SIMULATED)


def test_gpu_memory_is_out():
    """The memory serves those that came first, and is freed when they leave."""
    with faulty("memory=50000", device_pool="40K", linger=0, device_linger=60) as feedd:
        with devices.start(feedd, SIMULATED, step=True, share="one") as first:
            first.take(5)
            words = ("1 MiB of GPU memory", SIMULATED_UUID, "smaller batches", "device_pool")
            consumer.refused(feedd, "ENOMEM", *words, batch_size=20, device=SIMULATED, share="two")
            with devices.start(feedd, OTHER, step=True, share="two") as other, \
                    devices.start(feedd, CPU, step=True, share="two") as host:
                other.take(3), host.take(3), first.take(50)
        harness.eventually(lambda: devices.gpu(feedd, SIMULATED_UUID)["pools"] == 0, 5, "its pool is closed")
        with devices.start(feedd, SIMULATED, step=True, share="two") as second:
            second.take(5)


def test_bound_of_device_memory():
    with devices.serve(device_memory="64K", device_pool="32K", linger=0) as feedd:
        with devices.start(feedd, SIMULATED, share="one", step=True) as one:
            with devices.start(feedd, SIMULATED, share="two", step=True) as two:
                words = ("device_memory", SIMULATED_UUID, "prefetch")
                consumer.refused(feedd, "ENOSPC", *words, batch_size=20, device=SIMULATED, share="three")
                # Each GPU has its own limit, and host memory has neither.
                for device in (OTHER, CPU):
                    with devices.start(feedd, device, share="three", step=True) as three:
                        three.take(5)
                one.take(20), two.take(20)
            harness.eventually(lambda: devices.gpu(feedd, SIMULATED_UUID)["pools"] == 1, 5, "there is room again")
            with devices.start(feedd, SIMULATED, share="three", step=True) as three:
                three.take(5), one.take(5)


def test_batch_that_is_too_large_for_a_gpu():
    """Said before any memory is asked for, though there is not enough of that either; in host memory it may be had."""
    with harness.Instance(ring_memory="64M") as feedd:
        path = feedd.directory / "large.bin"
        path.touch()
        os.truncate(path, 300 << 20)
        feedd.add_dataset("large", format="records", path=path, record_bytes=1 << 20, field_x="u8[1048576] @ 0")
        feedd.start()
        words = ("257 MiB", "at most 256 MiB", "smaller batches")
        consumer.refused(feedd, "EOVERFLOW", *words, dataset="large", batch_size=257, device=SIMULATED)
        assert not feedd.statistics()["feeds"] and not feedd.statistics()["gpus"] and not devices.transfers(feedd)
        consumer.refused(feedd, "ENOSPC", "ring_memory", dataset="large", batch_size=257, device=CPU)
        consumer.refused(feedd, "ENOSPC", "ring_memory", dataset="large", batch_size=256, device=SIMULATED)


def test_simulated_gpus_are_named():
    """Wherever it is said what the daemon can deliver to, and when one is asked for that it has not."""
    for count, have in ((0, ""), (1, "1 simulated GPU (host:0)"), (2, "2 simulated GPUs (host:0 to host:1)")):
        with devices.serve(simulated_gpus=count) as feedd:
            for text in (feedd.check().stdout, feedd.ctl("status").stdout, feedd.status()["gpu_support"], feedd.read_log()):
                assert f"; {have}" in text if count else "simulated" not in text, (count, text)
            words = (f"there is no host:{count}:", have or "no simulated GPU", "simulated_gpus in its configuration")
            consumer.refused(feedd, "ENODEV", *words, device=f"host:{count}")


def large_batches(faults):
    """Batches of 1 MiB, so that measuring the bus takes no more than 129 copies."""
    instance = harness.Instance(ring="8M", device_pool="8M", linger=1)
    instance.path = data.add_records(instance, "large", samples=64, size=1 << 16)
    instance.right = expected.read_records([instance.path], 1 << 16, {"x": (0, 1 << 16)})
    return instance.start(environment={FAULTS: faults})


def test_gpu_is_lost():
    """Its consumers are told; those in host memory and on another GPU reach the end of the same feed. The next one that wants
    it gets it, by a new process."""
    shape = {"epochs": 50, "shuffle": True, "seed": 5}
    with large_batches("fail_copy=150") as feedd:
        options = {"share": "job", "wait_for": 3, **shape}
        places = (SIMULATED, CPU, SIMULATED)
        readers = [consumer.Consumer(feedd, "large", 16, device=device, sleep_us=2000, **options) for device in places]
        for reader in readers:
            reader.attached()
        for reader in readers[::2]:
            seen = reader.fail("EIO", SIMULATED_UUID, "lost")
            assert seen, "the GPU was lost before it was used"
            expected.check_bytes(feedd.right, seen)
        expected.check_run(feedd.right, readers[1].finish(), 16, **shape)
        assert any("the GPU is lost" in line for line in feedd.status()["last_errors"]), feedd.status()

        # The process that follows can make 149 copies again.
        def again():
            reader = consumer.Consumer(feedd, "large", 16, device=SIMULATED, epochs=2)
            if reader.event()["event"] == "attached":
                expected.check_run(feedd.right, reader.finish(), 16, epochs=2)
                return True
            return False

        harness.eventually(again, 10, "the GPU is used again")


def test_copy_that_never_ends():
    """The consumer waits; its end, and the daemon's, do not."""
    with harness.Instance(ring="8M", device_pool="8M", linger=0, loader_timeout=2, stop_timeout=2) as feedd:
        data.add_records(feedd, samples=64, size=1 << 16)
        feedd.start(environment={FAULTS: "stall_copy=140"})
        with consumer.Consumer(feedd, "numbers", 16, device=SIMULATED, step=True) as reader:
            reader.attached()
            reader.take(5)
            for _ in range(20):
                reader.command("next", int(300 * harness.SLOWNESS))
                if (event := reader.event())["event"] == "error":
                    break
                reader.release(event)
            assert event["code"] == "EAGAIN", event
            (stuck,) = devices.transfers(feedd)
        # Its pool cannot be closed, so that it moves no more.
        harness.eventually(lambda: stuck not in feedd.children(), 10, "the process that is stuck is ended")
        with consumer.Consumer(feedd, "numbers", 16, device=SIMULATED, step=True) as reader:
            reader.attached()
            reader.take(5)
            begun = time.monotonic()
            feedd.stop()
            assert time.monotonic() - begun < 5 * harness.SLOWNESS


def test_gpu_that_takes_longer_to_open_than_loader_timeout():
    """Its process is not taken for one that hangs, neither while it opens the GPU nor right afterwards."""
    gpus = [f"host:{number}" for number in range(GPUS_AT_ONCE)]
    with devices.serve(loader_timeout=2, simulated_gpus=len(gpus), environment={FAULTS: "open_ms=3000"}) as feedd:
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(consumer.Consumer(feedd, "numbers", 20, device=gpu, step=True)) for gpu in gpus]
            for reader in readers:
                reader.attached()
                reader.take(5)
        assert not feedd.status()["last_errors"], feedd.read_log()


def test_transfer_process_that_cannot_start():
    """It ends at once, each time: consumers are told within seconds, and host memory continues."""
    with devices.serve(loaders=1) as feedd:
        with devices.start(feedd, CPU, step=True, share="job") as host:
            host.take(5)
            with devices.start(feedd, SIMULATED, step=True, share="job", prefetch=2) as reader:
                reader.take(3)
                # Too little address space for a program to be loaded into.
                harness.prlimit(feedd.process.pid, "as", 1 << 20)
                for pid in devices.transfers(feedd):
                    harness.kill(pid)
                for _ in range(20):
                    reader.command("next", 20000)
                    if (event := reader.event())["event"] == "error":
                        break
                    reader.release(event)
                assert event["code"] == "ENODEV" and SIMULATED_UUID in event["text"], event
                harness.prlimit(feedd.process.pid, "as", None)
            host.take(50)

        def again():
            with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, step=True) as reader:
                return reader.event()["event"] == "attached" and reader.take(3)

        harness.eventually(again, 15, "the GPU is used again")


# ---- Consumers that hold others up -------------------------------------------------------------------------

LAG = {"share": "job", "wait_for": 2, "max_lag": 1, "epochs": 2, "shuffle": True}


def check_detached(feedd, good, begun):
    expected.check_run(devices.content(feedd), good.finish(), 20, epochs=2, shuffle=True)
    assert time.monotonic() - begun > 0.8, "nobody was waited for"
    assert devices.feed(feedd)["feed_counters"]["consumers_detached"] == 1


def test_one_that_never_releases_is_detached():
    """Wherever it is, and wherever those that wait for it are."""
    for bad_one, good_one in ((SIMULATED, CPU), (CPU, SIMULATED), (SIMULATED, SIMULATED), (SIMULATED, OTHER)):
        with devices.serve(ring="64K") as feedd:
            begun = time.monotonic()
            good = consumer.Consumer(feedd, "numbers", 20, device=good_one, **LAG)
            with consumer.Consumer(feedd, "numbers", 20, device=bad_one, step=True, prefetch=2, **LAG) as bad:
                bad.attached(), good.attached()
                held = [bad.next(), bad.next()]
                check_detached(feedd, good, begun)
                bad.next_fails("ETIME", "max_lag", "1 s")
                if bad_one == good_one:  # what it held has been overwritten by now
                    bad.command("release", held[0]["number"])
                    bad.expect_error("ETIME")


def by_hand(feedd, **options):
    """A session that has attached on the simulated GPU and whose stream has released nothing."""
    session = feedd.client()
    session.attach("numbers", 20, device=SIMULATED_UUID, **options)
    return session


def test_one_whose_stream_never_comes_to_the_release_is_detached():
    """It gives every batch back, and its stream gives none: whatever memory the others are in, they are not held up for
    ever."""
    for good_one in (SIMULATED, CPU):
        with devices.serve(ring="64K") as feedd:
            begun = time.monotonic()
            good = consumer.Consumer(feedd, "numbers", 20, device=good_one, **LAG)
            with by_hand(feedd, share="job", wait_for=2, max_lag_s=1, epochs=2, shuffle=True, prefetch=4) as bad:
                good.attached()
                check_releasing(bad)
                check_detached(feedd, good, begun)


def check_releasing(session):
    """Takes and gives back until the daemon ends the session because of its stream."""
    while True:
        body, fields = session.receive(10 * harness.SLOWNESS)
        if body == "error":
            assert fields["code"] == errno.ETIME and "stream" in fields["text"] and "max_lag" in fields["text"], fields
            return
        if body == "grant":
            session.send("release", slots=fields["slots"], waiting=True)


def test_slow_stream_of_a_lone_consumer():
    """It holds up nobody: it may take as long as it likes."""
    with devices.serve() as feedd:
        with by_hand(feedd, max_lag_s=1, prefetch=4) as session:
            granted = []
            for _ in range(4):
                granted += session.expect("grant")["slots"]
                if len(granted) >= 4:
                    break
            session.send("release", slots=granted, waiting=True)
            end = time.monotonic() + 2.5
            while (left := end - time.monotonic()) > 0:
                try:
                    body, fields = session.receive(left)
                    assert body == "grant", fields
                    session.send("release", slots=fields["slots"], waiting=True)
                except TimeoutError:
                    break
            session.write_words(1 << 40)
            session.expect("grant")


# ---- Hostile clients ---------------------------------------------------------------------------------------


def test_devices_that_are_none():
    with devices.serve() as feedd:
        for device, code in (
            ("HOST-99", errno.ENODEV), ("HOST-2", errno.ENODEV), ("HOST-", errno.EINVAL), ("HOST-x", errno.EINVAL),
            ("HOST-4294967296", errno.EINVAL), ("HOST-18446744073709551616", errno.EINVAL), ("HOST--1", errno.EINVAL),
            ("HOST-0x0", errno.EINVAL), ("HOST-00", errno.EINVAL), ("HOST-01", errno.EINVAL), ("HOST-0.", errno.EINVAL),
            ("host-0", errno.EINVAL), ("HOST-0" + "0" * 60, errno.EINVAL), ("MIG-0", errno.EINVAL), ("gpu-0", errno.EINVAL),
            ("cuda:0", errno.EINVAL), ("nonsense", errno.EINVAL), ("GPU-" + "a" * 100, errno.EINVAL),
            ("../../dev", errno.EINVAL), ("GPU-\n\x1b[31m", errno.EINVAL), ("host:0", errno.EINVAL),
            ("x" * 60000, errno.EINVAL),
        ):  # fmt: skip
            with feedd.client() as session:
                session.hello()
                session.send("attach", dataset="numbers", batch_size=10, device=device)
                error = session.expect_closed()
                assert error and error["code"] == code, (device, error)
                assert not devices.transfers(feedd) and not feedd.statistics()["gpus"], device
        consumer.read(feedd, "numbers", 10, device=SIMULATED)


def test_gpu_that_is_not_there():
    """A name that could be one: its process says what is wrong, and no more than as many as there can be are tried."""
    with devices.serve() as feedd:
        for number in range(20):
            with feedd.client(timeout_s=20) as session:
                session.hello()
                session.send("attach", dataset="numbers", batch_size=10, device=f"GPU-00000000-0000-0000-0000-{number:012}")
                error = session.expect_closed()
                assert error["code"] in (errno.ENODEV, errno.ENOTSUP, errno.EBUSY) and len(error["text"]) > 20, error
        consumer.read(feedd, "numbers", 10, device=CPU)
        harness.eventually(lambda: not devices.transfers(feedd), 15, "none of them has a process")
        harness.eventually(lambda: not feedd.statistics()["gpus"], 5, "their records are freed")
        consumer.read(feedd, "numbers", 10, device=SIMULATED)


def test_release_of_what_is_not_held():
    for slots in ([7], [4_000_000_000], [0, 0]):
        with devices.serve() as feedd:
            with devices.start(feedd, SIMULATED, step=True, share="job") as good:
                good.take(1)
                with by_hand(feedd, share="job", prefetch=1) as bad:
                    first = bad.expect("grant")["slots"][0]
                    released = {(0, 0): [first, first], (7,): [(first + 1) % 8]}.get(tuple(slots), slots)
                    bad.send("release", slots=released)
                    assert bad.expect_closed()["code"] == errno.EPROTO
                good.take(30)


def test_words_that_are_garbage():
    """They harm the consumer's own feed at most: another one's, and the daemon, go on."""
    with devices.serve(stop_timeout=5) as feedd:
        good = consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, share="good", sleep_us=3000, **SHAPE)
        good.attached()
        for words in ((1 << 64) - 1, 0, 1 << 63, 1, 12345):
            with by_hand(feedd, share="bad", prefetch=2) as bad:
                for turn in range(30):
                    bad.write_words(words if turn % 2 else (1 << 64) - 1)
                    try:
                        body, fields = bad.receive(0.05)
                    except TimeoutError:
                        continue
                    assert body == "grant", fields
                    bad.send("release", slots=fields["slots"], waiting=True)
                bad.write_words(0)
        expected.check_run(devices.content(feedd), good.finish(), 20, **SHAPE)
        feedd.status()


def test_words_cannot_be_cut_short():
    """Whoever reads them would die of it."""
    with devices.serve() as feedd, by_hand(feedd, prefetch=2) as session:
        ring, _, words = session.fds
        for way in (
            lambda: os.ftruncate(words, 0), lambda: os.ftruncate(words, 1 << 20), lambda: os.pwrite(ring, b"x", 0),
            lambda: os.ftruncate(ring, 0),
        ):  # fmt: skip
            try:
                way()
            except OSError as error:
                assert error.errno in (errno.EPERM, errno.EBADF, errno.EINVAL, errno.EACCES), error
            else:
                raise AssertionError("a client can do that")
        os.pwrite(words, struct.pack("<Q", 5), 0)
        assert session.expect("grant")
