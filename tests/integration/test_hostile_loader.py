"""Loaders and transfer processes that write anything anywhere they can (hostile_loader.c, hostile_transfer.c) crash neither
the supervisor nor a consumer, and other feeds have the right bytes. HOSTILE_SECONDS: for how long; make hostile SECONDS=60."""

import itertools
import json
import os
import random
import re
import time

import consumer
import data
import expected
import harness
import test_folder
import test_tar

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "8"))
SAMPLES = 500


def spoil_and_read(feedd, until, dataset="hostile", **options):
    """Consumers of a dataset, one after another and several at a time. Each ends by itself, with an error or without, or
    continues; none is ended by a signal. Returns how often each of these came."""
    outcomes = {"end": 0, "error": 0, "continues": 0}
    errors = set()
    while time.monotonic() < until:
        share = {"share": f"f{random.randrange(4)}"} if random.random() < 0.5 else {}
        readers = [
            consumer.Consumer(
                feedd, dataset, random.choice([7, 20, 64]), epochs=random.choice([1, 3, 50]), quiet=True,
                timeout=700, prefetch=random.choice([None, 1, 8]), **share, **options,
            )
            for _ in range(random.randrange(1, 4))
        ]  # fmt: skip
        deadline = min(until, time.monotonic() + 1.5)
        for reader in readers:
            while reader.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            status = reader.process.poll()
            if status is None:
                outcomes["continues"] += 1
                reader.kill()
                continue
            assert status in (0, 1), f"a consumer ended with status {status}"
            outcomes["end" if status == 0 else "error"] += 1
            errors |= {event["text"] for event in iter(reader.lines.get, None) if event["event"] == "error"}
    return outcomes, errors


def check_answers(feedd):
    """Status and statistics can be read, and say of the other feed what is so."""
    status = feedd.status()
    assert status["pid"] == feedd.process.pid, status
    stats = feedd.statistics()
    for feed in stats["feeds"]:
        if feed["dataset"] == "honest":
            read, delivered = feed["loader_counters"]["samples"], feed["feed_counters"]["samples"]
            # Up to three consumers share what is read once.
            assert delivered <= 3 * (read + SAMPLES) and read <= delivered + 10 * SAMPLES, feed
    feedd.ctl("stats", "--once")
    feedd.ctl("status")


def add_hostile_records(feedd):
    data.add_records(feedd, "hostile", samples=SAMPLES, on_error="skip")
    return ["hostile"]


