#!/usr/bin/env python3
"""Mutation testing: makes small mistakes in the sources, one at a time, and counts how many the tests notice.

`make mutate` builds everything once, in $(BUILD)/mutate; a mutant is compiled alone and linked in front of the archives.
$(BUILD)/mutate/results.json says for each mutant which test noticed it, and which did not. A result holds as long as the
mutant's file and the tests that gave it stay as they are, so a run that was ended continues where it was, and after a
change of a test only that test runs again. Remove the file after changes elsewhere.

Not counted: mutants that do not compile, that compile to the same code, or that equivalent.txt lists.
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import pathlib
import queue
import sys
import threading
import time

import mutants
import programs

ROOT = programs.ROOT
KNOWN = pathlib.Path(__file__).resolve().parent / "equivalent.txt"

# Which programs are to notice a mistake in which files; the first row that matches counts.
DELIVERY = ["test_delivery*", "test_pace", "test_copies", "simulate"]
SUITES = [
    (["shm/ring_loader.c", "shm/ring_supervisor.c"], ["test_ring*", *DELIVERY]),
    (["shm/memory_limit.c", "shm/ring_room.c"], ["test_memory_limit", "test_room", "test_ring_ma*"]),
    (["shm/ring*.c", "shm/holes.c"], ["test_ring*", "test_room", "test_client_verify", *DELIVERY]),
    (["shm/stats*.c", "shm/reader_kind.c", "shm/confinement.c"],
     ["test_stats*", "test_rates", "test_render", "test_confine", "test_reader_setup"]),
    (["order/draw.c", "order/philox.c", "order/selection.c", "order/shares.c"],
     ["test_draw*", "test_philox", "test_selection", "test_shares"]),
    (["order/mix*.c"], ["test_mix*"]),
    (["order/*.c"], ["test_order", "test_partition", "test_token", "simulate"]),
    (["daemon/supervisor/delivery/*.c"], DELIVERY),
]
# Needs many processes, and notices nothing that the others do not.
LEFT_OUT = ["test_ring_processes"]
# Takes half a minute, and alone notices a memory order that is too weak: only with --slow, and where it can notice anything.
SCHEDULES = ["test_ring_schedules"]
NEEDS_SCHEDULES = ["shm/ring_loader.c", "shm/ring_supervisor.c"]
SANITIZED = "@asan"
UNCOUNTED = ["does not compile", "same code"]


def suite_of(path, slow, sanitized):
    names = [*sorted(source.stem for source in (ROOT / "tests/unit").glob("test_*.c")), "simulate"]
    patterns = next((tests for files, tests in SUITES if any(fnmatch.fnmatch(path, file) for file in files)), [])
    left_out = LEFT_OUT + ([] if slow and path in NEEDS_SCHEDULES else SCHEDULES)
    chosen = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) and name not in left_out]
    again = [name for name in chosen if name != "simulate" and "schedules" not in name] if sanitized else []
    return chosen + [name + SANITIZED for name in again]


def digest(paths):
    state = hashlib.sha256()
    for path in sorted(paths):
        state.update(path.read_bytes())
    return state.hexdigest()[:12]


def versions_of(names):
    """Changes when the program's own sources change."""
    versions = {"simulate": digest([*ROOT.glob("tests/simulate/*"), *ROOT.glob("tests/world/*")])}
    sources = {name: ROOT / f"tests/unit/{name.removesuffix(SANITIZED)}.c" for name in names}
    return {name: versions.get(name) or digest([sources[name]]) for name in names}


def known_equivalents():
    """Mistakes that change nothing that a test could see: (file, the line's text, what) -> why."""
    known = {}
    for line in KNOWN.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            path, text, what, why = (part.strip() for part in line.split("\t"))
            known[path, text, what] = why
    return known


