"""Storage with faults: the file system in user space of ../integration/fuse.py, served by a process of its own, whose
reads fail, are slow, or hang, as the driver says."""

import errno
import mmap
import os
import random
import struct
import time

import fuse
import harness

FAULTS = struct.Struct("=IId")  # reads per thousand that fail, microseconds that each takes, when the hang ends


class Storage(fuse.Fuse):
    """One file, as a folder at `path`. Where none can be mounted, `refusal` says why."""

    def __init__(self, name, content):
        self.content, self.name, self.direct = content, name.encode(), True
        self.path = fuse.FOLDER / name
        self.holds, self.held = None, []
        self.faults = mmap.mmap(-1, FAULTS.size)  # shared with the process that serves
        self.set()
        self.pid, self.refusal = 0, ""
        try:
            self.device = fuse.mount()
        except harness.Skip as refusal:
            self.refusal = str(refusal)
            return
        self.pid = os.fork()
        if self.pid == 0:
            harness.die_with_parent()
            self._serve_alone()
        os.close(self.device)  # so that requests fail, and nobody waits, if that process ends

    def set(self, failing=0, delay_us=0, hang_s=0.0):
        FAULTS.pack_into(self.faults, 0, failing, delay_us, time.monotonic() + hang_s)

    def end(self):
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def _serve_alone(self):
        self.chance = random.Random(0)
        self.running = self  # the base class waits before each request
        try:
            self._serve()
        finally:
            os._exit(0)

    def wait(self):
        until = FAULTS.unpack_from(self.faults)[2]
        while (rest := until - time.monotonic()) > 0:
            time.sleep(min(rest, 0.05))

    def _answer(self, operation, node, body):
        failing, delay_us, _ = FAULTS.unpack_from(self.faults)
        if operation == fuse.READ:
            if delay_us:
                time.sleep(delay_us / 1e6)
            if self.chance.randrange(1000) < failing:
                raise OSError(errno.EIO, "")
        return super()._answer(operation, node, body)
