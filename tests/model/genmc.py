#!/usr/bin/env python3
"""Runs GenMC on tests/model/genmc/ring.c: nothing goes wrong under RC11, and with weaker orders something does."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Definitions, and whether GenMC must find an error. Executions grow fast: --slow has those that take long.
RUNS = [("STEPS=1 CHUNKS=1", False), ("STEPS=1 CHUNKS=1 KILLED", False), ("STEPS=1 CHUNKS=2 WEAK_SC", True),
        ("STEPS=1 CHUNKS=1 WEAK_ACQUIRE", True), ("STEPS=1 CHUNKS=1 WEAK_RELEASE", True)]
SLOW = [("STEPS=1 CHUNKS=2", False), ("STEPS=2 CHUNKS=1", False)]


def run(arguments, definitions):
    """What GenMC prints. The code goes through LLVM's SROA first, as GenMC does not know how to copy whole structures."""
    include = pathlib.Path(arguments.genmc).resolve().parent / "include"
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"-D{definition}" for definition in definitions.split()]
        subprocess.run([arguments.clang, "-w", "-S", "-emit-llvm", "-O0", "-g", "-Xclang", "-disable-O0-optnone",
                        "-D__CONFIG_GENMC_INODE_DATA_SIZE=64", "-isystem", include, "-I", HERE.parents[1], "-std=gnu11",
                        *flags, HERE / "genmc/ring.c", "-o", f"{folder}/ring.ll"], check=True)
        subprocess.run([arguments.opt, "-S", "-passes=sroa", f"{folder}/ring.ll", "-o", f"{folder}/plain.ll"], check=True)
        done = subprocess.run([arguments.genmc, "--rc11", "--disable-estimation", "--input-from-bitcode-file",
                               f"{folder}/plain.ll"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--genmc", required=True, help="in the folder where it was built: its headers are beside it")
    parser.add_argument("--clang", default="clang-14", help="of the LLVM that GenMC was built with")
    parser.add_argument("--opt", default="opt-14")
    parser.add_argument("--slow", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for definitions, wants_error in RUNS + (SLOW if arguments.slow else []):
        output = run(arguments, definitions)
        holds = "No errors were detected" in output
        good = not holds and "rror" in output if wants_error else holds
        failed += not good
        lines = [line for line in output.splitlines() if "executions" in line or "race" in line or "violation" in line]
        print(f"{'' if good else 'FAILED '}{definitions}: {'; '.join(lines)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
