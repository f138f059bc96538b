"""One run of the scenario of make check-fault, in which at most one call fails.

Two consumers, each with a feed of its own: a bystander, who must notice nothing, and a victim, who gets right bytes or an
error with a sentence. The phases are attach, deliver, release, recover (a process that served the victim is killed),
reload, leave and stop. Until the call has failed, everything happens step by step, so that the same calls are made in
every run; from then on the bystander takes batches without a pause.
"""

import contextlib
import json
import os
import queue
import re
import signal
import sys
import time

from content import BATCH, add_images, add_records, right
from plan import PHASES, ROLES, Plan

import consumer
import data
import expected
import harness

EVENT_S = 20  # that a consumer may take for one step
GAP_S = 5.0  # that the bystander may wait for a batch while the daemon runs
RESTART_S = 10.0  # the same if the daemon had to be started again
SETTLE_S = 15.0  # until what a client had is given back
RECONNECT_MS = 60000
VICTIM_SEED = 11
# How the victim's batches are read, and where they are delivered. On a GPU it is one that does not reconnect.
KINDS = {
    "uring": {"io": "uring", "reconnect_timeout": RECONNECT_MS},
    "mapped": {"io": "mapped", "reconnect_timeout": RECONNECT_MS},
    "pread": {"io": "pread", "reconnect_timeout": RECONNECT_MS},
    "gpu": {"io": "uring", "device": "host:0", "device_world_size": 1},
    "images": {"io": "uring", "reconnect_timeout": RECONNECT_MS},
}
# Which roles are looked at in which scenario. What is the same in all is done once.
ROLES_OF = {
    "uring": ("supervisor", "spawn", "start", "loader", "consumer"),
    "mapped": ("loader",),
    "pread": ("loader",),
    "gpu": ("supervisor", "spawn", "transfer", "consumer"),
    "images": ("loader",),
}


class Answer(Exception):
    """The victim was told an error."""


class Reader:
    """A consumer that works step by step; every batch is compared with what it must be."""

    holds_images = False

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
        wanted = right(self.holds_images, self.seed, self.count)
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
    def holds_images(self):
        return self.scene.kind == "images"

    def __init__(self, scene, **options):
        mine = {key: value for key, value in scene.options.items() if key != "io"}
        super().__init__(scene, "numbers", VICTIM_SEED, **mine, **options)


