"""Reads that never end: they are seen, and what they keep from their batches is read by other loaders."""

import re
import signal
import threading
import time

import consumer
import data
import expected
import harness
import users
from test_odd_storage import SAMPLES, SIZE, feed_counters, fuse_instance

BATCH = 10
TIMEOUT = 2  # loader_timeout, the least
LOADER_BEGINS = 1 << 20  # bytes that a loader claims chunk by chunk (FIRST_BYTES of job_round.c)


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


def slots_in_use(feedd):
    (feed,) = feedd.statistics()["feeds"]
    return feed["slots_filling"] + feed["slots_ready"]


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
            assert slots_in_use(feedd) > 0, "the slot that it writes to is not free"
            feedd.storage.answer_held()
            harness.eventually(lambda: not loaders(feedd, "killed"), 10, "the loader ends")
            harness.eventually(lambda: slots_in_use(feedd) == 0, 5, "its slot is free")
            harness.eventually(lambda: "the slots that it kept are used again" in feedd.read_log(), 5, "it is told")
            assert feed_counters(feedd)["children_replaced"] == 1


def test_a_read_never_ends_with_io_uring():
    check_delivery("uring", True)


def test_a_read_never_ends_with_threads():
    check_delivery("pread", True)


def test_a_read_never_ends_in_a_file_that_cannot_be_mapped():
    check_delivery("mapped", True)


def take_until_error(reader):
    """The first batches may have been read before."""
    while True:
        reader.command("next", 20000)
        event = reader.event()
        if event["event"] == "error":
            return event
        reader.release(event)


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
                error = take_until_error(reader)
                waited = time.monotonic() - begun
                assert error["code"] == "EIO" and "loader_timeout" in error["text"], error
                assert f"dataset numbers: a read of {path} has not ended for " in error["text"], error
                assert TIMEOUT < waited < (2 * TIMEOUT + 5) * harness.SLOWNESS, waited
            bystander.take(20)
        assert str(feedd.other) not in feedd.read_log()
        feedd.storage.answer_held()
        harness.eventually(lambda: feedd.status()["feeds"] == 1, 10, "the feed is gone")
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=1) as reader:
            expected.check_run(feedd.content, reader.finish(), BATCH)


def test_a_page_fault_never_ends():
    check_failure("mapped", False, 1)  # whoever needs the page waits for the same read


def test_nobody_can_read_with_io_uring():
    check_failure("uring", True, 10**6)


def test_nobody_can_read_with_threads():
    check_failure("pread", True, 10**6)


def left_behind(feedd):
    return loaders(feedd, "killed") and "was killed and has not ended" in feedd.read_log()


def test_a_consumer_is_killed_while_its_batch_hangs():
    """Another one continues from the start in the same ring, without the slot that is kept."""
    with serve("pread") as feedd:
        Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=1, shuffle=True, step=True) as reader:
            reader.attached()
            harness.eventually(lambda: left_behind(feedd), 10, "a loader is left behind")
            reader.process.send_signal(signal.SIGKILL)
            harness.eventually(lambda: feedd.status()["sessions"] == 1, 5, "the session has ended")  # feedctl's own
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=2, shuffle=True) as reader:
            expected.check_run(feedd.content, reader.finish(), BATCH, epochs=2, shuffle=True)
        assert loaders(feedd, "killed")
        feedd.storage.answer_held()
        harness.eventually(lambda: slots_in_use(feedd) == 0, 10, "everything is free")


def test_a_feed_closes_while_a_loader_hangs():
    """Its ring goes when the loader does; until then others are served, and the daemon's descriptors tell."""
    with serve("uring", linger=0) as feedd:
        with consumer.Consumer(feedd, "others", BATCH, step=True) as bystander:
            bystander.attached()
            bystander.take(5)
            before = feedd.descriptors()
            Holding(feedd.storage, 1)
            with consumer.Consumer(feedd, "numbers", BATCH, shuffle=True, step=True) as reader:
                reader.attached()
                harness.eventually(lambda: left_behind(feedd), 10, "a loader is left behind")
                reader.take(20)
            harness.eventually(lambda: not loaders(feedd, "running")[2:], 10, "the other loaders end")
            bystander.take(20)
            assert feedd.status()["feeds"] == 2 and loaders(feedd, "killed")
            feedd.storage.answer_held()
            harness.eventually(lambda: feedd.status()["feeds"] == 1, 10, "the feed is gone")
            feedd.check_descriptors(before)


