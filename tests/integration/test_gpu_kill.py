"""Processes are killed and stopped in mid-work while batches go to GPUs; nothing is lost, overwritten or given twice."""

import os
import random
import signal
import threading
import time

import consumer
import devices
import expected
import harness
from devices import CPU, GPU, OTHER, SAMPLES

SHAPE = {"epochs": 3, "shuffle": True, "seed": 13}


def kill_while(instance, reader, name, least_s=0.01, most_s=0.1):
    """Kills a transfer process or a loader at random moments until the consumer is done; returns how often."""
    killed, transfers = 0, devices.Kills(instance)
    while reader.process.poll() is None:
        time.sleep(random.uniform(least_s, most_s))
        if name == "transfer":
            transfers.kill(lambda pids: [random.choice(pids)])
        elif alive := instance.children_called(name):
            killed += harness.kill(random.choice(alive))
    return killed + transfers.count


def check_all(instance, readers, **shape):
    for reader in readers:
        expected.check_run(devices.content(instance), reader.finish(), 20, **shape)


# ---- The transfer process ----------------------------------------------------------------------------------


def kill_transfers(places, least=4, **options):
    """One that lived for less than a second is followed by the next after a tenth of one."""
    with devices.serve() as feedd:
        readers = devices.start_all(feedd, places, share="job", sleep_us=harness.slowly(8000), **SHAPE, **options)
        killed = kill_while(feedd, readers[0], "transfer", 0.0, 0.4)
        check_all(feedd, readers, **SHAPE)
        assert killed >= (1 if harness.on_real_gpu() else least), f"only {killed} were killed: that shows nothing"
        assert devices.feed(feedd)["feed_counters"]["samples"] == 3 * SAMPLES * len(readers)
        # What was read is copied again, not read again.
        assert devices.feed(feedd)["loader_counters"]["samples"] == 3 * SAMPLES
        assert any("signal 9" in line for line in feedd.status()["last_errors"]), feedd.status()


def test_transfer_process_is_killed_again_and_again():
    kill_transfers([GPU])


def test_transfer_process_of_a_shared_feed_is_killed_again_and_again():
    kill_transfers([GPU, GPU, GPU])


def test_transfer_processes_of_a_mixed_feed_are_killed_again_and_again():
    kill_transfers([GPU, CPU, OTHER, GPU], 8)


def has_pool(instance, uuid, dead):
    gpu = devices.gpu(instance, uuid)
    return gpu["pid"] not in dead and gpu["pinned_bytes"] > 0


def test_transfer_process_is_killed_at_each_step():
    """In the first milliseconds of its life it imports memory, pins, takes up what another has left."""
    with devices.serve() as feedd:
        with devices.start(feedd, GPU, step=True, **SHAPE) as reader:
            batches, killed = reader.take(3), []
            for number in range(12):
                (pid,) = harness.eventually(lambda: set(devices.transfers(feedd)) - set(killed), 5, "another transfer process")
                time.sleep(number % 6 * 0.002)
                harness.kill(pid)
                killed.append(pid)
                if number % 3 == 2:
                    # If five in a row did not get that far, feedd would give up on the GPU.
                    harness.eventually(lambda: has_pool(feedd, reader.uuid, killed), 10, "one that opens the pool")
                    batches += reader.take(20)
            batches += reader.take(300 - len(batches))
            reader.next_ends()
            expected.check_run(devices.content(feedd), batches, 20, **SHAPE)
            assert devices.gpu(feedd, reader.uuid)["gpu_counters"]["processes_replaced"] == len(killed)


def test_loaders_and_transfer_processes_are_killed():
    with devices.serve(loaders=3) as feedd:
        readers = devices.start_all(feedd, [GPU, CPU, OTHER], sleep_us=harness.slowly(5000), **SHAPE)
        other = threading.Thread(target=kill_while, args=(feedd, readers[0], "loader", 0.05, 0.1))
        other.start()
        # On a real GPU it takes seconds to start, and others that share the feed are held up for that time.
        pauses, least = ((2, 6), 1) if harness.on_real_gpu() else ((0.1, 0.4), 3)
        assert kill_while(feedd, readers[0], "transfer", *pauses) >= least
        other.join()
        check_all(feedd, readers, **SHAPE)


def test_transfer_process_that_hangs_is_replaced():
    with devices.serve(loader_timeout=2) as feedd:
        with devices.start(feedd, GPU, step=True, **SHAPE) as reader:
            batches = reader.take(10)
            (hung,) = devices.transfers(feedd)
            os.kill(hung, signal.SIGSTOP)
            begun = time.monotonic()
            batches += reader.take(290)
            assert time.monotonic() - begun > 1.5, "the pool held everything: this shows nothing"
            reader.next_ends()
            expected.check_run(devices.content(feedd), batches, 20, **SHAPE)
            assert any("has made no progress for 2 s" in line for line in feedd.status()["last_errors"])
            assert hung not in feedd.children(), "the one that hangs is still there"


