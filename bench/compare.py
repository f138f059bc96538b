#!/usr/bin/env python3
"""Compares delivery by two builds of feedd: did a change make it slower?

Two runs of run.py, one after the other, differ by what else the machine did meanwhile. Here both daemons stay up,
and every round measures the one, the other and the limit in rotating order. `after/before` is the median of the
ratios within the rounds, with the quarters below and above. The cost of each role in CPU time per sample and in
context switches per batch says where a difference comes from.
"""

import argparse
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True

from figures import Bench, records_dataset
from instance import TICKS
from measure import finish, machine, start

BATCH = 256
WARM_UP = 0.3
SETTLE = 0.2
LIMITS = {"uring": "uring", "mapped": "copy"}
ROLES = ("supervisor", "loaders", "consumer")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="build folder with feedd and the benchmark programs")
    parser.add_argument("after", help="the other one")
    parser.add_argument("--data", default=os.environ.get("BENCH_DIR"), help="folder for 2 GiB of data (default: $BENCH_DIR)")
    parser.add_argument("--rounds", type=int, default=20, help="default: 20")
    parser.add_argument("--bytes", type=int, action="append", help="sample size; may be repeated (default: 4096, 784, 131072)")
    return parser.parse_args()


def switches(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return sum(int(line.split()[1]) for line in file if "_ctxt_switches" in line)


def cost(pid):
    """CPU seconds and context switches of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, switches(pid)


def measure(bench, instance, options):
    """One consumer: its rate, and for each role (CPU ns per sample, context switches per batch)."""
    consumer = start(bench.consumer_command(instance, "data", *options, "--seconds", bench.seconds, "--warm-up", WARM_UP))
    time.sleep(WARM_UP + SETTLE)
    supervisor, *loaders = instance.pids()
    roles = ([supervisor], loaders, [consumer.pid])
    began, before = time.monotonic(), [[cost(pid) for pid in pids] for pids in roles]
    time.sleep(bench.seconds - 2 * SETTLE)
    after = [[cost(pid) for pid in pids] for pids in roles]
    elapsed = time.monotonic() - began
    rate = finish(consumer)["samples_per_second"]
    samples = rate * elapsed
    costs = []
    for earlier, later in zip(before, after):
        cpu, switched = (sum(b[k] for b in later) - sum(a[k] for a in earlier) for k in (0, 1))
        costs.append((cpu / samples * 1e9, switched / samples * BATCH))
    return rate, costs


def compare(benches, record, io, options, rounds):
    path = benches[0].cached(record)
    dataset = {"data": records_dataset(path, record, io=io)}
    results, limits = ([], []), []
    with benches[0].instance(dataset) as before, benches[1].instance(dataset) as after:
        ring = benches[0].consume(before, "data", seconds=0.2)["ring_bytes"]
        jobs = [lambda: results[0].append(measure(benches[0], before, options)),
                lambda: results[1].append(measure(benches[1], after, options)),
                lambda: limits.append(benches[0].limit(LIMITS[io], path, record, "--ring", ring)["samples_per_second"])]
        for number in range(rounds):
            for k in range(3):
                jobs[(number + k) % 3]()
    return results, limits


def report(title, results, limits):
    rates = [[rate for rate, _ in result] for result in results]
    low, middle, high = statistics.quantiles((b / a for a, b in zip(*rates)), n=4)
    limit = statistics.median(limits)
    shares = [statistics.median(rate) / limit for rate in rates]
    print(f"{title:<24} after/before {middle:.3f} ({low:.3f} to {high:.3f}); of the limit {shares[0]:.2f}, {shares[1]:.2f}")
    for role, name in enumerate(ROLES):
        texts = []
        for result in results:
            cpu, switched = (statistics.median(costs[role][k] for _, costs in result) for k in (0, 1))
            texts.append(f"{cpu:6.0f} ns/sample {switched:6.3f} switches/batch")
        print(f"    {name:<12} before {texts[0]}   after {texts[1]}", flush=True)


def main():
    arguments = parse()
    folder = arguments.data or os.path.join(arguments.after, "bench", "data")
    benches = [Bench(build, folder, None, False) for build in (arguments.before, arguments.after)]
    print(machine())
    for record in arguments.bytes or (4096, 784, 131072):
        for io in LIMITS:
            for options in ((), ("--touch",)):
                results, limits = compare(benches, record, io, options, arguments.rounds)
                report(f"{io} {record} {' '.join(options)}", results, limits)


if __name__ == "__main__":
    main()
