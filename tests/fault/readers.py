"""The consumers of make check-fault: they work step by step, and compare every batch with what it must be."""

import contextlib
import queue
import time

from content import BATCH, VICTIM_SEED, right
from kinds import RECONNECT_MS

import consumer
import expected
import harness

EVENT_S = 20  # that a consumer may take for one step
GAP_S = 5.0  # that the bystander may wait for a batch while the daemon runs
RESTART_S = 10.0  # the same if the daemon had to be started again


class Answer(Exception):
    """The victim was told an error."""


class Reader:
    """A consumer that works step by step; every batch is compared with what it must be."""

    holds = None  # or a kind of content

    def __init__(self, scene, dataset, seed, **options):
        self.scene = scene
        self.seed = seed
        self.reader = consumer.Consumer(
            scene.instance, dataset, BATCH, step=True, shuffle=True, seed=seed, prefetch=3, **options
        )
        self.count = 0
        self.held = []

    def hear(self):
        deadline = time.monotonic() + EVENT_S * harness.SLOWNESS
        while True:
            with contextlib.suppress(queue.Empty):
                event = self.reader.lines.get(timeout=0.02)
                break
            assert time.monotonic() < deadline, f"{self.name}: no answer within {EVENT_S} s"
            self.scene.meanwhile(self)
        if event is None:
            status = self.reader.process.wait()
            raise AssertionError(f"{self.name}: ended with status {status}")
        if event["event"] == "error":
            assert event["text"].strip() and event["code"].startswith("E"), f"{self.name}: no sentence in {event}"
            raise Answer(f"{event['code']} {event['text']}")
        return event

    def take(self):
        self.reader.command("next", EVENT_S * 1000)
        batch = self.hear()
        wanted = right(self.holds, self.seed, self.count, self.scene.size)
        assert batch["event"] == "batch", f"{self.name}: {batch}"
        for key in (*expected.KEYS, "crc"):
            assert batch[key] == wanted[key], f"{self.name}: batch {self.count} has {key} = {batch[key]}, not {wanted[key]}"
        self.count += 1
        self.held.append(batch["number"])

    def release(self):
        self.reader.command("release", self.held.pop(0))
        assert self.hear()["event"] == "released"

    def close(self):
        self.reader.command("close")
        status = self.reader.process.wait(EVENT_S * harness.SLOWNESS)
        assert status == 0, f"{self.name}: status {status} after closing"


class Bystander(Reader):
    name = "the bystander"

    def __init__(self, scene):
        super().__init__(scene, "calm", 7, reconnect_timeout=RECONNECT_MS)
        self.longest_s = 0.0
        self.restarts = 0  # after which it has been served; another one may have come while nobody asked for it
        self.hear()

    def serve(self, count=1):
        for _ in range(count):
            begin = time.monotonic()
            try:
                self.take()
                self.release()
            except Answer as answer:
                raise AssertionError(f"the bystander was told {answer}") from None
            took = time.monotonic() - begin
            self.longest_s = max(self.longest_s, took)
            limit = RESTART_S if self.scene.restarts > self.restarts else GAP_S
            self.restarts = self.scene.restarts
            assert took < limit * harness.SLOWNESS, f"the bystander waited {took:.1f} s for a batch"


class Victim(Reader):
    name = "the victim"

    @property
    def holds(self):
        return self.scene.kind

    def __init__(self, scene, **options):
        mine = {key: value for key, value in scene.options.items() if key != "io"}
        super().__init__(scene, "numbers", VICTIM_SEED, **mine, **options)
