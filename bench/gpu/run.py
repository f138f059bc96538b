#!/usr/bin/env python3
"""Compares what feedd delivers to a GPU with what the bus carries; prints a table, writes a JSON object per figure.

Figures and limits are of one run on one machine. ../README.md says what each figure means.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from setting import BenchError, GpuBench, gpu_name # first: it finds the modules of the folder above
from cached import image_cached
from costs import attach_ms, memory, next_us
from delivered import copy_limit, delivered
from images_on_gpu import image_gpu
from measure import Records
from mps import mps
from packed import ragged, tokens
from sharing import sharing, two
from training import busy, overlap
from verify import verify

FIGURES = {
    "gpu.copy_limit": copy_limit,
    "gpu.delivered": delivered,
    "gpu.cpu": delivered, # of the same runs
    "gpu.busy": busy,
    "gpu.overlap": overlap,
    "gpu.sharing": sharing,
    "gpu.next_us": next_us,
    "gpu.attach_ms": attach_ms,
    "gpu.memory": memory,
    "gpu.two": two,
    "gpu.tokens": tokens,
    "gpu.ragged": ragged,
    "image.gpu": image_gpu,
    "gpu.image_cached": image_cached,
}


def setting(text):
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("expected KEY=VALUE, as in feedd.conf")
    return key.strip(), value.strip()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="where feedd and the programs are (default: build)")
    parser.add_argument("--data", help="folder for 1 GiB of data (default: $BENCH_DIR, else BUILD/bench/data)")
    parser.add_argument("--output", help="the records (default: BUILD/bench-gpu.jsonl)")
    parser.add_argument("--only", action="append", choices=FIGURES, help="only this figure; may be repeated")
    parser.add_argument("--device", default="cuda:0", help="the GPU; host:0 is a simulated one, to try the programs")
    parser.add_argument("--quick", action="store_true", help="shorter, fewer runs: an impression, not a result")
    parser.add_argument("--verify", action="store_true", help="compare every byte with the files instead of measuring")
    parser.add_argument("--setting", action="append", type=setting, default=[], metavar="KEY=VALUE",
                        help="a setting of [feedd] for every instance, such as device_pool=256M; may be repeated")
    parser.add_argument("--mps", action="store_true", help="run under CUDA's MPS, which is started first and ended afterwards")
    parser.add_argument("--minutes", type=float, default=9, help="start no figure after this time (default: 9)")
    return parser.parse_args()


def measure_all(bench, names, end):
    """Runs the figures; returns how many could not be measured."""
    failed = 0
    for figure in dict.fromkeys(FIGURES[name] for name in names):
        name = next(key for key, value in FIGURES.items() if value is figure)
        if time.monotonic() > end:
            failed += 1
            print(f"{name}: not measured: out of time (--minutes)", flush=True)
            continue
        began = time.monotonic()
        try:
            figure(bench)
            print(f"  ({name} took {time.monotonic() - began:.0f} s)", flush=True)
        except BenchError as error:
            failed += 1
            print(f"{name}: not measured, or only in part: {error}", flush=True)
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            failed += 1
            print(f"{name}: not measured, or only in part: {error!r}", flush=True)
    return failed


def verify_bytes(bench):
    verify(bench)
    return 1 if bench.complaints else 0


def measure_and_report(bench, names, end):
    bench.data()
    bench.records.heading()
    failed = measure_all(bench, names, end)
    print(f"{bench.records.count} figures in {bench.records.path}; goals missed: {bench.records.missed}; "
          f"not measured: {failed}; feedd complained: {bench.complaints}")
    return 1 if failed or bench.complaints else 0


def main():
    arguments = parse()
    end = time.monotonic() + 60 * arguments.minutes
    folder = arguments.data or os.environ.get("BENCH_DIR") or os.path.join(arguments.build, "bench", "data")
    records = Records(arguments.output or os.path.join(arguments.build, "bench-gpu.jsonl"))
    bench = GpuBench(arguments.build, folder, records, arguments.device, arguments.quick, dict(arguments.setting))
    if not os.path.exists(bench.program("gpu_consumer")):
        print(f"{bench.program('gpu_consumer')} is missing: make bench-gpu-programs builds it where nvcc is installed")
        return 1
    records.common["gpu"] = "simulated" if bench.simulated else gpu_name()
    print(records.common["gpu"])
    records.common["mps"] = arguments.mps
    try:
        with mps() if arguments.mps else contextlib.nullcontext():
            return verify_bytes(bench) if arguments.verify else measure_and_report(bench, arguments.only or FIGURES, end)
    except BenchError as error:
        print(f"not {'verified' if arguments.verify else 'measured'}: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