def add_hostile_shards(feedd):
    """With ragged fields, of which some samples are large: slots grow. By itself, and mixed with a folder. Loaders also lie
    about which samples are bad."""
    samples = test_tar.some(SAMPLES, most=200)
    for number in range(0, SAMPLES, 100):
        samples[number][1]["jpg"] = bytes(300_000)
    path = feedd.directory / "hostile.bin"
    test_tar.write(path, samples)
    for name, on_error in (("hostile", "fail"), ("hostile-skip", "skip"), ("hostile-replace", "replace")):
        feedd.add_dataset(name, format="tar", path=path, field_jpg="bytes", field_cls="bytes", on_error=on_error)
    test_folder.write(feedd.directory / "folder", test_folder.some(SAMPLES // 5))
    feedd.add_dataset("folder", format="folder", path="folder", field_jpg="bytes @ file", field_cls="bytes @ name")
    feedd.add_mix("mixed", {"hostile": 3, "folder": 1}, SAMPLES)
    return ["mixed", "hostile-skip", "hostile-replace", "hostile"]


@harness.host_memory
@harness.limit(60 + SECONDS)
def test_a_loader_that_writes_anything_anywhere_harms_only_its_own_feed():
    check_hostile_loaders(add_hostile_records)


@harness.host_memory
@harness.limit(60 + SECONDS)
def test_a_loader_of_ragged_fields_that_writes_anything_anywhere_harms_only_its_own_feed():
    check_hostile_loaders(add_hostile_shards)


def check_hostile_loaders(add_hostile):
    with harness.Instance(ring="64K", linger=1, loader_timeout=2, user_feeds=32) as feedd:
        datasets = itertools.cycle(add_hostile(feedd))
        path = data.add_records(feedd, "honest", samples=SAMPLES)
        feedd.start(program="tests/hostile_feedd")
        until = time.monotonic() + SECONDS
        epochs = 0
        with consumer.Consumer(feedd, "honest", 20, epochs=2, sleep_us=20000, shuffle=True) as slow:
            slow.attached()
            outcomes, errors = {}, set()
            while time.monotonic() < until:
                part, texts = spoil_and_read(feedd, min(until, time.monotonic() + 2), next(datasets))
                outcomes = {key: outcomes.get(key, 0) + part[key] for key in part}
                errors |= texts
                check_answers(feedd)
                content = expected.read_records([path], 64, {"x": (0, 64)})
                expected.check_run(content, consumer.read(feedd, "honest", 20, epochs=2), 20, epochs=2)
                epochs += 2
            expected.check_run(content, slow.finish(60), 20, epochs=2, shuffle=True)
        assert feedd.process.poll() is None
        longest = feedd.status()["longest_turn_ms"]
        print(json.dumps({**outcomes, "honest epochs": epochs, "longest turn ms": longest}))
        print("\n".join(sorted(errors)))
        assert outcomes["error"] + outcomes["end"] > 0, outcomes
        assert longest < 1000 * harness.SLOWNESS, f"a turn took {longest} ms"


@harness.host_memory
def test_a_transfer_process_that_damages_a_pool_is_replaced():
    """It is not asked to close the pool, which it might never do, nor left with those of other feeds."""
    with harness.Instance(ring="64K", device_pool="64K") as feedd:
        data.add_records(feedd, "honest", samples=SAMPLES)
        feedd.start(program="tests/hostile_feedd", environment={"HOSTILE_TRANSFER": "damage"})
        with consumer.Consumer(feedd, "honest", 10, epochs=100000, quiet=True, device="host:0") as reader:
            assert reader.process.wait(20 * harness.SLOWNESS) == 1
            errors = [event["text"] for event in iter(reader.lines.get, None) if event["event"] == "error"]
        assert "a transfer process has damaged the ring of the pool" in errors[0], errors
        harness.eventually(
            lambda: re.search("the transfer process of GPU .* was killed by signal 9", feedd.read_log()), 5, "it is killed"
        )


def hostile_pool(feedd, how):
    """A consumer with batches in a pool whose transfer process is wrong in that way."""
    data.add_records(feedd, "honest", samples=SAMPLES)
    feedd.start(program="tests/hostile_feedd", environment={"HOSTILE_TRANSFER": how})
    return consumer.Consumer(feedd, "honest", 10, epochs=100000, quiet=True, device="host:0")


@harness.host_memory
def test_a_transfer_process_that_does_not_close_a_pool_is_replaced():
    """Until then the feed's ring is kept."""
    with harness.Instance(ring="64K", device_pool="64K", linger=0, device_linger=0, loader_timeout=2) as feedd:
        with hostile_pool(feedd, "keep") as reader:
            reader.attached()
        harness.eventually(lambda: feedd.status()["feeds"] == 0, 10, "the feed is closed")
        assert "was asked to close a pool and has not done so for 4 s; it is being replaced" in feedd.read_log()


@harness.host_memory
def test_a_transfer_process_that_has_lost_its_gpu_and_does_not_end_is_replaced():
    with harness.Instance(ring="64K", device_pool="64K", stop_timeout=1) as feedd:
        with hostile_pool(feedd, "lost") as reader:
            assert reader.process.wait(20 * harness.SLOWNESS) == 1
        why = "has lost the GPU and has not ended for 1 s; it is being replaced"
        harness.eventually(lambda: why in feedd.read_log(), 10, "it is killed")


@harness.host_memory
@harness.limit(60 + SECONDS)
def test_a_transfer_process_that_writes_anything_anywhere_harms_only_its_pools():
    with harness.Instance(ring="64K", device_pool="64K", linger=1, device_linger=1, loader_timeout=2) as feedd:
        path = data.add_records(feedd, "honest", samples=SAMPLES)
        feedd.start(program="tests/hostile_feedd", environment={"HOSTILE_TRANSFER": "1"})
        content = expected.read_records([path], 64, {"x": (0, 64)})
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for device in ("host:0", "host:1"):
                spoil_and_read(feedd, min(until, time.monotonic() + 1), "honest", device=device)
            check_answers(feedd)
            expected.check_run(content, consumer.read(feedd, "honest", 20, epochs=2), 20, epochs=2)
        assert feedd.process.poll() is None
        longest = feedd.status()["longest_turn_ms"]
        assert longest < 1000 * harness.SLOWNESS, f"a turn took {longest} ms"
