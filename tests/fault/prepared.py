"""The scenario in which loaders wait for feeds: one, which is replaced whenever a feed has taken it or it has died.

It has mapped memory for the next ring. The victim's ring is larger than that, so that the rest follows after its first
batch.
"""

import contextlib
import os
import signal

from plan import PHASES
from scenario import SETTLE_S, Scene

import harness
from test_prepared_ring import rings

HANDED_S = 20.0  # until a loader that is killed has been replaced
FAULTY_HANDED_S = 2.0  # ... if a call is to fail, which may keep it from being replaced


class PreparedScene(Scene):
    settings = {"ring": "5M", "prepare_loaders": "yes"}
    size = 8192
    phases = PHASES[1:]
    refill = 44

    # ---- Those that wait -------------------------------------------------------------------------------------

    def waiting(self):
        return set(self.instance.children_called("prepared"))

    def await_prepared(self, other_than=()):
        """In phases after the one in which the call has failed, nobody waits for that until the victim has left."""

        def is_there():
            self.meanwhile(self.victim)
            waiting = self.waiting()
            if len(waiting) != 1 or waiting & set(other_than):
                return False
            return self.plan.fired or all(rings(pid) for pid in waiting)

        if self.judged:
            return
        harness.eventually(is_there, SETTLE_S, "a loader waits for the next feed")

    def is_alone(self):
        """The bystander, with its loader, and the loader that waits."""
        self.meanwhile(self.victim)
        return len(self.instance.children()) == 2 and len(self.waiting()) == 1

    def settle(self):
        self.await_prepared()
        super().settle()

    # ---- Phases ----------------------------------------------------------------------------------------------

    def prepare(self):
        """The one that waits dies."""
        killed = self.waiting()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        self.await_prepared(other_than=killed)

    def attach(self):
        taken = self.waiting()
        super().attach()
        assert self.fault or set(self.served_by()) == taken, f"{self.served_by()} read for the victim, not {taken}"
        self.await_prepared(other_than=taken)

    def recover(self):
        """The victim's loader dies, and so does the one that takes its place: with what it has been sent."""
        taken = self.waiting()
        with contextlib.suppress(ProcessLookupError):
            for pid in taken:
                os.kill(pid, signal.SIGSTOP)
            for pid in self.served_by():
                os.kill(pid, signal.SIGKILL)
        self.await_handover(taken)
        with contextlib.suppress(ProcessLookupError):
            for pid in taken:
                os.kill(pid, signal.SIGKILL)
        self.try_with_victim(lambda: self.take_and_release(self.refill))
        self.await_prepared(other_than=taken)

    def await_handover(self, taken):
        def is_sent():
            return self.plan.fired or all(f" begins as process {pid}" in self.instance.read_log() for pid in taken)

        with contextlib.suppress(AssertionError):
            harness.eventually(is_sent, FAULTY_HANDED_S if self.fault else HANDED_S, "the loader that waits has a feed")
        assert self.fault or is_sent(), "the loader that waited did not replace the victim's"

    def reload(self):
        """Loaders are prepared for something else from now on."""
        before = self.waiting()
        self.instance.settings["queue_depth"] = 16
        super().reload()
        self.await_prepared(other_than=before)
