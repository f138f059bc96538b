#!/usr/bin/env python3
"""Runs the fuzz targets that `make fuzz` has built, each for some seconds, and prints a line per target.

Exit status: 0 if there are no findings, else 1. A finding is an input, kept in BUILD/findings; `BUILD/TARGET FILE` runs it
again. The inputs that reach new code are kept in BUILD/corpus/TARGET: the next run continues from there. tests/README.md
explains more.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_MB = 2048
INPUT_S = 10  # most seconds for one input
REPORT_LINES = 60


def run_target(name, options):
    """Returns the line to print, and the report of a finding or ''."""
    corpus, findings = options.build / "corpus" / name, options.build / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    folders = [corpus, HERE / "corpus" / name]
    command = [
        options.build / name, *(folder for folder in folders if folder.is_dir()),
        f"-seed={options.seed}", f"-max_total_time={options.seconds}", f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1",
    ]  # fmt: skip
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1"}
    process = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, check=False)  # fmt: skip
    log = process.stderr.decode(errors="replace")
    return describe(name, process.returncode, log), "" if process.returncode == 0 else explain(options, name, log)


def last(pattern, text, default="0"):
    found = re.findall(pattern, text)
    return int((found or [default])[-1])


def describe(name, status, log):
    executions = last(r"stat::number_of_executed_units: (\d+)", log)
    per_s = last(r"stat::average_exec_per_sec: +(\d+)", log)
    edges, kept = last(r" cov: (\d+)", log), last(r" corp: (\d+)", log)
    outcome = "no findings" if status == 0 else "1 FINDING"
    return f"{name:9} {executions:>12,} executions {per_s:>9,}/s  {edges:>6,} edges  {kept:>5,} inputs kept  {outcome}"


def explain(options, name, log):
    files = re.findall(r"Test unit written to (\S+)", log)
    lines = log.splitlines()
    begin = next((i for i, line in enumerate(lines) if re.search(r"ERROR: |runtime error|does not hold|feedd: bug", line)), 0)
    report = "\n".join(lines[begin : begin + REPORT_LINES])
    again = f"to see it again: {from_here(options.build / name)} {from_here(files[-1])}" if files else "no input was kept"
    return f"\n---- {name} ----\n{report}\n{again}"


def from_here(path):
    return os.path.join(".", os.path.relpath(path))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/fuzz"), help="where the targets are")
    parser.add_argument("--seconds", type=int, default=20, help="per target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets that run at once")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="targets by name")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.build = options.build.resolve()
    names = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.c"))
    names = [name for name in names if fnmatch.fnmatch(name, options.only)]
    if not names:
        sys.exit(f"no target matches {options.only}")
    reports = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for line, report in pool.map(lambda name: run_target(name, options), names):
            print(line, flush=True)
            reports += [report] if report else []
    print("\n".join(reports), end="\n" if reports else "")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
