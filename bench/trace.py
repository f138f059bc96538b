#!/usr/bin/env python3
"""What it costs to record a timeline: the rate of a consumer that takes small batches as fast as it can, with and without
`feedctl trace`, in turns.

    bench/trace.py --build build [--rounds 10] [--seconds 2]

Each round has both in one daemon and one consumer, in an order that changes, so that drift does not favour either. On a
machine that others use, look at the last line but one instead: how many events there are, times what bench_trace says that
one costs.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_seconds(pids):
    """Of these processes, so far."""
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def look(feedd, reader):
    """Time, samples, processor time of the daemon's processes and the consumer."""
    samples = feedd.statistics()["feeds"][0]["feed_counters"]["samples"]
    return time.monotonic(), samples, cpu_seconds([*feedd.processes(), reader.pid])


def measure_one(harness, feedd, reader, seconds, wanted):
    """Samples per second, their processor time in ns per sample, and the share of a processor that feedctl took."""
    process = None
    if wanted:
        with (feedd.directory / "trace.json").open("wb") as file:
            process = subprocess.Popen([harness.PROGRAMS / "feedctl", "trace", "600"], stdout=file, stderr=file,
                                       env=feedd.environment(), preexec_fn=harness.die_with_parent)  # fmt: skip
        time.sleep(0.3)
    before, own = look(feedd, reader), cpu_seconds([process.pid]) if process else 0
    time.sleep(seconds)
    after, own = look(feedd, reader), (cpu_seconds([process.pid]) if process else 0) - own
    if process:
        process.send_signal(signal.SIGTERM)
        process.wait()
    took, samples, cpu = (last - first for first, last in zip(before, after))
    return samples / took, cpu / samples * 1e9, own / took


def measure(harness, feedd, reader, options):
    rates, costs, own = [], [], []
    for number in range(options.rounds):
        seen = {}
        for wanted in (False, True) if number % 2 else (True, False):
            seen[wanted] = measure_one(harness, feedd, reader, options.seconds, wanted)
        rates.append(seen[True][0] / seen[False][0])
        costs.append(seen[True][1] / seen[False][1])
        own.append(seen[True][2])
        print(f"round {number}: without {seen[False][0]:,.0f} samples/s at {seen[False][1]:.0f} ns of processor time each, "
              f"with {seen[True][0]:,.0f} at {seen[True][1]:.0f}", flush=True)  # fmt: skip
    return rates, costs, own


def event_share(harness, feedd, reader, seconds):
    """The share of the processes' processor time that goes into events, from how many there are and what one costs."""
    cost = json.loads(subprocess.run([harness.PROGRAMS / "bench/bench_trace"], capture_output=True, check=True).stdout)["on_ns"]
    before = look(feedd, reader)
    done = feedd.ctl("trace", str(seconds), limit_s=60)
    after = look(feedd, reader)
    trace = json.loads(done.stdout)
    events = sum(event["ph"] in "Xb" for event in trace["traceEvents"]) + trace["lostEvents"]
    _, samples, cpu = (last - first for first, last in zip(before, after))
    print(f"{events:,} events, {trace['lostEvents']:,} of them lost, for {samples:,} samples; one costs {cost:.1f} ns: "
          f"{events * cost / (cpu * 1e9):.5f} of the processor time of the daemon's processes and the consumer")  # fmt: skip


def summary(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    os.environ["FEEDD_TEST_BUILD"] = str(options.build.resolve())
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import consumer
    import data
    import harness

    with harness.Instance(loaders=2, ring_memory="512M") as feedd:
        data.add_records(feedd, samples=60000, size=784)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", options.batch, epochs=0, shuffle=True, quiet=True, samples=False) as reader:
            harness.eventually(lambda: feedd.statistics()["feeds"], 20, "it reads")
            time.sleep(1)
            rates, costs, own = measure(harness, feedd, reader, options)
            event_share(harness, feedd, reader, options.seconds)
            reader.kill()
    print(f"with a timeline, as a share of without, median (least to most): rate {summary(rates)}, processor time per sample "
          f"{summary(costs)}; feedctl itself takes {summary(own)} of a processor")  # fmt: skip


if __name__ == "__main__":
    main()
