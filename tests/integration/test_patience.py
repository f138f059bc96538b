"""Drivers, disks and machines that are slow, or stand still for a while: nobody is taken for dead."""

import contextlib
import os
import signal
import time

import consumer
import data
import devices
import expected
import harness
import test_gpu_growth
from devices import CPU, FAULTS, SIMULATED, SIMULATED_UUID

TIMEOUT = 2  # the least that loader_timeout can be
SLOW = 3000  # ms: longer than that
SHAPE = {"epochs": 2, "shuffle": True, "seed": 13}


def serve(faults, dataset=None, **settings):
    return devices.serve(dataset, {FAULTS: faults}, **{"loader_timeout": TIMEOUT, **settings})


def check_undisturbed(feedd):
    """No process has been given up."""
    assert not feedd.status()["last_errors"], feedd.read_log()
    assert "killed" not in feedd.read_log(), feedd.read_log()
    for gpu in feedd.statistics()["gpus"]:
        assert gpu["gpu_counters"]["processes_replaced"] == 0, gpu


# ---- The transfer process ----------------------------------------------------------------------------------


@harness.limit(60)
def test_pinning_that_takes_longer_than_loader_timeout():
    """And so does everything else that opens a pool."""
    for faults in (f"register_ms={SLOW}", f"create_ms={SLOW}"):
        with serve(faults) as feedd:
            with devices.start(feedd, SIMULATED, step=True, **SHAPE) as reader:
                expected.check_run(devices.content(feedd), reader.take(200), 20, **SHAPE)
            check_undisturbed(feedd)


@harness.limit(60)
def test_closing_that_takes_longer_than_loader_timeout():
    """While another pool of the GPU is in use; the feed's ring is kept until then."""
    with serve(f"unregister_ms={SLOW}", linger=0, loader_timeout=TIMEOUT, device_linger=60) as feedd:
        with devices.start(feedd, SIMULATED, step=True, share="stays") as reader:
            reader.take(5)
            for _ in range(2):
                with devices.start(feedd, SIMULATED, step=True, share="goes") as other:
                    other.take(5)
                closed = lambda: devices.gpu(feedd, SIMULATED_UUID)["pools"] == 1  # noqa: E731
                harness.eventually(closed, 20, "its pool is closed")
            reader.take(20)
            check_undisturbed(feedd)


@harness.limit(90)
def test_slots_that_grow_slowly():
    """The memory that they get, and the memory from which it is copied, which is pinned."""
    made = test_gpu_growth.samples(large=(100, 300))
    feedd, content = test_gpu_growth.serve(
        made, {FAULTS: f"create_ms={SLOW},register_ms={SLOW}"}, loader_timeout=TIMEOUT, ring="64K"
    )
    with feedd, test_gpu_growth.open_at(feedd, SIMULATED, **SHAPE) as reader:
        expected.check_run(content, reader.finish(80), test_gpu_growth.BATCH, **SHAPE)
        check_undisturbed(feedd)


@harness.limit(60)
def test_copies_that_wait_for_others_to_be_done_with_the_driver():
    """They begin late; once begun, they are as quick as any."""
    with serve(f"submit_ms={SLOW},slow_every=400") as feedd:
        with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, **SHAPE) as reader:
            expected.check_run(devices.content(feedd), reader.finish(50), 20, **SHAPE)
        check_undisturbed(feedd)


def test_driver_that_hangs():
    """For the daemon's end, its process is not waited for."""
    with devices.serve(environment={FAULTS: "stall_register=1"}, loader_timeout=TIMEOUT, stop_timeout=1) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, step=True):
            opening = lambda: [gpu for gpu in feedd.statistics()["gpus"] if gpu["pools"]]  # noqa: E731
            harness.eventually(opening, 5, "a pool is to be opened")
            time.sleep(0.5)
            begun = time.monotonic()
            feedd.stop()
            assert time.monotonic() - begun < 4 * harness.SLOWNESS


# ---- Consumers ---------------------------------------------------------------------------------------------


