#!/usr/bin/env python3
"""Twelve experiments with torch's DataLoader and feedd side by side: prints tables, writes a JSON file for each.

Each experiment runs in a separate process; one that fails is reported, and the others continue. ../README.md says what they
measure; draw.py draws them.
"""

import argparse
import importlib
import os
import shlex
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from harness import BenchError, Setting, add_options, data_folder
from report import Report

# Number, name of its module, and how long it may take; first come those that everything else builds on.
EXPERIMENTS = {
    1: ("transfer", 120),
    2: ("product", 120),
    3: ("preprocessing", 120),
    4: ("first_batch", 280),
    5: ("streams", 90),
    6: ("memory", 100),
    7: ("jobs", 150),
    8: ("training", 240),
    9: ("peers", 280),
    10: ("slow_samples", 120),
    11: ("image_delivery", 300),
    12: ("image_training", 580),
}


def numbers(text):
    chosen = []
    for part in text.split(","):
        found = [number for number, (name, _) in EXPERIMENTS.items() if part in (str(number), name)]
        if not found:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of 1 to 12 or "
                                             + ", ".join(name for name, _ in EXPERIMENTS.values()))
        chosen += found
    return chosen


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", type=numbers, default=list(EXPERIMENTS), metavar="1,4",
                        help="only these experiments, by number or name")
    parser.add_argument("--minutes", type=float, default=14, help="start no experiment after this time (default: 14)")
    parser.add_argument("--here", type=int, choices=EXPERIMENTS, help=argparse.SUPPRESS)  # this one, in this process
    return parser.parse_args()


def measure_here(arguments, number):
    module = importlib.import_module(EXPERIMENTS[number][0])
    began = time.monotonic()
    try:
        setting = Setting(arguments)
        report = Report(setting, EXPERIMENTS[number][0], module.QUESTION)
        module.measure(setting, report)
        report.write(time.monotonic() - began)
    except BenchError as error:
        print(f"  not measured, or only in part: {error}", flush=True)
        return 1
    return 0


def measure_apart(number, data):
    """Runs one in a separate process and process group. Returns its status."""
    name, seconds = EXPERIMENTS[number]
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--data", data, "--here", str(number)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"{name}: measured only in part: it took more than {seconds} s", flush=True)
        return 1
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # workers of one that failed
        except ProcessLookupError:
            pass
        process.wait()


def main():
    arguments = parse()
    if arguments.here:
        return measure_here(arguments, arguments.here)
    os.environ["BENCH_COMMAND"] = shlex.join([os.path.relpath(sys.argv[0]), *sys.argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # after cleaning up
    with data_folder(arguments.data) as data:
        failed = measure_all(arguments, data)
    print(f"\n{len(arguments.only) - len(failed)} experiments measured; not measured: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def measure_all(arguments, data):
    """Returns the names of those that could not be measured."""
    end = time.monotonic() + 60 * arguments.minutes
    failed = []
    for number in dict.fromkeys(arguments.only):
        name = EXPERIMENTS[number][0]
        if time.monotonic() > end:
            print(f"{name}: not measured: out of time (--minutes)", flush=True)
            failed.append(name)
            continue
        status = measure_apart(number, data)
        if status != 0:
            print(f"{name}: not measured, or only in part: status {status}", flush=True)
            failed.append(name)
    return failed


if __name__ == "__main__":
    sys.exit(main())
