"""Slots with ragged fields that grow when there is no memory left: idle feeds make way, the batch waits for a slot that is
large enough, or the feed fails with a sentence, and others continue."""

import errno
import json

import consumer
import expected
import harness
import test_ragged
import test_regressions
import test_room
import test_tar

MIB = 1 << 20
LARGE = 3 * MIB


def samples(*large):
    made = test_tar.some(400)
    for place in large:
        made[place][1]["jpg"] = bytes([place % 251]) * LARGE
    return made


def serve(made, shm_mib=None, **settings):
    """A feedd with those samples, whose /dev/shm may be small, and what it must deliver."""
    content = {}

    def prepare(feedd):
        content.update(test_ragged.add(feedd, [made]))

    if shm_mib:
        return test_room.small_shared_memory(shm_mib, prepare=prepare, **settings), content
    feedd = test_room.serve(start=False, **settings)
    prepare(feedd)
    return feedd.start(), content


def read(feedd, content, **options):
    batches = consumer.read(feedd, "wds", 5, epochs=1, ring_bytes=1, **options)
    expected.check_run(content, batches, 5)


def fails(feedd, **options):
    """What the consumer is told."""
    with consumer.Consumer(feedd, "wds", 5, epochs=1, ring_bytes=1, quiet=True, **options) as reader:
        assert reader.process.wait(20 * harness.SLOWNESS) == 1
        return next(event["text"] for event in iter(reader.lines.get, None) if event["event"] == "error")


@harness.host_memory
def test_idle_feeds_make_way():
    feedd, content = serve(samples(300), shm_mib=8)
    with feedd:
        test_room.use(feedd, "old", **test_room.LARGE)
        test_room.idle(feedd, "old")
        read(feedd, content)
        assert "old" not in test_room.feeds(feedd)


@harness.host_memory
def test_memory_that_comes_back_is_waited_for():
    """The feed that makes way had a consumer that was detached with a batch, so its memory is kept for a while. The next idle
    feed stays open."""
    feedd, content = serve(samples(300), shm_mib=7)
    shape = {"share": "kept", "wait_for": 2, "max_lag_s": 1, "prefetch": 1, "ring_bytes": 3 * MIB}
    with feedd:
        with feedd.client() as slow, feedd.client() as fast:
            slow.attach("numbers", 2000, **shape)
            fast.attach("numbers", 2000, **shape)
            slow.expect("grant")
            test_regressions.drain(fast, 1)
            assert slow.expect_closed(10)["code"] == errno.ETIME
        test_room.use(feedd, "idle", **test_room.SMALL)
        test_room.idle(feedd, "kept", "idle")
        read(feedd, content)
        left = test_room.feeds(feedd)
        assert "idle" in left and "kept" not in left, left


@harness.host_memory
def test_nothing_makes_way():
    """The feed whose batch it is fails, and the one whose ring takes the memory continues."""
    feedd, _ = serve(samples(300), shm_mib=8)
    with feedd, consumer.Consumer(feedd, "numbers", 5000, step=True, ring_bytes=5 * MIB) as other:
        other.attached()
        text = fails(feedd)
        assert "a batch needs more memory than most, and a ring of 3 MiB does not fit: /dev/shm has" in text, text
        assert len(other.take(3)) == 3


@harness.host_memory
def test_rings_that_grow_stay_below_ring_memory():
    feedd, content = serve(samples(300), ring_memory="8M")
    with feedd:
        with consumer.Consumer(feedd, "numbers", 5000, step=True, ring_bytes=5 * MIB, share="other") as other:
            other.attached()
            text = fails(feedd)
            assert "a batch needs more memory than most, and all rings have" in text and "8 MiB (ring_memory)" in text, text
            assert len(other.take(3)) == 3
        test_room.idle(feedd, "other")
        read(feedd, content)
        assert "other" not in test_room.feeds(feedd)


@harness.host_memory
def test_rings_that_grow_stay_below_what_a_user_may_have():
    feedd, _ = serve(samples(300), user_ring_memory="3M")
    with feedd:
        text = fails(feedd)
        assert "the user's rings have" in text and "3 MiB per user (user_ring_memory)" in text, text


@harness.host_memory
def test_a_batch_waits_for_a_slot_that_is_large_enough():
    """There is memory for one such slot."""
    feedd, content = serve(samples(300, 305, 310, 398), ring_memory="6M")
    with feedd, consumer.Consumer(feedd, "wds", 5, step=True, epochs=1, ring_bytes=1) as reader:
        reader.attached()
        batches = reader.take(80)
        [feed] = json.loads(feedd.ctl("feeds", "--json").stdout)
        reader.next_ends()
        expected.check_run(content, batches, 5)
        assert LARGE < feed["ring_bytes"] <= 6 * MIB, feed


@harness.host_memory
def test_who_waits_for_a_batch_may_be_who_holds_the_slot():
    feedd, _ = serve(samples(300, 305), ring_memory="5M")
    with feedd, feedd.client() as session:
        session.attach("wds", 5, share="held", ring_bytes=1, max_lag_s=1, prefetch=2)
        taken = 0
        while True:
            body, message = session.receive()
            if body == "error":
                break
            for slot in message.get("slots", []) if body == "grant" else []:
                taken += 1
                if taken < 61:
                    session.send("release", slots=[slot], waiting=True)
            if taken == 61:
                session.send("release", slots=[], waiting=True)
        assert taken == 61 and "ring_memory" in message["text"], (taken, message)
