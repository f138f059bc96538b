"""Lanes: consumers whose deliveries are accounted for, also when one is killed and another one takes its place."""

import dataclasses
import mmap
import os
import signal
import struct
import subprocess
import time

import harness

# struct storm_ledger in storm_ledger.h.
WORDS = (
    "commits wrong doubled lost batches samples skipped checked_again attached opened_ns first_ns generations generation_ns"
    " waiting_ns waits error revoked replaced passed_over failed_ns"
).split()
TEXT, TEXT_BYTES, RECORD, RECORD_BYTES, TOKEN_BYTES, WAIT, WAITS = 256, 256, 512, 8512, 8448, 17536, 256
LEDGER_BYTES = WAIT + 16 * WAITS


class Ledger:
    """Written by the consumer, read here."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(LEDGER_BYTES))
        path.chmod(0o666)
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), LEDGER_BYTES)

    def __getattr__(self, name):
        return struct.unpack_from("<Q", self.map, 8 * WORDS.index(name))[0]

    def _words(self, at, count):
        return struct.unpack_from(f"<{count}Q", self.map, at)

    @property
    def text(self):
        return self.map[TEXT : TEXT + TEXT_BYTES].split(b"\0")[0].decode(errors="replace")

    def record(self):
        """The last one that is complete: (token, epoch, consumed, samples, skipped)."""
        at = RECORD + RECORD_BYTES * (self.commits % 2)
        token = self.map[at : at + TOKEN_BYTES].split(b"\0")[0].decode()
        return (token, *self._words(at + TOKEN_BYTES, 4))

    def longest_wait(self, begin_ns, end_ns):
        """How long, from begin_ns on, the consumer has waited for a batch that it began to wait for before end_ns."""
        longest = 0
        count = self.waits
        for number in range(max(0, count - WAITS + 1), count):
            begin, end = self._words(WAIT + 16 * (number % WAITS), 2)
            if begin < end_ns:
                longest = max(longest, end - max(begin, begin_ns))
        since = self.waiting_ns
        if since and since < end_ns:
            longest = max(longest, time.monotonic_ns() - max(since, begin_ns))
        return longest


    def waits_since(self, since_ns):
        """The long waits that ended since then, in milliseconds; the last WAITS of them."""
        count = self.waits
        waits = (self._words(WAIT + 16 * (number % WAITS), 2) for number in range(max(0, count - WAITS + 1), count))
        return [(end - begin) / 1e6 for begin, end in waits if end > since_ns]


@dataclasses.dataclass
class Shape:
    """What a lane's consumers ask for. Lanes with the same `group` share a feed."""

    dataset: str
    batch_size: int
    group: str = ""
    rank: int = 0
    world_size: int = 1
    device: str = ""
    drop_last: bool = False
    shuffle: bool = True
    hold: int = 2
    prefetch: int = 0
    max_lag: int = 0
    pause_us: int = 8000
    wait_for: int = 0
    ring_bytes: int = 0


class Lane:
    """One consumer after the other with the same account."""

    def __init__(self, storm, name, shape, seed):
        self.storm, self.name, self.shape, self.seed = storm, name, shape, seed
        self.ledger = Ledger(storm.folder / f"{name}.ledger")
        self.process = None
        self.starts_at = 0.0
        self.disturbed_ns = 0  # when something happened to the consumer itself
        self.failures = 0  # in a row
        self.fresh = False  # the next consumer begins where the feed is, since its token is of the past
        self.stopping = False

    def command(self, **more):
        shape = self.shape
        options = {
            "batch-size": shape.batch_size, "seed": self.seed, "rank": shape.rank, "world-size": shape.world_size,
            "hold": shape.hold, "pause-us": shape.pause_us, "prefetch": shape.prefetch, "max-lag": shape.max_lag,
            "ring-bytes": shape.ring_bytes, "share": shape.group, "device": shape.device, "name": self.name,
            "wait-for": shape.wait_for, "ledger": self.ledger.path, **more,
        }  # fmt: skip
        flags = ["--shuffle"] * shape.shuffle + ["--drop-last"] * shape.drop_last
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value]
        return [self.storm.consumer, *self.storm.datasets[shape.dataset].arguments(), *arguments, *flags]

    def start(self, user=None, **more):
        """From the last token, if there is one."""
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        resume = "" if self.fresh else self.ledger.record()[0]
        self.resumed, self.fresh = bool(resume), False
        self.started_ns = self.disturbed_ns = time.monotonic_ns()
        self.process = subprocess.Popen(
            self.command(resume=resume, **more), stdin=subprocess.DEVNULL, cwd="/", **identity,
            env=self.storm.instance.environment(), preexec_fn=harness.die_with_parent,
        )  # fmt: skip

    def alive(self):
        return self.process is not None and self.process.returncode is None

    def signal(self, number):
        self.disturbed_ns = time.monotonic_ns()
        if self.alive():
            os.kill(self.process.pid, number)

    def running_ns(self):
        """Since when this consumer has received batches; 0: it has not."""
        first = self.ledger.first_ns
        return first if first > self.started_ns else 0

    def stop(self):
        self.stopping = True
        if self.alive():
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.terminate()

    def account(self):
        """Of a private feed: what was committed is what lies before the last token, neither more nor less."""
        _, epoch, consumed, samples, skipped = self.ledger.record()
        if self.shape.group or not self.ledger.commits:
            return 0
        dataset, shape = self.storm.datasets[self.shape.dataset], self.shape
        whole = dataset.samples - (dataset.samples % shape.batch_size if shape.drop_last else 0)
        return samples + skipped - (epoch * whole + consumed)
