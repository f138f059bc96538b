"""Memory for the ring of the next feed, which loaders that wait have mapped: one feed gets it, and no other keeps it."""

import os
import re
import signal
import time

import consumer
import data
import expected
import harness
from test_prepared import check_killed, loaders, ready, reload, waiting

PREPARED = 2 << 20
MAPPED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) +/dev/shm/#\d+ \(deleted\)$", re.M)


def serve(size=64, samples=1000, **settings):
    instance = harness.Instance(**{"prepare_loaders": "yes", "loaders": 2, **settings})
    instance.path = data.add_records(instance, samples=samples, size=size)
    instance.content = expected.read_records([instance.path], size, {"x": (0, size)})
    return instance.start()


def rings(pid):
    """The rings that a process has mapped, as a dictionary: number of the object to bytes mapped."""
    mapped = {}
    try:
        with open(f"/proc/{pid}/maps", encoding="ascii") as file:
            for begin, end, _, number in MAPPED.findall(file.read()):
                mapped[number] = mapped.get(number, 0) + int(end, 16) - int(begin, 16)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return mapped


def prepared(feedd, count=2, other_than=()):
    """Waits until that many loaders have mapped the same memory; returns their process numbers and the object's."""

    def is_there():
        mapped = [rings(pid) for pid in waiting(feedd)]
        return (
            len(mapped) == count and len(mapped[0]) == 1 and all(ring.keys() == mapped[0].keys() for ring in mapped)
            and not set(mapped[0]) & set(other_than) and feedd.status()["prepared_ring_bytes"] == PREPARED
        )  # fmt: skip

    ready(feedd, count)
    harness.eventually(is_there, 10, f"{count} loaders have mapped the next ring")
    waits = waiting(feedd)
    (number,) = rings(next(iter(waits)))
    return waits, number


def populated(pid, number):
    """How much of a ring the process can use without a page fault."""
    with open(f"/proc/{pid}/smaps", encoding="ascii") as file:
        for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", file.read(), flags=re.M):
            if MAPPED.match(part.split("\n")[0]) and f" {number} " in part.split("\n")[0]:
                return int(re.search(r"^Rss: +(\d+) kB", part, re.M)[1]) << 10
    return 0


def read_all(feedd, batch=10, **options):
    options = {"shuffle": True, **options}
    batches = consumer.read(feedd, "numbers", batch, **options)
    expected.check_run(feedd.content, batches, batch, shuffle=options["shuffle"], epochs=options.get("epochs", 1))


def test_a_new_feed_gets_it():
    with serve(linger=0) as feedd:
        waits, number = prepared(feedd)
        # They map it first, and populate it afterwards.
        harness.eventually(
            lambda: all(populated(pid, number) == PREPARED for pid in waits), 10,
            lambda: f"{PREPARED} bytes in use, but {[populated(pid, number) for pid in waits]}",
        )  # fmt: skip
        assert "prepared       2 loaders and 2 MiB of a ring for the next feed" in feedd.ctl("status").stdout
        assert feedd.status()["ring_bytes"] == PREPARED
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
            reader.attached()
            batches = reader.take(1)
            assert loaders(feedd) == waits
            assert all(populated(pid, number) >= PREPARED for pid in waits)  # an epoch touches a quarter of that
            _, other = prepared(feedd, other_than=[number])  # for the next one
            batches += reader.take(99)
            reader.next_ends()
            assert all(set(rings(pid)) == {number} for pid in waits)
            expected.check_run(feedd.content, batches, 10, shuffle=True)
        harness.eventually(lambda: feedd.status()["ring_bytes"] == PREPARED, 5, "the feed's ring is freed")
        assert prepared(feedd)[1] == other


def test_one_after_another():
    with serve(linger=0) as feedd:
        seen = set()
        for _ in range(4):
            _, number = prepared(feedd, other_than=seen)
            seen.add(number)
            read_all(feedd)


