"""The functions that compute which sample has which place, one thread each: million positions per CPU second."""

import json
import subprocess

from instance import BenchError

GOAL = 5  # of a mix of 100 sources
MIXES = ("100 of 2 digits", "100 of 6 digits")


def lines(bench, name, *options):
    """The JSON that a program prints, an object per line."""
    command = [bench.program(name), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise BenchError(f"bench_{name} ended with status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def order(bench):
    """Mixes, a plain shuffle, shuffle windows and draws by weight; each program takes medians of rounds of its own."""

    def add(of, value, goal=None, **more):
        bench.records.add("host.order", value, "M positions/s", {"of": of}, None, goal and f"{goal} M", goal and value >= goal,
                          **more)

    for mix in lines(bench, "mix", bench.seconds / 5):
        if mix["mixture"] in MIXES:
            rates = {place: 1000 / ns for place, ns in mix["ns_per_position"].items()}
            add(f"mix, {mix['mixture']}", rates["next"], GOAL, fourth=rates["fourth"], elsewhere=rates["elsewhere"])
    (window,) = lines(bench, "window")
    add("shuffle", window["without_windows"])
    add("window", window["mpositions_per_s"], least=window["least"], most=window["most"])
    (draw,) = lines(bench, "draw")
    add("weights", draw["mdraws_per_s"], least=draw["least"], most=draw["most"])


FIGURES = {"host.order": order}