@harness.limit(60)
def test_consumer_whose_driver_is_slow():
    """What it maps and pins takes long, after it has been given its place. Those that share the feed wait."""
    slow = {FAULTS: f"open_ms={SLOW},import_ms={SLOW},register_ms={SLOW},unregister_ms={SLOW}"}
    with serve("") as feedd:
        shared = {"share": "job", "wait_for": 2, **SHAPE}
        with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, environment=slow, **shared) as one, \
                consumer.Consumer(feedd, "numbers", 20, device=CPU, **shared) as other:
            for reader in (one, other):
                reader.attached()
                expected.check_run(devices.content(feedd), reader.finish(40), 20, **SHAPE)
        check_undisturbed(feedd)


# ---- A machine that stands still ---------------------------------------------------------------------------


def stand_still(feedd, readers, seconds):
    """Everybody stops at once. The daemon is the first to continue, and sees what the others have not done."""
    pids = [feedd.process.pid, *feedd.children(), *(reader.pid for reader in readers)]
    for pid in pids:
        harness.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    harness.kill(feedd.process.pid, signal.SIGCONT)
    time.sleep(0.4)
    for pid in pids:
        harness.kill(pid, signal.SIGCONT)


def take_until_none_comes(reader):
    batches = []
    while True:
        reader.command("next", 500)
        event = reader.event()
        if event["event"] == "error":
            assert event["code"] == "EAGAIN", event
            return batches
        batches.append(event)
        reader.release(event)


@harness.limit(60)
def test_machine_that_stands_still():
    """No process counts as hung, and nobody as one that holds up others."""
    shared = {"share": "job", "wait_for": 2, "max_lag": 4, "prefetch": 2, "step": True, **SHAPE}
    for places in ((SIMULATED, CPU), (CPU, SIMULATED)):
        with devices.serve(loaders=2, loader_timeout=TIMEOUT, stop_timeout=TIMEOUT) as feedd, \
                contextlib.ExitStack() as stack:
            slow, quick = (
                stack.enter_context(consumer.Consumer(feedd, "numbers", 20, device=place, **shared)) for place in places
            )
            slow.attached(), quick.attached()
            held = [slow.next(), slow.next()]
            seen = take_until_none_comes(quick)
            quick.command("next", 20000)
            time.sleep(0.3)
            stand_still(feedd, (slow, quick), 6)
            for batch in held:
                slow.release(batch)
            seen.append(quick.expect("batch"))
            quick.release(seen[-1])
            check_undisturbed(feedd)
            held += slow.take(30)
            seen += quick.take(max(32 - len(seen), 0))
            assert [batch["crc"] for batch in held] == [batch["crc"] for batch in seen[:32]]


def take_patiently(reader, count):
    batches = []
    for _ in range(count):
        reader.command("next", 60000)
        batches.append(reader.expect("batch", 70))
        reader.release(batches[-1])
    return batches


@harness.limit(120)
def test_daemon_that_comes_back_to_a_slow_driver():
    """Consumers look for it for longer than one attempt takes."""
    faults = {FAULTS: "create_ms=12000"}
    with devices.serve(linger=60, environment=faults) as feedd:
        with devices.start(feedd, SIMULATED, step=True, reconnect_timeout=60000, **SHAPE) as reader:
            batches = reader.take(20)
            feedd.kill()
            feedd.start(environment=faults)
            batches += take_patiently(reader, 180)
            expected.check_run(devices.content(feedd), batches, 20, **SHAPE)
        check_undisturbed(feedd)


@harness.limit(120)
def test_client_that_returns_to_what_is_still_being_opened():
    """That is not begun anew each time, even where nothing is kept that nobody uses."""
    for faults in ("create_ms=12000", "open_ms=12000"):  # each attempt takes 10 s
        with devices.serve(linger=0, device_linger=0) as feedd:
            with devices.start(feedd, SIMULATED, step=True, reconnect_timeout=40000, **SHAPE) as reader:
                batches = reader.take(20)
                feedd.kill()
                feedd.start(environment={FAULTS: faults})
                batches += take_patiently(reader, 180)
                expected.check_run(devices.content(feedd), batches, 20, **SHAPE)
                assert devices.feed(feedd)["id"] == 1, feedd.read_log()
            check_undisturbed(feedd)


def attach_by_hand(feedd, share):
    client = feedd.client()
    client.hello()
    client.send("attach", dataset="numbers", batch_size=20, share=share, device=SIMULATED_UUID)
    return client