def check_sizes(size, batch, **options):
    with serve(size=size, samples=300, linger=0) as feedd:
        _, number = prepared(feedd)
        with consumer.Consumer(feedd, "numbers", batch, step=True, epochs=3, shuffle=True, **options) as reader:
            reader.attached()
            batches = reader.take(3)
            assert all(number in rings(pid) for pid in loaders(feedd))
            batches += reader.take(3 * 300 // batch - 3)
            reader.next_ends()
            expected.check_run(feedd.content, batches, batch, shuffle=True, epochs=3)


def test_smaller_ring():
    check_sizes(64, 10, ring_bytes=64 << 10)


def test_larger_ring():
    check_sizes(8192, 10, ring_bytes=64 << 20)


def test_batch_that_is_larger():
    check_sizes(65536, 100, ring_bytes=40 << 20)


def test_two_feeds_at_once():
    """One of them gets it. Loaders of the other do not keep it mapped, whichever they are."""
    with serve(loaders=1, linger=0) as feedd:
        for seed in range(5):
            prepared(feedd, 1)
            options = {"step": True, "epochs": 1, "shuffle": True}
            with (
                consumer.Consumer(feedd, "numbers", 10, seed=2 * seed, **options) as first,
                consumer.Consumer(feedd, "numbers", 10, seed=2 * seed + 1, **options) as second,
            ):
                for reader in (first, second):
                    reader.attached()
                taken = [reader.take(100) for reader in (first, second)]
                mapped = [set(rings(pid)) for pid in loaders(feedd)]
                assert len(mapped) == 2 and all(len(numbers) == 1 for numbers in mapped), mapped
                assert mapped[0] != mapped[1]
            for number, batches in enumerate(taken):
                expected.check_run(feedd.content, batches, 10, shuffle=True, seed=2 * seed + number)
            harness.eventually(lambda: not feedd.status()["feeds"], 5, "the feeds are closed")


def test_loader_in_place_of_a_dead_one():
    """It waited with the memory for another feed, which it unmaps."""
    with serve() as feedd:
        first, number = prepared(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
            reader.attached()
            batches = reader.take(1)
            second, other = prepared(feedd, other_than=[number])
            os.kill(min(first), signal.SIGKILL)
            harness.eventually(lambda: len(loaders(feedd) & second) == 1, 5, "one that waited takes its place")
            batches += reader.take(99)
            reader.next_ends()
            expected.check_run(feedd.content, batches, 10, shuffle=True)
            (replacement,) = loaders(feedd) & second
            harness.eventually(
                lambda: set(rings(replacement)) == {number}, 10, lambda: f"only ring {number}: {rings(replacement)}",
            )  # fmt: skip
            assert feedd.status()["prepared_ring_bytes"] == PREPARED
            harness.eventually(lambda: len(waiting(feedd)) == 2, 10, "two that wait")
            assert prepared(feedd)[1] == other


def test_killed_while_they_wait():
    with serve() as feedd:
        first, number = prepared(feedd)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        ready(feedd, other_than=first)
        assert prepared(feedd)[1] == number  # those in their places have mapped the same
        read_all(feedd)
        assert not feedd.status()["last_errors"]


def test_killed_at_any_time():
    with serve(linger=0) as feedd:
        for delay_us in (0, 100, 200, 300, 400, 600, 800, 1200):
            waits, _ = prepared(feedd)
            check_killed(feedd, waits, delay_us)


def test_they_hear_of_it_late():
    """Stopped before they are sent the memory, they continue only when it is a feed's, and maybe of another size."""
    for ring_bytes in (64 << 10, 16 << 20):
        with serve(loaders=1, linger=0) as feedd:
            _, number = prepared(feedd, 1)
            read_all(feedd)
            (late,) = ready(feedd, 1)
            os.kill(late, signal.SIGSTOP)
            harness.eventually(lambda feedd=feedd: feedd.status()["prepared_ring_bytes"], 5, "the next ring")
            options = {"ring_bytes": ring_bytes, "step": True, "epochs": 1, "shuffle": True}
            with consumer.Consumer(feedd, "numbers", 10, **options) as reader:
                reader.attached()
                os.kill(late, signal.SIGCONT)
                batches = reader.take(100)
                reader.next_ends()
                assert loaders(feedd) == {late}
                assert len(rings(late)) == 1 and number not in rings(late)
                expected.check_run(feedd.content, batches, 10, shuffle=True)


def test_consumers_cannot_write_to_it():
    with serve() as feedd:
        _, number = prepared(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1) as reader:
            reader.attached()
            reader.take(1)
            with open(f"/proc/{reader.pid}/maps", encoding="ascii") as file:
                found = [match for match in MAPPED.findall(file.read()) if match[3] == number]
            assert found and all(protection == "r--s" for _, _, protection, _ in found)


def test_little_ring_memory():
    """Feeds may have all of it."""
    with serve(size=65536, samples=300, ring_memory="34M", linger=0) as feedd:
        prepared(feedd)
        for _ in range(2):
            read_all(feedd, 20, ring_bytes=33 << 20)
        reload(feedd, ring_memory="31M")
        read_all(feedd, 20, ring_bytes=30 << 20)
        harness.eventually(lambda: feedd.status()["ring_bytes"] == 0, 5, "the feed's ring is freed")
        time.sleep(1.5)
        assert feedd.status()["prepared_ring_bytes"] == feedd.status()["ring_bytes"] == 0
        ready(feedd)
        read_all(feedd, 20, ring_bytes=30 << 20)


def test_where_no_loaders_are_prepared():
    with serve(prepare_loaders="no") as feedd:
        time.sleep(0.6)
        assert feedd.status()["ring_bytes"] == 0
        read_all(feedd)
        reload(feedd, prepare_loaders="yes")
        prepared(feedd)
        reload(feedd, prepare_loaders="no")
        harness.eventually(lambda: feedd.status()["prepared_ring_bytes"] == 0, 5, "it is given up")


def test_drained_daemon_gives_it_up():
    with serve() as feedd:
        prepared(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1) as reader:
            reader.attached()
            reader.take(1)
            feedd.ctl("drain")
            harness.eventually(lambda: feedd.status()["prepared_ring_bytes"] == 0, 5, "it is given up")
            reader.take(99)
            reader.next_ends()
        assert feedd.wait() == 0
        feedd.check_nothing_left()
        feedd.process = None


def test_nothing_is_left_by_a_killed_daemon():
    with serve() as feedd:
        prepared(feedd)
        leader = feedd.process.pid
        feedd.process.kill()
        feedd.process.wait()
        harness.eventually(lambda: not harness.session_processes(leader), 5, "nothing is left")
        feedd.process = None
        feedd.start()
        prepared(feedd)
