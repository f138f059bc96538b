"""Consumers whose GPU has fallen behind: a batch is released when their stream gets there, and does not change before."""

import json
import random
import subprocess
import threading
import time

import consumer
import devices
import expected
import harness
from devices import CPU, SIMULATED

SHAPE = {"epochs": 3, "shuffle": True, "seed": 13}
BATCHES = 300


class Late:
    """streams.c in a separate process."""

    def __init__(self, instance, **options):
        options = {"batch_size": 20, "device": SIMULATED, **SHAPE, **options}
        arguments = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in options.items() if value
        ]
        self.process = subprocess.Popen(
            [harness.PROGRAMS / "tests/streams", *arguments], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env=instance.environment(), preexec_fn=harness.die_with_parent,
        )  # fmt: skip
        assert self.line()["event"] == "attached"

    def line(self):
        text = self.process.stdout.readline()
        return json.loads(text) if text else {"event": None}

    def finish(self, seconds=25):
        """What it says of its kernels, all of which have to have run and seen what they should."""
        output, _ = self.process.communicate(timeout=seconds * harness.SLOWNESS)
        assert self.process.returncode == 0, output
        said = json.loads(output)
        assert said["wrong"] == 0, f"{said['wrong']} batches were overwritten under their kernels: {said}"
        assert said["kernels"] == said["queued"] >= said["batches"], said
        return said

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_slow_kernels():
    with devices.serve() as feedd:
        for options in ({"slow_us": 3000}, {"slow_us": 10_000, "streams": 4}, {"slow_us": 3000, "prefetch": 1}):
            assert Late(feedd, **options).finish()["batches"] == BATCHES


def test_releases_out_of_order_on_several_streams():
    with devices.serve() as feedd:
        said = Late(feedd, slow_us=5000, streams=5, hold=4, prefetch=6).finish()
        assert said["batches"] == BATCHES, said


def test_batches_that_two_streams_use():
    with devices.serve() as feedd:
        said = Late(feedd, slow_us=3000, streams=3, hold=1, prefetch=4, pairs=True).finish()
        assert (said["batches"], said["kernels"]) == (BATCHES, 2 * BATCHES), said


def test_slow_and_fast_share_a_feed():
    """Also one in host memory, which sees every batch all the same."""
    with devices.serve() as feedd:
        host = consumer.Consumer(feedd, "numbers", 20, device=CPU, share="job", wait_for=4, **SHAPE)
        late = [Late(feedd, share="job", wait_for=4, slow_us=slow, streams=2) for slow in (0, 8000, 1000)]
        for reader in late:
            assert reader.finish()["batches"] == BATCHES
        host.attached()
        expected.check_run(devices.content(feedd), host.finish(), 20, **SHAPE)


def test_transfer_process_is_killed_under_slow_kernels():
    """The next one knows what has not been released, and overwrites none of it."""
    with devices.serve(device_pool="128K") as feedd:
        options = {"share": "job", "wait_for": 3, "slow_us": harness.slowly(20_000), "streams": 2, "prefetch": 4}
        late = [Late(feedd, hold=hold, **options) for hold in (0, 1, 2)]
        kills = devices.Kills(feedd)
        while any(reader.process.poll() is None for reader in late):
            time.sleep(random.uniform(0.05, 0.4))
            kills.kill()
        for reader in late:
            assert reader.finish()["batches"] == BATCHES
        assert kills.count >= 3, kills.count


def test_consumers_are_killed_while_copies_wait_for_their_streams():
    """A consumer that waits for a slot not yet released by the dead one's stream continues."""
    with devices.serve() as feedd:
        stay = Late(feedd, share="job", wait_for=2, slow_us=4000, streams=2)
        host = consumer.Consumer(feedd, "numbers", 20, device=CPU, share="job", wait_for=2, **SHAPE)
        host.attached()
        killed = 0
        while stay.process.poll() is None:
            victim = None
            try:
                # Kernels of a second: within its first batches everybody waits for it.
                victim = Late(feedd, share="job", slow_us=1_000_000, streams=2, max_lag=60)
                time.sleep(random.uniform(0.05, 0.3))
            except AssertionError:
                assert stay.process.poll() is not None or victim is None
            finally:
                if victim:
                    victim.kill()
                    killed += 1
        assert stay.finish()["batches"] == BATCHES
        expected.check_run(devices.content(feedd), host.finish(), 20, **SHAPE)
        assert killed >= 5, killed


def test_closing_waits_for_what_is_queued():
    """The memory is freed only when no kernel that reads it is left."""
    if harness.sanitized():
        harness.skip("streams that nobody destroys are a leak to the address sanitizer")
    with devices.serve() as feedd:
        for number in range(3):
            said = Late(feedd, slow_us=200_000, streams=4, hold=3, prefetch=4, batches=12 + number, leave_streams=True).finish()
            assert said["kernels"] == 12 + number, said


def test_supervisor_is_killed_under_slow_kernels():
    """Batches of the lost daemon's pool stay whole until their kernels are over."""
    with devices.serve() as feedd:
        late = [Late(feedd, slow_us=20_000, streams=3, hold=2, prefetch=4) for _ in range(2)]
        for _ in range(3):
            time.sleep(0.4)
            feedd.process.kill()
            feedd.process.wait()
            feedd.start()
        for reader in late:
            assert reader.finish()["batches"] == BATCHES


def test_loaders_are_killed_under_slow_kernels():
    with devices.serve(loaders=2) as feedd:
        late = Late(feedd, slow_us=5000, streams=2, hold=1)

        def kill():
            while late.process.poll() is None:
                for pid in feedd.children_called("loader")[:1]:
                    harness.kill(pid)
                time.sleep(0.1)

        other = threading.Thread(target=kill)
        other.start()
        assert late.finish()["batches"] == BATCHES
        other.join()