class Scene:
    """Set `fault` to None to count calls only."""

    def __init__(self, kind, fault, calls):
        self.kind, self.fault, self.calls = kind, fault, calls
        self.options = KINDS[kind]
        self.instance = harness.Instance(
            loaders=1, linger=0, device_linger=0, loader_timeout=3, ring="64K", device_pool="64K", log_level="debug"
        )
        add_records(self.instance, "calm", io="mapped")
        add = add_images if kind == "images" else add_records
        add(self.instance, "numbers", io=self.options["io"])
        self.plan = Plan(self.instance.directory / "plan")
        self.restarts = 0
        self.ends = []  # how the daemon ended, if it did
        self.answers = []
        self.died = self.judged = False
        self.victim = self.bystander = None
        self.restarted_victim = False
        self.busy = False  # the bystander is being served

    # ---- Processes -------------------------------------------------------------------------------------------

    def wrap(self, role):
        number = ROLES.index(role)
        environment = {
            "LD_PRELOAD": str(harness.PROGRAMS / "tests/failing_alloc.so"), "FEEDD_FAULT_PLAN": str(self.plan.path),
            "FEEDD_FAULT_ROLE": str(number),
        }  # fmt: skip
        return {"wrap": [harness.PROGRAMS / "tests/inject", self.plan.path, str(number)], "environment": environment}

    def start_victim(self):
        mine = self.fault is None or self.fault.role == "consumer"
        self.victim = Victim(self, **(self.wrap("consumer") if mine and not self.restarted_victim else {}))

    def served_by(self):
        """The process that is killed to be recovered: the victim's loader, or its GPU's transfer process."""
        if self.kind == "gpu":
            return self.instance.children_called("transfer")
        return [
            pid for pid, command in self.instance.children().items()
            if command.startswith("feedd-loader") and not command.endswith(f" feed {self.bystander_feed}")
        ]  # fmt: skip

    def meanwhile(self, reader):
        """While somebody waits."""
        if self.instance.process.poll() is not None:
            self.start_again()
        if self.plan.fired and reader is not self.bystander and not self.busy:
            self.busy = True
            time.sleep(0.005)
            self.bystander.serve()
            self.busy = False

    def start_again(self):
        """The daemon has ended. A new one follows, without faults; consumers find it."""
        status = self.instance.process.returncode
        assert status >= 0, f"feedd was ended by signal {-status}; {self.last_words()}"
        self.ends.append(f"status {status}: {self.last_words()}")
        self.restarts += 1
        self.instance.start()

    def last_words(self):
        lines = [line for line in self.instance.read_log().splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    # ---- Phases ----------------------------------------------------------------------------------------------

    def try_with_victim(self, action):
        """Does it with the victim. If that is told an error, another consumer takes its place and must succeed."""
        try:
            action()
        except Answer as answer:
            assert self.fault, f"the victim was told {answer}"
            assert not self.answers, f"the victim was told {answer} after {self.answers}"
            self.answers.append(str(answer))
            self.finish_victim()
            self.restarted_victim = True
            self.start_victim()
            self.victim.hear()
            self.take_and_release(2)

    def finish_victim(self):
        """Its handle is only good for closing."""
        with contextlib.suppress(BrokenPipeError):
            self.victim.reader.command("close")
        status = self.victim.reader.process.wait(EVENT_S * harness.SLOWNESS)
        assert status in (0, 1), f"the victim ended with status {status}"
        self.check_consumer()

    def check_consumer(self):
        before, after = self.plan.consumer_descriptors
        assert not after or after <= before, f"the victim had {before} descriptors and has {after}"

    def take_and_release(self, count):
        for _ in range(count):
            self.victim.take()
            self.victim.release()

    def attach(self):
        self.start_victim()
        self.try_with_victim(self.victim.hear)

    def deliver(self):
        self.try_with_victim(lambda: [self.victim.take() for _ in range(3)])

    def release(self):
        self.try_with_victim(lambda: [self.victim.release() for _ in list(self.victim.held)])

    def recover(self):
        for pid in self.served_by():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.try_with_victim(lambda: self.take_and_release(6))

    def reload(self):
        data.add_records(self.instance, "late", samples=1)
        self.instance.write_config()
        for last_try in (False, True):
            done = self.instance.ctl("reload", check=False)
            if "late" in self.instance.ctl("datasets", check=False).stdout:
                break
            assert not last_try and self.plan.fired, f"reload failed: {done.stdout}{done.stderr}"
            self.answers.append(f"reload: {done.stderr.strip() or done.stdout.strip()}")
        self.try_with_victim(lambda: self.take_and_release(1))

    def leave(self):
        with contextlib.suppress(BrokenPipeError):
            self.victim.reader.command("close")
        status = self.victim.reader.process.wait(EVENT_S * harness.SLOWNESS)
        assert status == 0, f"the victim ended with status {status}"
        self.check_consumer()
        harness.eventually(self.has_one_child, SETTLE_S, "one loader is left")

    def has_one_child(self):
        self.meanwhile(self.victim)
        return len(self.instance.children()) == 1

    def is_back(self):
        self.meanwhile(self.victim)
        status = self.instance.status()
        return status["feeds"] == 1 and not status["gpus"] and self.has_one_child()

    def check_descriptors(self):
        """What the victim had has been given back."""
        self.bystander.serve(2)  # it may have to come back
        harness.eventually(self.is_back, SETTLE_S, "one feed with one loader is left")
        offered = {row["name"] for row in json.loads(self.instance.ctl("datasets", "--json").stdout)}
        assert offered == set(self.instance.datasets), f"the datasets on offer are {offered}"
        if self.descriptors_most is not None and not self.restarts:
            self.instance.check_descriptors(self.descriptors_most, SETTLE_S)
        self.descriptors = self.instance.descriptors()

    def stop(self):
        self.instance.process.send_signal(signal.SIGTERM)
        try:
            status = self.instance.process.wait(15 * harness.SLOWNESS)
        except Exception:
            raise AssertionError(f"feedd does not stop; {self.last_words()}") from None
        assert status == 0, f"feedd stopped with status {status}; {self.last_words()}"
        # What cannot be removed is left, but not silently.
        if not (self.fault and self.fault.call == "unlink" and "cannot remove" in self.instance.read_log()):
            self.instance.check_nothing_left()
        # The next daemon finds the bystander where it was.
        self.plan.begin("before")
        self.instance.start()
        self.restarts += 1
        self.bystander.serve(4)

    # ---- All of it -------------------------------------------------------------------------------------------

    def play(self, descriptors_most=None):
        self.descriptors_most = descriptors_most
        if self.fault:
            self.plan.aim(self.fault, self.calls)
        self.instance.write_config()
        self.instance.start(**self.wrap("supervisor"))
        self.bystander = Bystander(self)
        self.bystander.serve(2)
        self.bystander_feed = int(re.search(r" feed (\d+)", str(self.instance.children())).group(1))
        self.plan.set_bystander(self.bystander_feed)
        for phase in PHASES[1:]:
            self.plan.begin(phase)
            getattr(self, phase)()
            if phase != "stop":
                self.bystander.serve(1)
                self.settle()
                self.note_death(phase)
            if phase == "leave":
                self.plan.begin("before")
                self.check_descriptors()
        assert self.plan.unlisted < 0, f"calls.def lacks {self.calls.names.get(self.plan.unlisted, self.plan.unlisted)}"

    def settle(self):
        """Waits until only waiting is left, so that the next phase begins with the same in every run."""
        deadline = time.monotonic() + 2
        while not self.plan.fired and time.monotonic() < deadline:
            before = self.plan.activity
            time.sleep(0.03)
            if self.plan.activity == before:
                break

    def note_death(self, phase):
        """Later it may end for other reasons."""
        if self.plan.fired and not self.judged:
            self.judged = True
            ends_anyway = self.fault.role == "consumer" or phase == "leave"
            self.died = not ends_anyway and not os.path.exists(f"/proc/{self.plan.fired_pid}")

    def outcome(self):
        if not self.plan.fired:
            return "not reached"
        if self.ends:
            return "ended"
        if self.answers:
            return "answered"
        return "recovered" if self.died else "unnoticed"

    def close(self):
        for reader in (self.victim, self.bystander):
            if reader:
                reader.reader.kill()
        self.instance.__exit__(Exception if sys.exc_info()[0] else harness.Skip)


def run(kind, fault, calls, descriptors_most=None):
    """What happened, as a dictionary; `failure` if it was not right."""
    begin = time.monotonic()
    scene = Scene(kind, fault, calls)
    result = {"failure": "", "log": ""}
    try:
        scene.play(descriptors_most)
        result["descriptors"] = scene.descriptors
    except Exception as failure:
        result["failure"] = f"{type(failure).__name__}: {failure}" if not isinstance(failure, AssertionError) else str(failure)
        result["log"] = scene.instance.read_log()
    finally:
        scene.close()
    return {
        **result, "outcome": scene.outcome(), "answers": scene.answers, "ends": scene.ends, "frames": scene.plan.frames(),
        "counts": scene.plan.counts(), "sites": scene.plan.sites(), "seconds": time.monotonic() - begin,
        "gap": scene.bystander.longest_s if scene.bystander else 0,
    }  # fmt: skip
