#!/usr/bin/env python3
"""What shuffle_window gains where files are not in the page cache: the first epoch of random order, of windows of 16, 4 and
1 of 128 files, and of sequential order.

    bench/windows.py [--build build] [--directory FOLDER] [--rounds 3] [--files 128] [--megabytes 8]

The files are made in the folder and removed at the end. Before each run they leave the page cache (POSIX_FADV_DONTNEED,
which needs no privileges; the storage may still have them in memory of its own). Prints a line of JSON per case: the median of
all rounds in MB/s, and the rounds."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

from instance import Instance

ORDERS = {"random": 0, "window 16": 16, "window 4": 4, "window 1": 1, "sequential": None}
CASES = [("uring", 4096, 256), ("uring", 131072, 32), ("mapped", 4096, 256)]  # io, bytes of a sample, batch
MIB = 1 << 20


def make(folder, files, megabytes):
    paths = [os.path.join(folder, f"part-{number:04}.bin") for number in range(files)]
    for path in paths:
        with open(path, "wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
    return paths


def drop(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def measure(options, paths, case, window):
    io, size, batch = case
    pattern = os.path.join(os.path.dirname(paths[0]), "*.bin")
    dataset = {"format": "records", "path": pattern, "record_bytes": size, "field.x": f"u8[{size}] @ 0", "io": io,
               "shuffle_window": window or 0}
    command = [os.path.join(options.build, "bench/bench_consumer"), "--dataset", "data", "--batch-size", str(batch),
               "--warm-up", "0", "--seconds", "60", "--batches", str(options.files * options.megabytes * MIB // size // batch)]
    command += [] if window is None else ["--shuffle", "--seed", "3"]
    drop(paths)
    with Instance(options.build, {"data": dataset}) as instance:
        said = subprocess.run([*command, "--socket", instance.socket], capture_output=True, text=True, check=True).stdout
    return json.loads(said)["bytes_per_second"] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--directory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=128)
    parser.add_argument("--megabytes", type=int, default=8)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="feedd-windows.", dir=options.directory)
    try:
        paths = make(folder, options.files, options.megabytes)
        for case in CASES:
            rounds = {name: [] for name in ORDERS}
            for _ in range(options.rounds):  # one after the other, so that a disturbance meets all of them
                for name, window in ORDERS.items():
                    rounds[name].append(round(measure(options, paths, case, window), 1))
            for name, found in rounds.items():
                line = {"io": case[0], "sample_bytes": case[1], "order": name, "mb_per_s": statistics.median(found)}
                print(json.dumps({**line, "rounds": found}), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
