"""A feed in the making: its loaders start while a thread allocates the ring, which is held up here."""

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import time

import consumer
import data
import devices
import expected
import harness

HELD_UP_S = 0.6 * harness.SLOWNESS
FIELDS = {"x": (0, 64)}


@contextlib.contextmanager
def slow_to_allocate(wrap=(), **settings):
    """A feedd that takes HELD_UP_S for the part of a ring that loaders need to start, and for each portion of its slots."""
    if harness.sanitized() or not shutil.which("strace"):
        harness.skip("needs strace, beside which the leak checker does not work")
    delay = f"inject=fallocate:delay_enter={int(HELD_UP_S * 1e6)}"
    strace = ("strace", "-D", "-f", "-o", "/dev/null", "-e", "trace=fallocate", "-e", delay)
    with harness.Instance(**settings) as feedd:
        feedd.path = data.add_records(feedd)
        yield feedd.start(wrap=[*strace, *wrap])


@contextlib.contextmanager
def in_the_making(feedd, count=2, **options):
    """A session that has asked for a feed, whose loaders run and whose ring is not there yet. `count`: loaders in all."""
    made = feedd.read_log().count("ring of")
    with feedd.client() as session:
        session.hello()
        session.send("attach", **{"dataset": "numbers", "batch_size": 10, **options})
        harness.eventually(lambda: len(feedd.children_called("loader")) == count, 10, "loaders start")
        assert feedd.read_log().count("ring of") == made, "the feed is made already"
        yield session


def check_order(feedd):
    batches = consumer.read(feedd, "numbers", 10)
    expected.check_run(expected.read_records([feedd.path], 64, FIELDS), batches, 10)


def test_loaders_start_meanwhile():
    with slow_to_allocate() as feedd:
        with in_the_making(feedd) as session:
            session.expect("attached")
            session.expect("grant")
        assert len(feedd.children_called("loader")) == 2
        check_order(feedd)


def rings_of(feedd):
    """The rings that the supervisor has open; loaders have closed theirs."""
    opened = harness.open_files(feedd.process.pid)
    return {ring.st_ino: ring for _, target, ring in opened if target.startswith("/dev/shm/")}.values()


def await_all_slots(feedd):
    """Of the one ring of 4 MiB."""
    harness.eventually(lambda: [ring.st_blocks * 512 >= 4 << 20 for ring in rings_of(feedd)] == [True], 10, "all slots")


def test_loaders_leave_the_pages_alone_meanwhile():
    """One that reads with io_uring pins the whole ring: not before it has been allocated."""
    with slow_to_allocate(io="uring") as feedd, in_the_making(feedd, ring_bytes=8 << 20) as session:
        time.sleep(HELD_UP_S / 2)
        assert feedd.children_called("loader")
        (ring,) = rings_of(feedd)
        assert ring.st_size > 4 << 20 and ring.st_blocks * 512 < 1 << 20, ring
        session.expect("attached")
        session.expect("grant")
        assert "uring" in " ".join(process["reader"] for process in feedd.status()["processes"])


def test_loaders_are_killed_meanwhile():
    with slow_to_allocate() as feedd:
        with in_the_making(feedd) as session:
            killed = feedd.children_called("loader")
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            session.expect("attached")
            session.expect("grant")
        assert not set(killed) & set(feedd.children_called("loader"))
        check_order(feedd)


def test_consumer_leaves_meanwhile():
    with slow_to_allocate(linger=0) as feedd:
        before = feedd.descriptors()
        with in_the_making(feedd):
            pass
        harness.eventually(lambda: not feedd.children_called("loader"), 10, "the loaders of a feed that nobody wants are gone")
        feedd.check_descriptors(before)


def test_stop_meanwhile():
    """stop() itself looks for what is left."""
    with slow_to_allocate() as feedd, in_the_making(feedd) as session:
        began = time.monotonic()
        feedd.process.send_signal(signal.SIGTERM)
        session.expect_closed()
        assert feedd.wait() == 0
        assert time.monotonic() - began < 5 * harness.SLOWNESS


def test_all_of_many_loaders_are_killed_meanwhile():
    """As many quick deaths as a feed may have attempts to start its loaders: together they are one such attempt."""
    with slow_to_allocate(loaders=8) as feedd:
        with in_the_making(feedd, 8) as session:
            for pid in feedd.children_called("loader"):
                os.kill(pid, signal.SIGKILL)
            session.expect("attached")
            session.expect("grant")
        check_order(feedd)


