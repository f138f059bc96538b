"""Memory of feeds that have closed: clients that keep descriptors and maps of it keep nothing, and what they may still be
reading stays for a while, as part of what their user has."""

import contextlib
import mmap
import os
import struct
import time

import consumer
import data
import harness
import test_ragged
import test_tar
import users

RING = 12 << 20
LIMIT = 16 << 20  # room for one ring


def allocated(fd):
    return os.fstat(fd).st_blocks * 512


def keep_rings(feedd, times):
    """Attaches and leaves again, and keeps each ring's descriptor and a map of it; how much memory each still has."""
    kept, highest = [], 0
    for number in range(times):
        with feedd.client() as session:
            session.attach("numbers", 200 + number, ring_bytes=RING)
            session.expect("grant", 20 * harness.SLOWNESS)
            fd = os.dup(session.fds[0])
            harness.eventually(lambda fd=fd: allocated(fd) >= RING, 10, "memory for all slots")
            kept.append((fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ)))
            highest = max(highest, sum(allocated(fd) for fd, _ in kept))
    return kept, highest


@harness.host_memory
@harness.limit(60)
def test_rings_of_closed_feeds_do_not_stay_with_clients_that_keep_them():
    with users.serve(loaders=1, linger=0, ring_memory=LIMIT, user_ring_memory=LIMIT) as feedd:

        def act():
            kept, highest = keep_rings(feedd, 8)
            deadline = time.monotonic() + 10 * harness.SLOWNESS
            while (left := sum(allocated(fd) for fd, _ in kept)) and time.monotonic() < deadline:
                time.sleep(0.05)
            return f"{highest} {left} {sum(sum(view[:64]) for _, view in kept)}"

        highest, left, read = map(int, users.run_as(users.NOBODY, [], act).split())
        assert RING <= highest <= LIMIT, f"{highest >> 20} MiB were kept at a time"
        assert left == 0, f"{left >> 20} MiB are still kept"
        assert read == 0  # zeros, and no signal


@harness.host_memory
def test_nor_do_those_with_ragged_fields():
    """Such a ring is larger than the memory that it has, which lies apart."""
    with harness.Instance(loaders=1, linger=0) as feedd:
        samples = test_tar.some(200)
        samples[77][1]["jpg"] = bytes(4 << 20)  # no slot has room for it before it comes
        test_ragged.add(feedd, [samples])
        feedd.start()
        with feedd.client() as session:
            session.attach("wds", 8)
            session.expect("grant", 20 * harness.SLOWNESS)
            fd = os.dup(session.fds[0])
            harness.eventually(lambda: allocated(fd) >= feedd.status()["ring_bytes"], 10, "memory for all slots")
            assert os.fstat(fd).st_size > 4 * feedd.status()["ring_bytes"] > 0
        harness.eventually(lambda: allocated(fd) == 0, 10, "all of it is given back")
        os.close(fd)


def dropped_with_batches(path, session):
    """A consumer that holds batches, and whose session the daemon ends because a sample cannot be read; its ring's
    descriptor, a slot that it holds, and a time before the end."""
    content = path.read_bytes()
    session.attach("numbers", 200, ring_bytes=RING)
    slots = session.expect("grant", 20 * harness.SLOWNESS)["slots"]
    while len(slots) < 2:
        slots += session.expect("grant", 20 * harness.SLOWNESS)["slots"]
    fd = os.dup(session.fds[0])
    os.truncate(path, 0)
    began = time.monotonic()
    session.send("release", slots=slots[:1])
    while session.receive()[0] != "error":
        pass
    path.write_bytes(content)
    return fd, slots[1], began


def batch_in(view, slot):
    """The bytes of a slot: data_offset and slot_bytes are in the ring's header (shm/layout.h)."""
    data_offset, slot_bytes = struct.unpack_from("=QQ", view, 88)
    return view[data_offset + slot * slot_bytes : data_offset + (slot + 1) * slot_bytes]


@harness.host_memory
@harness.quick_attach
@harness.limit(60)
def test_what_a_consumer_holds_stays_for_a_while_when_the_daemon_ends_its_session():
    with harness.Instance(loaders=1, linger=0, ring_memory=LIMIT, user_ring_memory=LIMIT) as feedd:
        path = data.add_records(feedd)
        feedd.start()
        with feedd.client() as session:
            fd, slot, began = dropped_with_batches(path, session)
            view = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
            before = batch_in(view, slot)
            harness.eventually(lambda: not feedd.statistics()["feeds"], 5, "the feed is gone")
            assert batch_in(view, slot) == before and any(before)
            assert feedd.status()["ring_bytes"] >= RING, feedd.status()
            harness.eventually(lambda: feedd.statistics()["ring_bytes"] >= RING, 2, "the statistics say so too")
            # Another feed has to wait for that memory.
            with consumer.Consumer(feedd, "numbers", 201, ring_bytes=RING, epochs=1, step=True) as other:
                harness.eventually(lambda: feedd.status()["feeds"] == 1, 5, "it waits")
                feedd.ctl("reload")  # a feed that waits has no statistics yet
                other.attached()
                waited = time.monotonic() - began
                assert waited > 8, f"the next feed came after {waited:.1f} s"
                assert not any(view[: 1 << 20])
                status = feedd.status()
                assert RING <= status["ring_bytes"] < 2 * RING, ("only that of the new feed", status)
                other.take(5)
                other.next_ends()
            with contextlib.closing(os.fdopen(fd, "rb")):
                assert allocated(fd) < 2 << 20  # what was read in the meantime
            view.close()


@harness.host_memory
@harness.quick_attach
def test_batches_in_hand_outlive_the_daemon():
    with harness.Instance(loaders=1, linger=0) as feedd:
        data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 20, step=True, reconnect_timeout=-1) as reader:
            reader.attached()
            batch = reader.next()
            feedd.stop()
            assert reader.hashes(batch) == batch["crc"]
