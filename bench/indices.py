"""How long feedd takes to make an index of many files, and to open one that it has kept, beside bare loops that look at
the same files."""

import json
import os
import random
import re
import resource
import subprocess
import tarfile
import tempfile
import time

from figures import made_folder
from instance import BenchError
from measure import alternate, median

SHARDS = 1281
MEMBERS = 1281167
MEMBER_BYTES = 110000
THREADS_MOST = 8  # of feedd, to look through files


def write_headers(folder, shards, members):
    """Archives of which only the headers take room: members of MEMBER_BYTES each, all of them holes."""
    done = 0
    os.makedirs(folder, exist_ok=True)
    for shard in range(shards):
        end = members * (shard + 1) // shards
        with open(os.path.join(folder, f"s-{shard:06d}.tar"), "wb") as file:
            for sample in range(done, end):
                member = tarfile.TarInfo(f"{sample:08d}.jpg")
                member.size = MEMBER_BYTES
                file.write(member.tobuf(tarfile.USTAR_FORMAT))
                file.seek(-(-MEMBER_BYTES // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE, os.SEEK_CUR)
            file.truncate(file.tell() + 2 * tarfile.BLOCKSIZE)
        done = end


def run(*command):
    """How long a process takes from its start to its end, its processor time, and what it prints."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
    return {"process_seconds": seconds, "text": done.stdout,
            "process_cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def run_bare(bench, name, *arguments):
    result = run(bench.program(name), *map(str, arguments))
    return {**json.loads(result["text"]), **result}


class Indexed:
    """A dataset of files, and the folder in which feedd keeps its index."""

    def __init__(self, bench, samples, kept, dataset):
        self.samples = samples
        self.kept = kept
        self.feedd = os.path.join(bench.build, "feedd")
        self.config = os.path.join(kept, "feedd.conf")
        lines = [f"{key} = {value}" for key, value in dataset.items()]
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("\n".join(["[feedd]", f"socket = {kept}/none", f"index_folder = {kept}", "[dataset data]",
                                  *lines, ""]))

    def file(self):
        names = [name for name in os.listdir(self.kept) if name.endswith(".index")]
        if len(names) != 1:
            raise BenchError(f"{self.kept} should hold one index, and holds {len(names)}")
        return os.path.join(self.kept, names[0])

    def check(self, known):
        """feedd --check, which must find all samples, and the index only if it is known."""
        result = run(self.feedd, "--config", self.config, "--check")
        found = re.search(r"index of \d+ KiB, (made|read) in", result["text"])
        samples = re.search(r"\b(\d+) samples", result["text"].replace(",", ""))
        if not found or not samples or (found[1] == "read") != known or int(samples[1]) != self.samples:
            raise BenchError(f"feedd --check should have {'read' if known else 'made'} an index of {self.samples}"
                             f" samples: {result['text']}")
        return result

    def make(self):
        for name in os.listdir(self.kept):
            if name.endswith(".index"):
                os.unlink(os.path.join(self.kept, name))
        return self.check(False)

    def measure(self, bench, make_limit, open_limit):
        """Making the index and opening it, each in turn with its bare loop. The first time fills the page cache."""
        self.make()
        return (*alternate(bench.rounds, self.make, make_limit),
                *alternate(bench.rounds, lambda: self.check(True), open_limit))


def expect(limits, what, wanted):
    """A bare loop that finds something other than feedd does is no limit."""
    for limit in limits:
        if limit[what] != wanted:
            raise BenchError(f"the bare loop found {limit[what]} {what}, wanted {wanted}")


def medians(results, limits):
    """Of what whole processes took, from start to end."""
    return median(results, "process_seconds"), median(limits, "process_seconds")


def rounds(samples, results, limits):
    """How long each round took, and the processor time."""
    cpu = [median(runs, "process_cpu_seconds") / samples * 1e9 for runs in (results, limits)]
    return {"rounds": [round(result["process_seconds"], 4) for result in results],
            "limit_rounds": [round(limit["process_seconds"], 4) for limit in limits],
            "cpu_ns_per_sample": cpu[0], "limit_cpu_ns_per_sample": cpu[1]}


def archives(bench):
    """Archives whose headers are in the page cache. Whole processes are compared, from start to end."""
    quick = bench.rounds < 5
    shards, members = (128, 128000) if quick else (SHARDS, MEMBERS)
    folder = os.path.join(bench.folder, f"headers-{members}")
    kept = os.path.join(folder, "kept")
    if not os.path.isdir(kept):
        write_headers(folder, shards, members)
        os.makedirs(kept, exist_ok=True)
    data = Indexed(bench, members, kept, {"format": "tar", "path": f"{folder}/s-*.tar", "field.x": "bytes @ jpg"})
    made, made_limits, opened, opened_limits = data.measure(
        bench, lambda: run_bare(bench, "tar_limit", folder, min(bench.cores, THREADS_MOST)),
        lambda: run_bare(bench, "known_limit", data.file(), folder))
    expect(made_limits, "members", members)
    expect(opened_limits, "files", shards)
    params = {"members": members, "shards": shards}
    seconds, limit = medians(made, made_limits)
    bench.records.add("host.index", members / seconds, "members/s", {"do": "make", **params}, members / limit,
                      None if quick else "3 s", None if quick else seconds <= 3, seconds=seconds, limit_seconds=limit,
                      **rounds(members, made, made_limits))
    seconds, limit = medians(opened, opened_limits)
    bench.records.add("host.index", seconds, "s", {"do": "open", **params}, limit, None if quick else "0.05 s",
                      None if quick else seconds <= 0.05, **rounds(members, opened, opened_limits))
    value = os.path.getsize(data.file()) / members
    bench.records.add("host.index", value, "B", {"do": "size", "of": "sample", "fields": 1}, None, "24 B", value <= 24)


def folder_of_files(bench):
    """A folder of a million files: indexed for the first time, and opened again."""
    files = 100000 if bench.rounds < 5 else 1000000
    path = made_folder(bench, "empty", files, 0)
    with tempfile.TemporaryDirectory(dir=bench.folder) as kept:
        data = Indexed(bench, files, kept, {"format": "folder", "path": path, "field.image": "bytes @ file",
                                            "pad.image": 100000, "field.label": "i64 @ class"})
        made, made_limits, opened, opened_limits = data.measure(
            bench, lambda: run_bare(bench, "scan_limit", path, min(bench.cores, THREADS_MOST)),
            lambda: run_bare(bench, "known_limit", data.file(), path))
        kib = os.path.getsize(data.file()) // 1024
    expect(made_limits, "files", files)
    expect(opened_limits, "folders", len(os.listdir(path)))
    seconds, limit = medians(made, made_limits)
    bench.records.add("host.folder_index", files / seconds, "files/s", {"files": files}, files / limit, "200,000",
                      files / seconds >= 200000, index_kib=kib, **rounds(files, made, made_limits))
    seconds, limit = medians(opened, opened_limits)
    bench.records.add("host.folder_again", seconds * 1000, "ms", {"files": files}, limit * 1000, "50 ms",
                      seconds <= 0.05, **rounds(files, opened, opened_limits))


def write_named(folder, classes, files):
    """Creates empty files named as in ImageNet's training set, where each class lacks some numbers."""
    dice = random.Random(1)
    for number in range(classes):
        name = f"n{1440764 + 97 * number:08d}"
        os.makedirs(os.path.join(folder, name))
        for image in sorted(dice.sample(range(1, 12 * files // classes), files // classes)):
            with open(os.path.join(folder, name, f"{name}_{image}.JPEG"), "wb"):
                pass
    time.sleep(0.1)  # feedd keeps no index of a folder that has just changed


def folder_size(bench):
    """The size of a folder's index per sample, including paths."""
    classes, files = 100, 100000
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder, tempfile.TemporaryDirectory(dir=bench.folder) as kept:
        write_named(folder, classes, files)
        data = Indexed(bench, files, kept, {"format": "folder", "path": folder, "field.image": "bytes @ file"})
        data.make()
        value = os.path.getsize(data.file()) / files
    bench.records.add("host.folder_size", value, "B", {"files": files, "of": "sample", "fields": 1}, None, "24 B", value <= 24)


FIGURES = {"host.folder_index": folder_of_files, "host.folder_size": folder_size, "host.index": archives}
