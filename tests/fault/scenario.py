"""One run of the scenario of make check-fault, in which at most one call fails.

Two consumers, each with a feed of its own: a bystander, who must notice nothing, and a victim, who gets right bytes or an
error with a sentence. The phases are attach, deliver, release, recover (a process that served the victim is killed),
reload, leave and stop. Until the call has failed, everything happens step by step, so that the same calls are made in
every run; from then on the bystander takes batches without a pause.
"""

import contextlib
import json
import os
import signal
import sys
import time

from content import ADD, SIZE, add_records
from kinds import KINDS
from plan import PHASES, ROLES, Plan
from readers import EVENT_S, Answer, Bystander, Victim

import data
import harness

SETTLE_S = 15.0  # until what a client had is given back
BYSTANDER_FEED = 1  # the first one that a daemon makes


class Scene:
    """Set `fault` to None to count calls only."""

    settings = {"ring": "64K"}
    size = SIZE  # of a sample that is not an image
    phases = PHASES[2:]
    refill = 6  # batches: more than the ring holds, so that somebody has to read

    def __init__(self, kind, fault, calls):
        self.kind, self.fault, self.calls = kind, fault, calls
        self.options = KINDS[kind]
        self.instance = harness.Instance(
            loaders=1, linger=0, device_linger=0, loader_timeout=3, device_pool="64K", log_level="debug", **self.settings
        )
        add_records(self.instance, "calm", self.size, io="mapped")
        if kind in ADD:
            ADD[kind](self.instance, "numbers", io=self.options["io"])
        else:
            add_records(self.instance, "numbers", self.size, io=self.options["io"])
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
        if "device" in self.options:
            return self.instance.children_called("transfer")
        return [
            pid for pid, command in self.instance.children().items()
            if command.startswith("feedd-loader") and not command.endswith(f" feed {BYSTANDER_FEED}")
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
        self.try_with_victim(lambda: self.take_and_release(self.refill))

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
        harness.eventually(self.is_alone, SETTLE_S, "one loader is left")

    def is_alone(self):
        """The bystander, with its loader."""
        self.meanwhile(self.victim)
        return len(self.instance.children()) == 1

    def is_back(self):
        self.meanwhile(self.victim)
        status = self.instance.status()
        return status["feeds"] == 1 and not status["gpus"] and self.is_alone()

    def check_descriptors(self):
        """What the victim had has been given back."""
        self.bystander.serve(2)  # it may have to come back
        harness.eventually(self.is_back, SETTLE_S, "one feed with one loader is left")
        offered = {row["name"] for row in json.loads(self.instance.ctl("datasets", "--json").stdout)}
        assert offered == set(self.instance.datasets), f"the datasets served are {offered}"
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
        self.plan.set_bystander(BYSTANDER_FEED)
        self.instance.write_config()
        self.instance.start(**self.wrap("supervisor"))
        self.bystander = Bystander(self)
        self.bystander.serve(2)
        assert f" feed {BYSTANDER_FEED}'" in str(self.instance.children()), self.instance.children()
        self.settle()
        for phase in self.phases:
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