@contextlib.contextmanager
def small_shared_memory():
    """slow_to_allocate with a /dev/shm of 8 MiB, and a file in there with which to fill it up."""
    if os.geteuid() != 0:
        harness.skip("only root can mount a small /dev/shm")
    mount = 'mount -t tmpfs -o size=8m,mode=1777 none /dev/shm && exec "$@"'
    with slow_to_allocate(("unshare", "--mount", "--propagation=private", "--", "sh", "-c", mount, "sh")) as feedd:
        yield feedd, pathlib.Path("/proc", str(feedd.process.pid), "root", "dev/shm/hog")


def test_shared_memory_fills_up_meanwhile():
    """There was room when it was asked for, and is none when the pages are needed."""
    with small_shared_memory() as (feedd, hog):
        before = feedd.descriptors()
        with in_the_making(feedd, ring_bytes=4 << 20) as session:
            hog.write_bytes(bytes(6 << 20))
            error = session.expect("error")
            assert error["code"] == errno.ENOSPC and "MiB does not fit" in error["text"], error
        hog.unlink()
        harness.eventually(lambda: not feedd.children_called("loader"), 10, "the loaders are gone")
        feedd.check_descriptors(before)
        check_order(feedd)


def test_the_first_batch_comes_before_the_last_slot_is_there():
    """Of a ring of 4 MiB, most is still to be allocated."""
    with slow_to_allocate() as feedd, in_the_making(feedd, ring_bytes=4 << 20) as session:
        session.expect("attached")
        session.expect("grant")
        (ring,) = rings_of(feedd)
        assert ring.st_blocks * 512 < 1 << 20, ring
        await_all_slots(feedd)
        check_order(feedd)


def test_shared_memory_fills_up_after_the_first_batch():
    """The feed fails with the reason, and nobody is killed by a page that is not there."""
    with small_shared_memory() as (feedd, hog):
        before = feedd.descriptors()
        with in_the_making(feedd, ring_bytes=4 << 20, prefetch=1) as session:
            session.expect("attached")
            session.expect("grant")
            hog.write_bytes(bytes(6 << 20))
            error = session.expect("error")
            assert error["code"] == errno.ENOSPC and "MiB does not fit" in error["text"], error
        hog.unlink()
        harness.eventually(lambda: not feedd.children_called("loader"), 10, "the loaders are gone")
        assert "killed" not in feedd.read_log() and "signal" not in feedd.read_log(), feedd.read_log()
        feedd.check_descriptors(before, seconds=20)  # the session held a batch, so the ring is kept for 10 s
        check_order(feedd)


def test_a_feed_that_is_left_before_the_last_slot_is_there_can_be_joined_again():
    with slow_to_allocate() as feedd:
        with in_the_making(feedd, ring_bytes=4 << 20, share="kept") as session:
            session.expect("attached")
        with feedd.client() as session:
            session.attach("numbers", 10, share="kept", ring_bytes=4 << 20)
        await_all_slots(feedd)


def test_a_gpu_waits_for_all_slots():
    """Its transfer process pins the whole ring, of which there are 64, 128, 256, 512 and then 1024 slots."""
    with slow_to_allocate() as feedd:
        began = time.monotonic()
        reader = devices.start(feedd, devices.SIMULATED, batch_size=10, ring_bytes=4 << 20, epochs=1)
        assert time.monotonic() - began > 4 * HELD_UP_S
        reader.finish()


def test_idle_feed_makes_way_when_shared_memory_fills_up_meanwhile():
    with small_shared_memory() as (feedd, hog):
        with feedd.client() as session:
            session.attach("numbers", 1000, share="old", ring_bytes=2 << 20)
        with in_the_making(feedd, 4, share="new", ring_bytes=4 << 20, batch_size=1000) as session:
            hog.write_bytes(bytes(5 << 19))
            session.expect("attached")
            session.expect("grant")
        harness.eventually(lambda: [feed["name"] for feed in feedd.statistics()["feeds"]] == ["new"], 10, "one is gone")
        assert "does not fit" not in feedd.read_log()