@harness.limit(60)
def test_pool_that_is_still_being_opened_is_kept_for_a_moment():
    """And is the one that the client gets when it returns; its feed may be in use elsewhere meanwhile."""
    for others in (0, 1):
        with devices.serve(environment={FAULTS: "create_ms=4000"}, linger=0) as feedd, contextlib.ExitStack() as stack:
            for _ in range(others):
                stack.enter_context(devices.start(feedd, CPU, step=True, share="job"))
            with attach_by_hand(feedd, "job"):
                harness.eventually(lambda: feedd.statistics()["gpus"], 10, "the GPU is being opened")
                harness.eventually(lambda: devices.gpu(feedd, SIMULATED_UUID)["pools"], 10, "it has asked for a pool")
            time.sleep(2)
            with devices.start(feedd, SIMULATED, step=True, share="job") as reader:
                reader.take(5)
                assert "pool 1:" in feedd.read_log() and "pool 2:" not in feedd.read_log(), feedd.read_log()


@harness.limit(60)
def test_clients_that_do_not_return_to_what_is_being_opened():
    """Few of their feeds are kept, and not for long; then the GPU is given up, too."""
    pools = lambda: sum(gpu["pools"] for gpu in feedd.statistics()["gpus"])  # noqa: E731
    with devices.serve(environment={FAULTS: "open_ms=40000"}, linger=0, device_linger=0) as feedd:
        with contextlib.ExitStack() as stack:
            for number in range(24):
                stack.enter_context(attach_by_hand(feedd, f"job{number}"))
            harness.eventually(lambda: pools() == 24, 15, "all have asked for a pool")
        harness.eventually(lambda: pools() == 16, 4, "a quarter of 64 is kept")
        time.sleep(1)
        assert pools() == 16
        harness.eventually(lambda: not feedd.statistics()["feeds"], 10, "nothing is kept")
        harness.eventually(lambda: not feedd.statistics()["gpus"], 10, "the GPU is given up")
        assert not feedd.status()["last_errors"], feedd.read_log()


@harness.limit(90)
def test_gpu_that_takes_longer_to_open_than_others_wait_for_the_daemon():
    """A consumer waits for that, unless it has said how long it waits."""
    with devices.serve(environment={FAULTS: "open_ms=37000"}) as feedd:
        consumer.refused(feedd, "ETIMEDOUT", "in time", batch_size=20, device=SIMULATED, connect_timeout=3000)
        with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, **SHAPE) as reader:
            expected.check_run(devices.content(feedd), reader.finish(60), 20, **SHAPE)
        check_undisturbed(feedd)


@harness.limit(60)
def test_consumer_that_stands_still_while_it_looks_for_the_daemon():
    """It looks for as long as it would have."""
    with devices.serve() as feedd:
        with devices.start(feedd, CPU, step=True, reconnect_timeout=4000, prefetch=1) as reader:
            reader.take(5)
            feedd.kill()
            reader.command("next", 40000)
            time.sleep(1)
            os.kill(reader.pid, signal.SIGSTOP)
            time.sleep(6)
            os.kill(reader.pid, signal.SIGCONT)
            time.sleep(1)
            feedd.start()
            reader.expect("batch")


# ---- Disks -------------------------------------------------------------------------------------------------


def test_files_that_take_long_to_open():
    """A loader opens each of them once more as it starts, and is not taken for hung."""
    if harness.sanitized():
        harness.skip("a library cannot be preloaded before the address sanitizer")
    with harness.Instance(loaders=2, loader_timeout=TIMEOUT) as feedd:
        paths = [feedd.directory / f"{number:02}.bin" for number in range(30)]
        for number, path in enumerate(paths):
            data.write_records(path, 20, 64, first=20 * number)
        pattern = feedd.directory / "*.bin"
        feedd.add_dataset("numbers", format="records", path=pattern, record_bytes=64, field_x="u8[64] @ 0")
        feedd.start(environment={"LD_PRELOAD": str(harness.PROGRAMS / "tests/slow_open.so")})
        batches = consumer.read(feedd, "numbers", 20, **SHAPE)
        expected.check_run(expected.read_records(paths, 64, {"x": (0, 64)}), batches, 20, **SHAPE)
        check_undisturbed(feedd)
