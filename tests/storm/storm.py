#!/usr/bin/env python3
"""Runs a daemon and its consumers while processes of every role are killed and paused, storage fails, and the machine
denies descriptors and memory; checks every sample, and that nothing is left. ../README.md, "Storms"."""

import argparse
import contextlib
import heapq
import itertools
import json
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import blocks  # noqa: E402
import events  # noqa: E402
import files  # noqa: E402
import harness  # noqa: E402
import photos  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import users  # noqa: E402
from daemon import Daemon, MemoryGroup  # noqa: E402
from lanes import Lane  # noqa: E402
from population import choose_lanes, choose_visitors  # noqa: E402
from recovery import Recovery  # noqa: E402
from storage import Storage  # noqa: E402

ROUND_S = 300
TICK_S = 0.01
STARTING_S = 10  # that a daemon may take to look at all files
SILENT_S = 20  # that a daemon may give no answer, at most: it does not start, or it hangs
GIVEN_BACK_S = 10  # a thread beside the loop may still be closing what the last feed had
NS_PER_S = 1_000_000_000
# loader_timeout is 2 s below. One call in 40, so that all pools are open after a few seconds.
SLOW_DRIVER = "slow_every=40,register_ms=2500,unregister_ms=2500,create_ms=2500,import_ms=2500"


