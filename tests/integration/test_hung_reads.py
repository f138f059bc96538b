"""Reads that never end: they are seen, and what they keep from their batches is read by other loaders."""

import os
import threading
import time

import consumer
import data
import expected
import harness
from test_odd_storage import SAMPLES, SIZE, feed_counters, fuse_instance

BATCH = 10
TIMEOUT = 2  # loader_timeout, the least


class Holding:
    """Holds the first `most` reads that `which` is true of."""

    def __init__(self, storage, most, which=lambda offset: True):
        self.left, self.which, self.lock = most, which, threading.Lock()
        storage.hold(self)

    def __call__(self, offset):
        with self.lock:
            if not self.left or not self.which(offset):
                return False
            self.left -= 1
            return True


def serve(io, direct=True, loaders=2, **settings):
    settings = {"ring": "1M", "queue_depth": 4, **settings}
    feedd = fuse_instance(io, direct, loaders=loaders, loader_timeout=TIMEOUT, **settings)
    feedd.other = data.add_records(feedd, "others", samples=100, size=64)
    feedd.start()
    return feedd


def loaders(feedd, state):
    return [row for row in feedd.status()["processes"] if row["role"] == "loader" and row["state"] == state]


def waiting(feedd):
    return [row for row in feedd.status()["processes"] if row["waits_for"]]


def check_status(feedd):
    """File and age, while the read lasts."""
    path = str(feedd.storage.path)
    rows = harness.eventually(lambda: waiting(feedd), 10, "a loader waits")
    assert {row["waits_for"] for row in rows} == {path}, rows
    assert all(1 <= row["waited_s"] < 30 for row in rows), rows
    (line, *_) = [line for line in feedd.ctl("status").stdout.splitlines() if path in line and "waited" in line]
    assert f"loader {rows[0]['serial']} of feed {rows[0]['feed']} has waited " in line or len(rows) > 1, line


def check_delivery(io, direct):
    """The first read hangs, and its process cannot be killed: its batch comes from another slot."""
    with serve(io, direct) as feedd:
        holding = Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=3, shuffle=True, step=True) as reader:
            reader.attached()
            check_status(feedd)
            assert not holding.left
            batches = reader.take(3 * SAMPLES // BATCH)  # many times around the ring
            reader.next_ends()
            expected.check_run(feedd.content, batches, BATCH, epochs=3, shuffle=True)
            assert len(loaders(feedd, "killed")) == 1 and len(loaders(feedd, "running")) == 2, feedd.status()
            log = feedd.read_log()
            assert log.count("was killed and has not ended: its read of " + str(feedd.storage.path)) == 1, log
            feedd.storage.answer_held()
            harness.eventually(lambda: not loaders(feedd, "killed"), 10, "the loader ends")
            harness.eventually(lambda: "the slots that it kept are used again" in feedd.read_log(), 5, "it is told")
            assert feed_counters(feedd)["children_replaced"] == 1


def test_a_read_hangs_for_ever_with_io_uring():
    check_delivery("uring", True)


def test_a_read_hangs_for_ever_with_threads():
    check_delivery("pread", True)


def test_a_read_hangs_for_ever_in_a_file_that_cannot_be_mapped():
    check_delivery("mapped", True)


def check_failure(io, direct, most):
    """Nobody can read it: consumers are told which file, and for how long it was waited for."""
    with serve(io, direct) as feedd:
        Holding(feedd.storage, most)
        path = str(feedd.storage.path)
        with consumer.Consumer(feedd, "others", BATCH, step=True) as bystander:
            bystander.attached()
            with consumer.Consumer(feedd, "numbers", BATCH, step=True) as reader:
                reader.attached()
                begun = time.monotonic()
                reader.next_fails("EIO", f"dataset numbers: a read of {path} has not ended for ", "loader_timeout")
                waited = time.monotonic() - begun
                assert 2 * TIMEOUT - 0.5 < waited < (2 * TIMEOUT + 5) * harness.SLOWNESS, waited
            bystander.take(20)
        assert str(feedd.other) not in feedd.read_log()
        feedd.storage.answer_held()
        harness.eventually(lambda: feedd.status()["feeds"] == 1, 10, "the feed is gone")
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=1) as reader:
            expected.check_run(feedd.content, reader.finish(), BATCH)


def test_a_page_fault_hangs_for_ever():
    check_failure("mapped", False, 1)  # whoever needs the page waits for the same read


def test_nobody_can_read_with_io_uring():
    check_failure("uring", True, 10**6)


def test_nobody_can_read_with_threads():
    check_failure("pread", True, 10**6)
