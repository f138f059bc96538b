#!/usr/bin/env python3
"""Runs a steady load while consumers come and go, and looks whether memory, descriptors or latencies of the daemon drift.
../README.md, "Storms"."""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import files  # noqa: E402
import harness  # noqa: E402
from lanes import Lane, Shape  # noqa: E402

MIB = 1 << 20
# What may differ between the first and the last third of the samples, which are taken after WARM_S: a share of the
# first third, and an amount that is too little to be a drift. Latencies have a generous share, since the machine does
# other things too.
TOLERANCES = {
    "anonymous_bytes": (0.02, MIB),
    "resident_bytes": (0.05, 4 * MIB),
    "ring_bytes": (0.05, MIB),
    "descriptors": (0.05, 8),
    "children_bytes": (0.10, 8 * MIB),
    "next_p50_ms": (0.5, 1.0),  # feed_next() of all lanes
    "next_p99_ms": (1.0, 20.0),
    "asked_p50_ms": (0.5, 1.0),  # of the lane that has one lease: from the release of a batch to the next one
    "asked_p99_ms": (1.0, 20.0),
    "attach_p50_ms": (0.5, 3.0),
    "attach_p99_ms": (1.0, 50.0),
}
WARM_S = 10.0  # of a long run; a third of a short one
EVERY_S = 2.0
SHARED = Shape("records", 32, "steady", pause_us=5000)
PRIVATE = Shape("tokens", 16, pause_us=5000, hold=0, prefetch=1)  # has to wait for each batch
GPU = Shape("vectors", 40, "steady-gpu", device="host:0", pause_us=8000)