class Storm:
    def __init__(self, arguments):
        self.arguments, self.here = arguments, HERE
        self.instance = harness.Instance(
            ring_memory="512M", socket_mode="0666", loader_timeout=2, stop_timeout=5, max_lag=30, device_linger=1,
            device_pool="256K", ring="256K",
        )  # fmt: skip
        self.folder = self.instance.directory
        self.folder.chmod(0o711)
        self.consumer = harness.PROGRAMS / "tests/storm_consumer"
        self.stranger = users.NOBODY if self._strangers_may_run() else None
        self.datasets = files.make_all(self.folder, arguments.seed)
        self.datasets |= blocks.make_all(self.folder, arguments.seed, self.datasets["ragged"])
        crashes = photos.may_crash()
        self.datasets |= photos.make_all(self.folder, arguments.seed, crashes)
        of_files = [name for name, dataset in self.datasets.items() if "format" in dataset.options]
        self.plain = [name for name in of_files if name != "vectors"]  # which is always read with io_uring
        self.datasets |= {view.name: view for view in files.make_views(self.folder, arguments.seed)}
        content = files.records(random.Random(arguments.seed), 6000, 128)
        self.storage = Storage("flaky.bin", content)
        if not self.storage.refusal:
            for dataset in files.make_flaky(self.folder, self.storage.path, content):
                self.datasets[dataset.name] = dataset
        self.cuts = [self._cut("shrinking.bin", 0)]
        self.cuts += [self._cut(name, 3) for name in ("replacing.bin", "fading.arrow", "alike.arrow")]
        self.pictures = sorted((self.folder / "pictures").rglob("*.jpg"))
        self.group = MemoryGroup()
        environment = {"FEEDD_SIMULATED_GPU": photos.ENGINE + (f",{SLOW_DRIVER}" if arguments.slow_driver else "")}
        environment |= {"LD_PRELOAD": str(photos.LIBRARY)} if crashes else {}
        self.daemon = Daemon(self.instance, self.group.wrap, environment)
        self.condemned = 0  # images that are whole, at which loaders were stopped twice
        self.lanes = [self._lane(*each) for each in choose_lanes(self.datasets, arguments.gpu)]
        self.visitors = [self._lane(*each) for each in choose_visitors(arguments.gpu)]
        self.recovery = Recovery(self)
        self.actions, self.order = [], itertools.count()
        self.counts, self.missed = {}, {}
        self.errors, self.findings = {}, []  # errors that are to be expected; those that are not
        self.restarted_ns = 0
        self.upset_ns, self.denied_until, self.restart_delay = 0, 0.0, 0.0
        self.denials, self.denied, self.denials_past = 0, [], []  # that have not been taken back, since when; the others
        self.file_is_cut, self.reloaded, self.faulty_from, self.faulty_until = False, 0.0, 0.0, 0.0
        self.stalled_until = 0.0  # one thing at a time keeps loaders or reads from moving
        self.limits = {}  # of the daemons, as they were
        self.background, self.feeds = [], (0, {})
        self.answered, self.all_open = 0.0, 0.0  # when the daemon last did, and when it was asked and had all indices
        self.running, self.is_calm = True, False

    def _cut(self, name, least):
        """A file that is cut now and then, of which that many quarters stay at least."""
        path = self.folder / name
        return path, path.read_bytes(), least

    def _lane(self, name, shape):
        seed = random.Random(f"{self.arguments.seed} {shape.group or name}").getrandbits(32)
        return Lane(self, name, shape, seed)

    def _strangers_may_run(self):
        command = [self.consumer, "--order", "1", "1", "1"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                command, user=users.NOBODY, group=users.NOBODY, extra_groups=[], capture_output=True, check=True
            )
        return None

    def everyone(self):
        return [*self.lanes, *self.visitors]

    # ---- Time ----------------------------------------------------------------------------------------------

    def later(self, seconds, action):
        heapq.heappush(self.actions, (time.monotonic() + seconds, next(self.order), action))

    def upset(self):
        self.upset_ns = time.monotonic_ns()

    def last_upset_ns(self):
        """When everybody was concerned for the last time."""
        return max(self.upset_ns, self.restarted_ns)

    def begin_denial(self):
        self.denials += 1
        self.denied.append(time.monotonic())

    def end_denial(self, seconds=5):
        """For so long the machine may still lack something that a consumer needs."""
        self.denials -= 1
        self.denied_until = max(self.denied_until, time.monotonic() + seconds)
        if not self.denials:
            self.denials_past.append((min(self.denied), self.denied_until))
            self.denied.clear()

    def was_denied(self, at):
        """At that time, not now: on a busy machine, an end may be noticed long after it."""
        return any(begin <= at <= end for begin, end in [*self.denials_past, *((begin, at) for begin in self.denied)])

    def feed_of(self, pid):
        daemon, feeds = self.feeds
        return feeds.get(pid) if self.daemon.alive() and daemon == self.daemon.pid else None

    def was_denied_since(self, at):
        return bool(self.denied) or self.denied_until >= at

    def look_at_feeds(self):
        """A thread: which consumer is on which feed, as the daemon says."""
        while self.running:
            daemon = self.daemon.pid if self.daemon.alive() else 0
            with contextlib.suppress(subprocess.SubprocessError, AssertionError, ValueError):
                said = self.instance.ctl("clients", "--json", limit_s=3).stdout
                self.feeds = daemon, {client["pid"]: client["feed"] for client in json.loads(said)}
                self.answered = asked = time.monotonic()
                rows = json.loads(self.instance.ctl("datasets", "--json", limit_s=3).stdout)
                if all(row["state"] == "open" for row in rows):
                    self.all_open = asked
            time.sleep(0.7)

    def look_at_silence(self, now):
        """A daemon that has given no answer for long, although nobody keeps it from that."""
        daemon = self.daemon
        since = max(daemon.started_at, self.answered, self.faulty_until, self.denied_until, self.last_upset_ns() / NS_PER_S)
        if self.denials or not daemon.alive() or now < since + SILENT_S * harness.SLOWNESS or daemon.is_silent:
            return
        daemon.is_silent = True
        self.findings.append(f"the daemon has given no answer for {now - since:.0f} s: {daemon.describe()}")
        print("  unexpected:", self.findings[-1], flush=True)

    # ---- The daemon ----------------------------------------------------------------------------------------

    def write_config(self, loaders=2, queue_depth=64, linger=1, extra=False, io=None):
        settings = {**self.instance.settings, "loaders": loaders, "queue_depth": queue_depth, "linger": linger}
        lines = ["[feedd]", *(f"{key} = {value}" for key, value in settings.items()), ""]
        text = "\n".join(lines)
        for name, dataset in self.datasets.items():
            text += dataset.section(**({"io": io[name]} if io and name in io else {}))
        if extra:
            text += self.datasets["vectors"].section().replace("[dataset vectors]", "[dataset extra]")
        new = self.instance.config.with_suffix(".new")
        new.write_text(text)
        new.rename(self.instance.config)

    # ---- Consumers -----------------------------------------------------------------------------------------

    def tend(self, now):
        """Reaps what has ended, and lets lanes continue."""
        # It looks at all files as it starts.
        faulty = self.faulty_from - STARTING_S < self.daemon.started_at < self.faulty_until
        if self.daemon.watch(now, self.restart_delay, not self.file_is_cut, faulty):
            self.restarted_ns = time.monotonic_ns()
        self.look_at_silence(now)
        self.background = [process for process in self.background if process.poll() is None]
        for lane in self.everyone():
            if lane.process is not None and lane.process.poll() is not None:
                lane.disturbed_ns = time.monotonic_ns()
                self._ended(lane, lane.process.returncode, now)
                lane.process = None
        for lane in self.lanes:
            if lane.process is None and not lane.stopping and now >= lane.starts_at:
                lane.start()

    def _ended(self, lane, status, now):
        lane.failures = 0 if lane.running_ns() else lane.failures + 1
        lane.starts_at = now
        if status in (0, -signal.SIGKILL):
            return
        lane.starts_at = now + min(1.0, 0.02 * 2**lane.failures)
        error, text = lane.ledger.error, lane.ledger.text
        reason = report.why(self, lane, status, error, text)
        lane.fresh = lane.fresh or (error == report.ESTALE and bool(lane.shape.group))
        if reason:
            self.errors[reason] = self.errors.get(reason, 0) + 1
        else:
            self.findings.append(f"{lane.name} ended with status {status}, error {error}: {text}")
            took = now - lane.started_ns / NS_PER_S
            print(f"  {time.strftime('%T')} unexpected, {took:.1f} s after its start: {self.findings[-1]}", flush=True)

    # ---- Rounds --------------------------------------------------------------------------------------------

    def run_until(self, end):
        """Does what is due until then."""
        while (now := time.monotonic()) < end:
            self.tend(now)
            while self.actions and self.actions[0][0] <= time.monotonic():
                heapq.heappop(self.actions)[2]()
            time.sleep(TICK_S)

    def round(self, number, seconds):
        self.is_calm = False
        for lane in self.everyone():
            lane.stopping = False
        for at, name, seed in plan.make(self.arguments.seed, number, seconds, self.arguments.rate):
            self.later(at, lambda name=name, seed=seed: self._happen(name, seed))
        self.run_until(time.monotonic() + seconds)
        self.calm()

    def _happen(self, name, seed, tries=8):
        if self.is_calm:
            return  # it is late, and nobody would end what it begins
        hit = getattr(events, name)(self, random.Random(seed))
        if not hit and name in plan.PATIENT and tries:
            self.later(0.3, lambda: self._happen(name, seed, tries - 1))
            return
        counter = self.counts if hit else self.missed
        counter[name] = counter.get(name, 0) + 1

    def calm(self):
        """Ends what was begun, lets all consumers leave, and looks at what is left."""
        self.is_calm = True
        for lane in self.everyone():
            lane.stop()
        self.run_until(time.monotonic() + 4)  # pauses and denials end
        self.actions.clear()
        deadline = time.monotonic() + 60
        while any(lane.alive() for lane in self.everyone()) and time.monotonic() < deadline:
            self.run_until(time.monotonic() + 0.1)
        for lane in self.everyone():
            if lane.alive():
                self.findings.append(f"{lane.name} does not end")
                lane.signal(signal.SIGKILL)
        self.write_config()
        self.daemon.kill(signal.SIGHUP)
        self.run_until(time.monotonic() + 2)
        self.check_leaks()

    def check_leaks(self):
        self.daemon.settle(30)
        self.findings += [f"left behind: {pid} {command}" for pid, command in self.daemon.left_behind().items()]
        self.findings += [f"a child without a feed: {name}" for pid, name in self.instance.children().items()]
        kinds = ("descriptors", "shared")
        deadline = time.monotonic() + GIVEN_BACK_S
        while (found := self.daemon.holdings()) and time.monotonic() < deadline:
            if all(found[kind] == self.baseline[kind] for kind in kinds):
                break
            time.sleep(0.05)
        for kind in kinds:
            if found[kind] != self.baseline[kind]:
                self.findings.append(f"{kind} before: {self.baseline[kind]}, after: {found[kind]}")
        grown = found["anonymous_kib"] - self.baseline["anonymous_kib"]
        self.grown_kib = max(getattr(self, "grown_kib", 0), grown)
        if grown > 16 << 10:
            self.findings.append(f"the daemon has {grown} KiB more private memory than at first")

    def run(self):
        self.write_config()
        self.daemon.start()
        harness.eventually(self.instance._listens, 15, "feedd takes connections")
        self.instance.status()
        time.sleep(0.3)
        self.baseline = self.daemon.holdings()
        threading.Thread(target=self.look_at_feeds, daemon=True).start()
        left, number = self.arguments.seconds, 0
        while left > 0:
            seconds = left if left < 1.5 * ROUND_S else ROUND_S
            self.round(number, seconds)
            left, number = left - seconds, number + 1
            if left > 0:
                report.progress(self, self.arguments.seconds - left)
        self.running = False
        self.stop()

    def stop(self):
        try:
            self.instance.stop()
        except AssertionError as error:
            self.findings.append(str(error))
        self.findings += self.daemon.unexpected
        # Whatever ends by itself, or by a signal that nobody here sends, says so in the log.
        log = self.instance.read_log().splitlines()
        self.condemned = photos.condemned(log)
        for line in photos.without_crashes(log):
            if re.search(r"killed by signal (?!9 )|sanitizer|assert|transition", line, re.IGNORECASE):
                self.findings.append(line)

    def end(self):
        for lane in self.everyone():
            if lane.alive():
                lane.process.kill()
        for process in self.background:
            process.kill()
        self.instance.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.storage.end()
        self.ended_by_kernel = 0 if self.group.refusal else self.group.ended()
        self.group.end()