class Run:
    def __init__(self, arguments):
        self.home = ROOT / arguments.build
        self.kept = self.home / "results.json"
        kept = json.loads(self.kept.read_text()) if self.kept.exists() else {"took": {}, "mutants": {}}
        self.took, self.results = kept["took"], kept["mutants"]
        self.plain = programs.Programs(arguments.build, False)
        self.sanitized = programs.Programs(f"{arguments.build}/asan", True)
        self.lock = threading.Lock()
        self.texts, self.suites, self.originals, self.kills = {}, {}, {}, {}
        self.until = time.monotonic() + arguments.seconds
        self.folders = queue.SimpleQueue()
        for number in range(arguments.jobs):
            folder = self.home / f"work/{number}"
            folder.mkdir(parents=True, exist_ok=True)
            self.folders.put(folder)

    def find(self, arguments):
        """The mutants of the sample, in the order that the seed gives."""
        found = []
        for patterns, _ in SUITES:
            for path in sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)):
                if path not in self.texts and any(fnmatch.fnmatch(path, only) for only in arguments.only or ["*"]):
                    self.texts[path] = (ROOT / path).read_text()
                    self.suites[path] = suite_of(path, arguments.slow, arguments.sanitized)
                    found += mutants.mutants_of(path, self.texts[path])
        self.versions = versions_of({name for suite in self.suites.values() for name in suite})
        found = [mutant for mutant in found if arguments.slow or not mutant.what.startswith("order")]
        places = {mutant: mutant.place(arguments.seed) for mutant in found}
        inside = [mutant for mutant in found if arguments.skip <= places[mutant] < arguments.skip + arguments.share]
        return sorted(inside, key=places.get)

    def result_of(self, mutant):
        """What is known of the mutant in this version of its file."""
        state = hashlib.sha256(mutant.apply(self.texts[mutant.path]).encode()).hexdigest()[:16]
        return self.results.setdefault(f"{mutant.path} {state}", {"mutant": mutant.name, "by": None, "past": {}})

    def measure(self, mutants_left):
        """Runs each program without a mutant, unless it was run before."""
        for name in sorted({name for mutant in mutants_left for name in self.suites[mutant.path]}):
            built, program = self.place_of(name)
            version = self.versions[name]
            if self.took.get(name, {}).get("version") != version:
                seconds = built.measure(program, self.home / "work/0")
                self.keep(self.took.setdefault(name, {}), version=version, seconds=seconds)
            built.took[program] = self.took[name]["seconds"]

    def place_of(self, name):
        """Where the program was built, and its name there."""
        return (self.sanitized if name.endswith(SANITIZED) else self.plain), name.removesuffix(SANITIZED)

    def todo(self, mutant):
        """The programs that have not yet told, quickest first; none if one has noticed the mutant."""
        result = self.result_of(mutant)
        suite = self.suites[mutant.path]
        if result["by"] in UNCOUNTED or self.versions.get(result["by"], "") == result.get("version"):
            return []
        killer = result["by"]
        missing = [name for name in suite if result["past"].get(name) != self.versions[name]]
        price = {name: (name != killer, name.endswith(SANITIZED), self.price(mutant.path, name)) for name in missing}
        return sorted(missing, key=price.get)

    def price(self, path, name):
        """What notices many mistakes in the file in little time comes first."""
        return (0.1 + self.took.get(name, {}).get("seconds", 0)) / (1 + self.kills.get((path, name), 0))

    def judge(self, mutant):
        """Finds out what notices the mutant."""
        if time.monotonic() > self.until:
            return
        folder = self.folders.get()
        try:
            result = self.result_of(mutant)
            self.try_all(mutant, result, folder)
        finally:
            self.folders.put(folder)

    def keep(self, result, **news):
        with self.lock:
            result.update(news)
            text = json.dumps({"took": self.took, "mutants": self.results}, indent=1)
            self.kept.with_suffix(".new").write_text(text)
            self.kept.with_suffix(".new").replace(self.kept)

    def original_of(self, path, folder):
        """The file's object without any mutant."""
        if path not in self.originals:
            output = folder / "original.o"
            if not self.plain.compile(self.texts[path], output):
                raise SystemExit(f"{path} does not compile without any mistake made")
            self.originals[path] = output.read_bytes()
        return self.originals[path]

    def try_all(self, mutant, result, folder):
        text = self.texts[mutant.path]
        changed = folder / "mutant.o"
        if not self.plain.compile(mutant.apply(text), changed):
            return self.keep(result, by="does not compile")
        if changed.read_bytes() == self.original_of(mutant.path, folder):
            return self.keep(result, by="same code")
        for name in self.todo(mutant):
            built, program = self.place_of(name)
            if built is self.sanitized and changed.name == "mutant.o":
                changed = folder / "sanitized.o"
                built.compile(mutant.apply(text), changed)
            around = built.includes(program, mutant.path) and folder / "around.o"
            if around and not built.compile_around(program, mutant.path, mutant.apply(text), folder):
                continue
            how = built.notices(program, around or changed, folder)
            if how:
                self.kills[mutant.path, name] = self.kills.get((mutant.path, name), 0) + 1
                return self.keep(result, by=name, how=how, version=self.versions[name])
            self.keep(result, past=result["past"] | {name: self.versions[name]})
        return self.keep(result, by=None, how=None, version=None)