def test_idle_transfer_process_that_hangs_goes():
    """It is asked to end, and does not hear."""
    with devices.serve(linger=0, device_linger=int(2 * harness.SLOWNESS), loader_timeout=30, stop_timeout=1) as feedd:
        with devices.start(feedd, GPU, step=True) as reader:
            reader.take(3)
        harness.eventually(lambda: devices.gpu(feedd, reader.uuid)["pools"] == 0, 5, "its pool is closed")
        (hung,) = devices.transfers(feedd)
        os.kill(hung, signal.SIGSTOP)
        harness.eventually(lambda: hung not in feedd.children(), 8, "it is killed")
        with devices.start(feedd, GPU, step=True) as reader:
            reader.take(3)


# ---- Consumers ---------------------------------------------------------------------------------------------


def test_consumers_are_killed_while_others_go_on():
    """They die while holding batches, at any moment; those that stay see the right batches."""
    with devices.serve() as feedd:
        options = {"share": "job", "max_lag": 60, **SHAPE}
        stay = devices.start_all(feedd, [GPU, CPU, OTHER], sleep_us=harness.slowly(4000), **options)
        victims = 0
        while stay[0].process.poll() is None:
            device = random.choice((GPU, GPU, CPU, OTHER))
            with consumer.Consumer(feedd, "numbers", 20, device=device, hold=2, **options) as victim:
                time.sleep(random.uniform(0, 0.12))
                victim.kill()
                victims += 1
        check_all(feedd, stay, **SHAPE)
        assert victims >= 10, victims


def test_consumers_and_transfer_processes_are_killed():
    with devices.serve() as feedd:
        options = {"share": "job", "max_lag": 60, **SHAPE}
        stay = devices.start_all(feedd, [GPU, CPU, GPU], sleep_us=harness.slowly(5000), **options)
        other = threading.Thread(target=kill_while, args=(feedd, stay[0], "transfer", 0.1, 0.5))
        other.start()
        while stay[0].process.poll() is None:
            with consumer.Consumer(feedd, "numbers", 20, device=random.choice((GPU, OTHER)), hold=2, **options) as victim:
                time.sleep(random.uniform(0, 0.2))
                victim.kill()
        other.join()
        check_all(feedd, stay, **SHAPE)


def test_killed_consumers_go_on_at_their_tokens():
    """One after the other, on one device after the other."""
    with devices.serve() as feedd:
        together, token = [], None
        for number in range(16):
            device = (GPU, OTHER, CPU)[number % 3]
            with devices.start(feedd, device, step=True, resume=token, token=True, prefetch=4, **SHAPE) as reader:
                together += reader.take(number % 7 + 1)
                token = together[-1]["token"]
                if number % 2:
                    reader.next()
                reader.kill()
        together += consumer.read(feedd, "numbers", 20, resume=token, device=GPU, **SHAPE)
        expected.check_bytes(devices.content(feedd), together)
        assert expected.check_exactly_once(SAMPLES, together) == 3


def test_one_that_is_killed_holding_all_it_may():
    """The others, in either memory, wait for it and continue at once when it is gone."""
    for bad_one in (GPU, CPU):
        with devices.serve(ring="32K") as feedd:
            options = {"share": "job", "wait_for": 3, "max_lag": 60, **SHAPE}
            with consumer.Consumer(feedd, "numbers", 20, device=bad_one, step=True, prefetch=3, **options) as bad:
                good = [consumer.Consumer(feedd, "numbers", 20, device=device, **options) for device in (CPU, GPU)]
                bad.attached()
                for reader in good:
                    reader.attached()
                for _ in range(3):
                    bad.next()
                time.sleep(0.5)
                assert all(reader.process.poll() is None for reader in good)
                bad.kill()
                check_all(feedd, good, **SHAPE)


# ---- The supervisor ----------------------------------------------------------------------------------------


def test_supervisor_is_killed_under_gpu_consumers():
    """Nothing of it is left, and the next one serves those that come back from where they were."""
    with devices.serve() as feedd:
        options = {"prefetch": 3, "hold": 2, "sleep_us": 8000, "reconnect_timeout": 15000, **SHAPE}
        readers = devices.start_all(feedd, [GPU, CPU, OTHER, GPU], **options)
        for _ in range(4):
            time.sleep(random.uniform(0.2, 0.5))
            leader = feedd.process.pid
            feedd.process.kill()
            feedd.process.wait()
            harness.eventually(lambda: not harness.session_processes(leader), 2, "all processes are gone")
            feedd.check_shared_objects()
            assert readers[0].process.poll() is None, "it was over before: that shows nothing"
            feedd.start()
        check_all(feedd, readers, **SHAPE)
