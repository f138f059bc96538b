#!/usr/bin/env python3
"""Searches the models with spin: each as it is, which must hold, and with each old defect put back, which spin must find."""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# What a search looks at: (model, definitions).
RUNS = ("slot", "LOADERS=1 LOADER_KILLS=0 JOINS=2 CLIENT_KILLS=0 SUPERVISOR_KILLS=0")
KILLED_CLIENT = ("slot", "LOADERS=1 LOADER_KILLS=0 JOINS=1 CLIENT_KILLS=1 SUPERVISOR_KILLS=0")
KILLED_SUPERVISOR = ("slot", "LOADERS=1 LOADER_KILLS=0 JOINS=1 CLIENT_KILLS=0 SUPERVISOR_KILLS=1")
KILLED_LOADER = ("slot", "LOADERS=1 LOADER_KILLS=1 JOINS=1 CLIENT_KILLS=0 SUPERVISOR_KILLS=0")
RESTART = ("feed", "SHARERS=2 BATCHES=2 DAEMON_KILLS=1 CLIENT_KILLS=0")
RESTART_UNBEGUN = ("feed", "SHARERS=3 AWAITED=3 BATCHES=0 DAEMON_KILLS=1 CLIENT_KILLS=0")
RESTART_AND_DEATH = ("feed", "SHARERS=2 BATCHES=1 DAEMON_KILLS=1 CLIENT_KILLS=1")

SEARCHES = {
    "runs and leases": RUNS,
    "a consumer is killed": KILLED_CLIENT,
    "the supervisor is killed": KILLED_SUPERVISOR,
    "a loader is killed": KILLED_LOADER,
    "the daemon is restarted": RESTART,
    "the daemon is restarted before the feed has begun": RESTART_UNBEGUN,
    "a sharer dies with the daemon": RESTART_AND_DEATH,
}

# What spin must find: definition -> (search, what it is).
DEFECTS = {
    "DEFECT_RUN_IGNORED": (RUNS, "a detached consumer takes another run's samples for its own"),
    "DEFECT_FILL_IGNORED": (RUNS, "a slot's name is compared and not its fill, and a batch comes back into it"),
    "DEFECT_NAMED_LATE": (RUNS, "a slot gets its new name after what the name is for"),
    "DEFECT_COPY_FORGOTTEN": (RUNS, "a slot is reused while it is copied to a pool"),
    "DEFECT_FREED_WHILE_FILLING": (RUNS, "a slot that nobody wants any more is reused while it is filled"),
    "DEFECT_TOLD_LATE": (KILLED_SUPERVISOR, "a consumer hears that it was detached after its slots were reused"),
    "DEFECT_REAPED_EARLY": (KILLED_LOADER, "a dead loader's chunk is given out while a read is still in flight"),
    "DEFECT_SHUT_OUT": (RESTART, "one that returns late after a restart is refused"),
    "DEFECT_LEASES_FORGOTTEN": (RESTART, "leases shrink over a reconnect"),
    "DEFECT_NEWCOMERS_FIRST": (RESTART_UNBEGUN, "a newcomer gets the leases of one that returns to a feed that had not begun"),
    "DEFECT_UNCONFIRMED": (RESTART, "one that was waited for misses batches if it had not heard that it was attached"),
    "DEFECT_WAITS_FOR_THE_DEAD": (RESTART_AND_DEATH, "survivors wait for a sharer that died with the daemon"),
}


def search(model, wants_error, limit):
    """Runs spin on (model, definitions): whether an error was found, states stored, seconds of search."""
    name, definitions = model
    with tempfile.TemporaryDirectory() as folder:
        def run(command):
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout

        flags = [f"-D{definition}" for definition in definitions.split()]
        source = folder + f"/{name}.pml"
        pathlib.Path(source).write_text((HERE / f"{name}.pml").read_text())
        run(["spin", *flags, "-a", source])
        run(["gcc", "-w", "-O0" if wants_error else "-O1", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=4000", "-o", "pan", "pan.c"])
        began = time.monotonic()
        output = subprocess.run(["./pan", "-m200000"], cwd=folder, capture_output=True, text=True, check=False,
                                timeout=limit).stdout
        seconds = time.monotonic() - began
    found = re.search(r"errors: (\d+)", output)
    states = re.search(r"([\d.e+]+) states, stored", output)
    complete = found and states and "Search not completed" not in output and "max search depth" not in output
    if not found or (int(found.group(1)) == 0 and not complete):
        raise RuntimeError(f"spin did not search all of {name}.pml with {definitions}:\n{output[-2000:]}")
    return int(found.group(1)) > 0, int(float(states.group(1))), seconds, output


def check_one(title, model, wants_error, limit):
    """Prints a line about one search: whether it went as it must."""
    try:
        found, states, seconds, output = search(model, wants_error, limit)
    except subprocess.TimeoutExpired:
        print(f"FAILED  {title}: not done after {limit} s", flush=True)
        return False
    if found == wants_error:
        what = "found" if found else "holds"
        print(f"{what:7} {title}: {states:,} states, {seconds:.1f} s", flush=True)
        return True
    print(f"FAILED  {title}: {'there is an error' if found else 'spin finds nothing'} in {model[0]}.pml with "
          f"{model[1]}", flush=True)
    print("\n".join(line for line in output.splitlines() if line.startswith("pan:")), flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=300, help="seconds per search")
    arguments = parser.parse_args()
    wanted = [(title, model, False) for title, model in SEARCHES.items()]
    for name, (model, what) in DEFECTS.items():
        wanted.append((f"{name} ({what})", (model[0], f"{model[1]} {name}"), True))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda one: check_one(*one, arguments.limit), wanted))
    print(f"models: {results.count(True)} of {len(results)} searches went as they must")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
