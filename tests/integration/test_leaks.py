"""Nothing grows: descriptors and memory of the daemon over many consumers that come and go, cleanly or not."""

import os

import consumer
import data
import harness


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("RssAnon")).split()[1])


def cycle(instance, rounds, once, warm=10):
    """Runs once() some times to fill pools, then `rounds` times; neither descriptors nor memory may grow by then."""
    pid = instance.process.pid
    clients = count_clients(instance)
    for _ in range(warm):
        once()
    harness.eventually(lambda: count_clients(instance) <= clients, 10, "the clients are gone")
    descriptors, memory = instance.descriptors(), resident_kb(pid)
    for _ in range(rounds):
        once()
    instance.check_descriptors(descriptors)
    grown = 0 if harness.sanitized() else resident_kb(pid) - memory
    assert grown <= 256 * harness.SLOWNESS, f"{grown} KiB more after {rounds} rounds"


def count_clients(instance):
    return len(instance.ctl("clients").stdout.splitlines())


@harness.limit(60)
def test_two_hundred_consumers_of_a_warm_feed():
    with harness.Instance(ring="64K") as feedd:
        data.add_records(feedd)
        feedd.start()

        def once():
            with feedd.client() as session:
                session.attach("numbers", 10)
                session.expect("grant")

        cycle(feedd, 200, once)


@harness.limit(60)
def test_a_hundred_feeds():
    """Each with its ring and its loaders, which go with their consumer."""
    with harness.Instance(ring="64K", linger=0, loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start()

        def once():
            with feedd.client() as session:
                session.attach("numbers", 10)
                session.expect("grant")
            harness.eventually(lambda: not feedd.children_called("loader"), 10, "no loader")

        cycle(feedd, 100, once)


@harness.limit(60)
def test_two_hundred_refusals():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()

        def once():
            for options in ({"dataset": "none"}, {"resume": "x"}, {"rank": 7}, {"ring_bytes": 1 << 40, "batch_size": 1 << 23}):
                with feedd.client() as session:
                    session.hello()
                    session.send("attach", **{"dataset": "numbers", "batch_size": 10, **options})
                    assert session.expect_closed()

        cycle(feedd, 50, once)


@harness.limit(60)
def test_questions_without_end():
    """One session asks everything two thousand times."""
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        with feedd.client() as session:
            session.hello()

            def once():
                for kind in ("STATUS", "DATASETS", "FEEDS", "CLIENTS", "PROCESSES"):
                    session.query(kind)
                session.query("FILES", name="numbers")

            cycle(feedd, 300, once)


@harness.limit(60)
def test_three_hundred_reloads():
    with harness.Instance() as feedd:
        for number in range(20):
            data.add_records(feedd, f"numbers{number}", samples=10)
        feedd.start()
        with feedd.client() as session:
            session.hello()

            def once():
                session.send("command", kind=0)
                session.expect("done")

            cycle(feedd, 300, once, warm=200)


@harness.limit(60)
def test_memory_does_not_depend_on_the_number_of_samples():
    """A file of 2^36 samples that takes no room on the disk; the daemon and its loaders stay small."""
    with harness.Instance(loaders=2) as feedd:
        path = feedd.directory / "huge.bin"
        with open(path, "wb") as file:
            os.truncate(file.fileno(), 1 << 37)
        feedd.add_dataset("huge", format="records", path=path, record_bytes=2, field_x="u16 @ 0")
        feedd.start()
        with consumer.Consumer(feedd, "huge", 100, step=True, shuffle=True, seed=1) as reader:
            assert reader.attached()["samples"] == 1 << 36
            batches = reader.take(200)
            assert len({sample for batch in batches for sample in batch["samples"]}) == 20_000
            for pid, name in feedd.processes().items():
                most = 8 << 10 if name.startswith("feedd-loader") else 16 << 10
                assert harness.sanitized() or resident_kb(pid) < most, f"{name}: {resident_kb(pid)} KiB"