class Soak:
    """One daemon, lanes that stay, and programs that attach and leave as fast as they can."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.instance = harness.Instance(ring="512K", linger=60, ring_memory="512M", max_lag=30, socket_mode="0666")
        self.folder = self.instance.directory
        self.consumer = harness.PROGRAMS / "tests/storm_consumer"
        self.datasets = files.make_all(self.folder, 1)
        for dataset in self.datasets.values():
            path = {key: value for key, value in dataset.options.items() if key.startswith(("field_", "transform_"))}
            self.instance.add_dataset(dataset.name, **{**dataset.options, **path})
        shapes = {"shared-0": SHARED, "shared-1": SHARED, "private": PRIVATE, "gpu": GPU}
        self.lanes = [Lane(self, name, shape, 7) for name, shape in shapes.items()]
        self.churners, self.samples, self.findings = [], [], []

    def start(self):
        self.instance.start()
        for lane in self.lanes:
            lane.start(long_wait_us=1)
        harness.eventually(lambda: all(lane.running_ns() for lane in self.lanes), 20, "every lane runs")
        for number in range(self.arguments.churners):
            ledger = self.folder / f"churn-{number}.json"
            command = [harness.PROGRAMS / "tests/soak_churn", self.instance.socket, SHARED.dataset, str(SHARED.batch_size),
                       SHARED.group, "7", str(self.arguments.pause_us), ledger]  # fmt: skip
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=harness.die_with_parent)
            self.churners.append((process, ledger))

    # ---- Samples -------------------------------------------------------------------------------------------

    def take_sample(self, begun):
        pid = self.instance.process.pid
        memory = memory_of(pid)
        children = [memory_of(child) for child in self.instance.children()]
        attaches = [read_churn(ledger) for _, ledger in self.churners]
        status = self.instance.status()
        waits = sorted(wait for lane in self.lanes for wait in lane.ledger.waits_since(self.last_ns))
        asked = sorted(self.lanes[2].ledger.waits_since(self.last_ns))
        times = sorted(time for churn in attaches for time in churn["times_ms"])
        self.samples.append({
            "at_s": time.monotonic() - begun, "anonymous_bytes": memory["RssAnon"], "resident_bytes": memory["VmRSS"],
            "ring_bytes": status["ring_bytes"], "descriptors": self.instance.descriptors(),
            "children_bytes": sum(child.get("RssAnon", 0) for child in children),
            "next_p50_ms": quantile(waits, 0.5), "next_p99_ms": quantile(waits, 0.99),
            "asked_p50_ms": quantile(asked, 0.5), "asked_p99_ms": quantile(asked, 0.99),
            "attach_p50_ms": quantile(times, 0.5), "attach_p99_ms": quantile(times, 0.99),
            "longest_turn_ms": status["longest_turn_ms"], "attachments": sum(churn["count"] for churn in attaches),
            "batches": sum(lane.ledger.batches for lane in self.lanes),
        })  # fmt: skip
        self.last_ns = time.monotonic_ns()

    def check_alive(self):
        for lane in self.lanes:
            if lane.process.poll() is not None:
                self.findings.append(f"{lane.name} has ended: {lane.ledger.text}")
        for process, ledger in self.churners:
            if process.poll() is not None:
                self.findings.append(f"a churning program has ended: {ledger.read_text()}")
        return not self.findings

    def run(self):
        seconds = self.arguments.minutes * 60
        self.start()
        self.last_ns = time.monotonic_ns()
        begun = time.monotonic()
        every = max(EVERY_S, seconds / 600)
        while time.monotonic() - begun < seconds and self.check_alive():
            time.sleep(min(every, max(seconds / 20, 0.3)))
            self.take_sample(begun)
        self.end()

    def end(self):
        for process, _ in self.churners:
            process.terminate()
        for lane in self.lanes:
            lane.stop()
        for process in [*(process for process, _ in self.churners), *(lane.process for lane in self.lanes)]:
            process.wait(30)
        for lane in self.lanes:
            ledger = lane.ledger
            if ledger.wrong or ledger.lost or ledger.doubled or not ledger.batches:
                self.findings.append(f"{lane.name}: {ledger.text or 'no batches'}")
        try:
            self.instance.stop()
        except AssertionError as error:
            self.findings.append(str(error))

    # ---- Drift ---------------------------------------------------------------------------------------------

    def thirds(self):
        """The samples of the first and of the last third, without the time that it takes to get warm."""
        seconds = self.arguments.minutes * 60
        warm = [sample for sample in self.samples if sample["at_s"] > min(WARM_S, seconds / 3)]
        third = max(len(warm) // 3, 1)
        return warm[:third], warm[-third:]

    def conclude(self):
        first, last = self.thirds()
        rows, figures = [], {}
        for name, (share, amount) in TOLERANCES.items():
            before, after = (statistics.median(sample[name] for sample in third) for third in (first, last))
            drifts = after - before > max(before * share, amount)
            figures[name] = {"first": before, "last": after, "allowed": max(before * share, amount), "drifts": drifts}
            unit, scale = ("KiB", 1024) if name.endswith("_bytes") else ("", 1)
            label = name.removesuffix("_bytes")
            rows.append(
                f"  {label:14} first third {before / scale:10.2f} {unit:3} last third {after / scale:10.2f} {unit:3}"
                f" allowed +{max(before * share, amount) / scale:.2f}{'   DRIFTS' if drifts else ''}"
            )
            if drifts and not (self.arguments.ignore_latencies and name.endswith("_ms")):
                self.findings.append(f"{name} drifts from {before:g} to {after:g}")
        final, seconds = self.samples[-1], self.samples[-1]["at_s"]
        rate = final["attachments"] / seconds
        print(f"soak: {seconds:.0f} s, {final['attachments']} attachments ({rate:.1f} per second), {final['batches']} batches")
        print("\n".join(rows))
        print(f"  longest turn of the event loop: {final['longest_turn_ms']:.1f} ms")
        for finding in self.findings:
            print("FINDING", finding)
        print("soak:", "failed" if self.findings else "nothing drifts")
        if self.arguments.json:
            told = {"seconds": seconds, "drift": figures, "samples": self.samples, "findings": self.findings}
            self.arguments.json.write_text(json.dumps(told, indent=1) + "\n")
        return 1 if self.findings else 0


def memory_of(pid):
    """{name: bytes} from /proc/PID/status; nothing of a process that has gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest}


def read_churn(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {"count": 0, "times_ms": []}


def quantile(times, share):
    return times[min(int(share * len(times)), len(times) - 1)] if times else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--churners", type=int, default=2, help="programs that attach and leave")
    parser.add_argument("--pause-us", type=int, default=20000, help="of each of them, between two attachments")
    parser.add_argument("--ignore-latencies", action="store_true", help="show them alone: for machines that do other things")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    arguments = parser.parse_args()
    soak = Soak(arguments)
    try:
        soak.run()
    finally:
        soak.instance.kill()
        shutil.rmtree(soak.folder, ignore_errors=True)
    sys.exit(soak.conclude())


if __name__ == "__main__":
    main()