def directory_of(path):
    return path.rpartition("/")[0]


def print_share(counted, name):
    killed = sum(bool(result["by"]) for result in counted)
    print(f"{killed:5} of {len(counted):4}  {killed / max(1, len(counted)):.2f}  {name}")
    return killed / max(1, len(counted))


def report(run, chosen, listed, verbose):
    """Prints the figures per file and directory, and what survived; returns the share killed."""
    outcomes = [(mutant, run.result_of(mutant)) for mutant in chosen if not run.todo(mutant)]
    counted = [(mutant, result) for mutant, result in outcomes if result["by"] not in UNCOUNTED]
    for part in (lambda path: path, directory_of):
        for name in sorted({part(mutant.path) for mutant, _ in counted}):
            print_share([result for mutant, result in counted if part(mutant.path) == name], name)
    for mutant, result in sorted(counted, key=lambda pair: (pair[0].path, pair[0].line)):
        if not result["by"]:
            print(f"survives  {mutant.path}:{mutant.line}  {mutant.what}")
            print(f"  is      {mutant.old}\n  becomes {mutant.new.strip()}")
        elif verbose:
            print(f"{mutant.path}:{mutant.line}  {mutant.what}: {result['by']} {result['how']}")
    uncounted = ", ".join(f"{sum(result['by'] == why for _, result in outcomes)} {why}" for why in UNCOUNTED)
    limits = sum(result.get("how") == "limit" for _, result in counted)
    print(f"mutants: {len(chosen)} chosen, {len(chosen) - len(outcomes)} not tried; not counted: {uncounted}, "
          f"{listed} listed as equivalent; killed by a time limit: {limits}")
    return print_share([result for _, result in counted], "killed in all")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/mutate")
    parser.add_argument("--share", type=float, default=0.05, help="of all mutants; 1: all")
    parser.add_argument("--skip", type=float, default=0, help="leave out the first of the seed's order, for another sample")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", action="append", help="files that match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after that time")
    parser.add_argument("--slow", action="store_true", help="memory orders too, and the test that notices them")
    parser.add_argument("--sanitized", action="store_true", help="try what survives with the sanitizers")
    parser.add_argument("--report", action="store_true", help="only say what is known")
    parser.add_argument("--verbose", action="store_true", help="say what noticed each mutant")
    parser.add_argument("--least", type=float, default=0, help="fail if a smaller share is killed")
    arguments = parser.parse_args()
    run = Run(arguments)
    equivalents = known_equivalents()
    found = run.find(arguments)
    chosen = [mutant for mutant in found if (mutant.path, mutant.old, mutant.what) not in equivalents]
    left = [] if arguments.report else [mutant for mutant in chosen if run.todo(mutant)]
    run.measure(left)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for number, _ in enumerate(pool.map(run.judge, left), 1):
            if number % 50 == 0:
                print(f"{number} of {len(left)} tried", file=sys.stderr)
    return 0 if report(run, chosen, len(found) - len(chosen), arguments.verbose) >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
