#!/usr/bin/env python3
"""Measures feedd against bare limits: prints a table and writes one JSON object per figure.

Each figure and its limit are measured in turn, several times, and the medians are compared, because a
machine is seldom as quiet as one would like. README.md says what each figure means.
"""

import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True

import blocks
import figures
import images
import indices
import orders
import ragged
import sizing
import slow
import tokens
from figure_mix import mix
from figures import Bench
from instance import BenchError
from measure import Records

FIGURES = {**figures.FIGURES, **blocks.FIGURES, **images.FIGURES,
           "host.mix": mix, **indices.FIGURES, **orders.FIGURES, **ragged.FIGURES, **sizing.FIGURES, **slow.FIGURES,
           **tokens.FIGURES}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="where feedd and the programs are (default: build)")
    parser.add_argument("--data", help="folder for 14 GiB of data (default: $BENCH_DIR, else BUILD/bench/data)")
    parser.add_argument("--output", help="the records (default: BUILD/bench.jsonl)")
    parser.add_argument("--only", action="append", choices=FIGURES, help="only this figure; may be repeated")
    parser.add_argument("--quick", action="store_true", help="smaller, shorter, fewer runs: an impression, not a result")
    parser.add_argument("--rounds", type=int, help="of each figure and its limit (default: 5, with --quick 2)")
    return parser.parse_args()


def main():
    arguments = parse()
    folder = arguments.data or os.environ.get("BENCH_DIR") or os.path.join(arguments.build, "bench", "data")
    records = Records(arguments.output or os.path.join(arguments.build, "bench.jsonl"))
    bench = Bench(arguments.build, folder, records, arguments.quick)
    bench.rounds = arguments.rounds or bench.rounds
    records.heading()
    failed = 0
    for name in arguments.only or FIGURES:
        try:
            FIGURES[name](bench)
        except BenchError as error:
            failed += 1
            print(f"{name}: not measured: {error}", flush=True)
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            failed += 1
            print(f"{name}: not measured: {error!r}", flush=True)
    print(f"{records.count} figures in {records.path}; goals missed: {records.missed}; not measured: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