def test_the_daemon_stops_without_a_loader_that_hangs():
    """As it was asked to, so with status 0; the log names the loader, its file and for how long it has waited."""
    with serve("uring", stop_timeout=1) as feedd:
        Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, step=True) as reader:
            reader.attached()
            harness.eventually(lambda: left_behind(feedd), 10, "a loader is left behind")
            (loader,) = loaders(feedd, "killed")
            feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait(5) == 0
        (line,) = [line for line in feedd.read_log().splitlines() if "exiting without" in line]
        named = rf"loader {loader['serial']} of feed 1 \(process {loader['pid']}\)"
        assert re.search(rf"{named}.* read of {feedd.storage.path} has not returned for ([4-9]|\d\d) s", line), line
        feedd.storage.answer_held()
        feedd.check_nothing_left()
        feedd.process = None


def ready_slots(feedd):
    (feed,) = feedd.statistics()["feeds"]
    return feed["slots_ready"]


def test_a_ring_without_another_slot():
    """One loader has claimed all of it, and the kernel may still write to any slot. A new loader would take one chunk at a
    time, so this one has filled the ring for a run that is over: all slots become free at once."""
    with serve("uring", loaders=1, ring="64K", queue_depth=64) as feedd:
        with consumer.Consumer(feedd, "numbers", BATCH, step=True, share="job") as reader:
            reader.attached()
            reader.take(LOADER_BEGINS // (BATCH * SIZE) + 1)
        harness.eventually(lambda: ready_slots(feedd) == 4, 10, "a ring that is full")
        Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, step=True, share="job") as reader:
            reader.attached()
            reader.next_fails("EIO", f"a read of {feedd.storage.path} has not ended", "no slot left")
        feedd.storage.answer_held()


def test_a_ring_without_another_slot_while_nobody_waits():
    """The consumer does something else; by the time it asks, the storage is back."""
    with serve("uring", loaders=1, ring="64K", queue_depth=64) as feedd:
        Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, epochs=1, step=True) as reader:
            reader.attached()
            harness.eventually(lambda: left_behind(feedd), 10, "a loader is left behind")
            time.sleep(2 * TIMEOUT + 2)  # more than one that waits would be given
            feedd.storage.answer_held()
            batches = reader.take(SAMPLES // BATCH)
            reader.next_ends()
            expected.check_run(feedd.content, batches, BATCH, epochs=1)


def test_one_read_hangs_while_others_come_back():
    """With two ranks, of which only one waits for it: the loader is never silent, and the read is overtaken."""
    with serve("pread", loaders=1, queue_depth=32) as feedd:
        shape = {"world_size": 2, "local_world_size": 2, "share": "job", "step": True}
        Holding(feedd.storage, 1, lambda offset: offset == 0)
        with consumer.Consumer(feedd, "numbers", BATCH, rank=0, **shape) as first, \
                consumer.Consumer(feedd, "numbers", BATCH, rank=1, **shape) as second:
            first.attached(), second.attached()
            first.command("next", 20000)
            begun = time.monotonic()
            while not first.lines.qsize() and time.monotonic() < begun + 20:
                second.take(1)
                time.sleep(0.02)
            first.expect("batch")
            assert loaders(feedd, "killed"), feedd.read_log()
        feedd.storage.answer_held()


def check_who_sees_the_file(show_others):
    users.need_root()
    with serve("pread", socket_mode="0666", show_others=show_others) as feedd:
        feedd.directory.chmod(0o711)
        Holding(feedd.storage, 1)
        with consumer.Consumer(feedd, "numbers", BATCH, step=True) as reader:
            reader.attached()
            harness.eventually(lambda: waiting(feedd), 10, "a loader waits")
            for arguments in ("status",), ("status", "--json"):
                text = feedd.ctl(*arguments, **users.AS_NOBODY).stdout
                assert (str(feedd.storage.path) in text) == (show_others == "yes"), text
        feedd.storage.answer_held()


def test_other_users_do_not_see_the_file():
    check_who_sees_the_file("no")


def test_other_users_see_the_file_if_the_administrator_says_so():
    check_who_sees_the_file("yes")