def check_order(consumer):
    """The consumer's idea of the order is that of the reference."""
    from order_reference import Order

    for samples, seed, epoch in ((1, 0, 0), (300, 7, 1), (1025, 2**63, 5)):
        command = [consumer, "--order", str(samples), str(seed), str(epoch)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        order = Order(samples, seed, epoch)
        assert [int(word) for word in said] == [order.sample(position) for position in range(samples)]


def check_windows(storm):
    """The same of shuffle windows."""
    from window_reference import Windows

    for name, dataset in storm.datasets.items():
        if not dataset.groups:
            continue
        window, count, *sizes = (word for (word,) in struct.iter_unpack("<Q", dataset.groups.read_bytes()))
        assert len(sizes) == count > window, f"{name} has {count} groups"
        order = Windows([*zip(itertools.accumulate(sizes, initial=0), sizes)], window, 2**63, 5)
        command = [storm.consumer, "--windows", dataset.groups, str(2**63), "5"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert [int(word) for word in said] == [order.sample(position) for position in range(dataset.samples)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the plan; which process an event meets is a matter of time")
    parser.add_argument("--rate", type=float, default=1, help="events, as a multiple of plan.py")
    parser.add_argument("--gpu", default="host:0", help="the device of consumers on a GPU, such as cuda:0; none: without")
    parser.add_argument("--slow-driver", action="store_true", help="of the simulated GPU: some calls take 2.5 s")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    log = harness.BUILD / "storm.log"
    parser.add_argument("--keep-log", type=pathlib.Path, default=log, help="copy the daemon's log there")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if soft < 4096 else soft, hard))
    storm = Storm(arguments)
    check_order(storm.consumer)
    check_windows(storm)
    try:
        storm.run()
    finally:
        with contextlib.suppress(OSError):
            arguments.keep_log.write_text(storm.instance.read_log())
        storm.end()
    sys.exit(report.conclude(storm))


if __name__ == "__main__":
    main()
