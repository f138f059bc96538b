#!/usr/bin/env python3
"""Lets every allocation and every system call of feedd and libfeed fail once, each in a run of its own, and prints a table.

Runs of each scenario without a fault count the calls of each role in each phase; then each of these calls fails in turn.
Exit status: 0 if everything was answered, recovered or unnoticed, else 1. tests/README.md explains more.
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

WAITS_MOST = 2  # of the calls that wait, per role and phase: how many there are depends on time
SITE_MOST = 2  # allocations that one place in the code asks for, per role and phase
REPEATED_MOST = {("prepared", "dup2"): 3}  # a prepared loader makes this call for each number that a descriptor may get
OUTCOMES = ("unnoticed", "answered", "recovered", "ended", "not reached", "WRONG")
LOG_LINES = 25
REPEATED_WHOLE = 5  # reports of wrong outcomes, at the end; of others, only what was wrong


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="where the programs are")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="runs at a time")
    parser.add_argument("--sample", type=int, default=0, help="so many faults instead of all, from every role and phase")
    parser.add_argument("--seconds", type=int, default=0, help="begin no run later than that")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample")
    parser.add_argument("--list", action="store_true", help="print the faults, do not run them")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    parser.add_argument("fault", nargs="*", metavar="WORD",
                        help="SCENARIO ROLE PHASE CALL ORDINAL ERROR: only these; words may be left out, - is any")  # fmt: skip
    return parser.parse_args()


# ---- Which calls fail --------------------------------------------------------------------------------------------


def chosen_ordinals(calls, role, name, count, sites):
    if name == "allocate":
        seen = collections.Counter()
        chosen = []
        for ordinal, address in sites:
            seen[address] += 1
            if seen[address] <= SITE_MOST:
                chosen.append(ordinal)
        return chosen
    most = WAITS_MOST if name in calls.waits else REPEATED_MOST.get((role, name), count)
    return range(1, min(count, most) + 1)


def faults_of(kind, roles, results, calls):
    """Every fault of a scenario, from its runs without a fault."""
    counts = collections.Counter()
    for result in results:
        counts |= collections.Counter(result["counts"])
    sites = collections.defaultdict(list)
    for role, phase, ordinal, address in results[-1]["sites"]:
        sites[role, phase].append((ordinal, address))
    for (role, phase, number), count in sorted(counts.items()):
        if role not in roles or (role == "start" and phase != scene_of(kind).phases[0]):
            continue
        name = calls.names[number]
        for ordinal in chosen_ordinals(calls, role, name, count, sites[role, phase]):
            for error in calls.errors[name]:
                yield Fault(kind, role, phase, name, ordinal, error)


def take_sample(faults, count, seed):
    """From every role, phase and call in turn."""
    dice = random.Random(seed)
    groups = collections.defaultdict(list)
    for fault in faults:
        groups[fault.scenario, fault.role, fault.phase, fault.call].append(fault)
    order = sorted(groups)
    dice.shuffle(order)
    for key in order:
        dice.shuffle(groups[key])
    taken = [groups[key][turn] for turn in range(max(map(len, groups.values()))) for key in order if turn < len(groups[key])]
    return taken[:count]


def is_wanted(fault, words):
    return all(word in ("-", had) for word, had in zip(words, str(fault).split()))


# ---- What came of it ---------------------------------------------------------------------------------------------


def where(build, fault, result):
    """The places in the code that lead to the call, as far as they are known."""
    program = build / ("tests/consumer" if fault.role == "consumer" else "feedd")
    addresses = [hex(address - 1) for address in result["frames"] if 0 < address < 1 << 40]
    if not addresses:
        return ""
    done = subprocess.run(["addr2line", "-fse", program, *addresses], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    pairs = [f"{name} ({place})" for name, place in zip(lines[::2], lines[1::2]) if name != "??"]
    return "\n".join(["the call came from, most likely:", *(f"    {pair}" for pair in pairs[:12])])


def explain(build, fault, result):
    log = "\n".join(result["log"].splitlines()[-LOG_LINES:])
    return f"""
---- {fault} ----
{result["failure"]}
{where(build, fault, result)}
{log}
to see it again: make check-fault FAULT='{fault}'"""


def repeat(reports):
    """Wrong outcomes once more, after the table: of a long log, often only the end is kept."""
    for number, (brief, report) in enumerate(reports):
        print(report if number < REPEATED_WHOLE else brief)


class Table:
    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)
        self.ends = []
        self.answers = collections.Counter()
        self.longest_s = 0.0

    def add(self, fault, result):
        outcome = "WRONG" if result["failure"] else result["outcome"]
        self.rows[fault.scenario, fault.role, fault.phase][outcome] += 1
        self.longest_s = max(self.longest_s, result["gap"])
        if result["ends"] and not result["failure"]:
            self.ends.append(f"{fault}: {result['ends'][0]}")
        for answer in result["answers"]:
            self.answers[re.sub(r"\d+", "N", answer)] += 1
        return outcome

    def show(self, seen):
        print(f"{'scenario':9}{'role':11}{'phase':9}{'calls':>7}{'failed':>8}" + "".join(f"{name:>13}" for name in OUTCOMES))
        total = collections.Counter()
        for key in sorted(self.rows, key=lambda key: (key[0], ROLES.index(key[1]), PHASES.index(key[2]))):
            row = self.rows[key]
            total.update(row)
            tried = sum(row.values())
            print(f"{key[0]:9}{key[1]:11}{key[2]:9}{seen[key]:>7}{tried:>8}" + "".join(f"{row[name]:>13}" for name in OUTCOMES))
        print(f"{'all':29}{sum(seen.values()):>7}{sum(total.values()):>8}" + "".join(f"{total[name]:>13}" for name in OUTCOMES))
        return total


# ---- Running -----------------------------------------------------------------------------------------------------


def play(kind, fault, descriptors_most=None):
    return run(kind, fault, CALLS_TABLE, descriptors_most)


def count_calls(kinds, pool):
    """{kind: results of two runs without a fault}; the first run in a process also computes what is expected."""
    found = {kind: [pool.submit(play, kind, None) for _ in range(2)] for kind in kinds}
    found = {kind: [future.result() for future in futures] for kind, futures in found.items()}
    for kind, results in found.items():
        for result in results:
            if result["failure"]:
                sys.exit(f"{kind}, without a fault: {result['failure']}\n{result['log']}")
    return found


def run_all(faults, limits, pool, options, table):
    reports = []
    begin = time.monotonic()
    waiting = collections.deque(faults)
    running = {}
    while waiting or running:
        late = options.seconds and time.monotonic() > begin + options.seconds
        while waiting and len(running) < options.jobs and not late:
            fault = waiting.popleft()
            running[pool.submit(play, fault.scenario, fault, limits[fault.scenario])] = fault
        if not running:
            break
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            fault, result = running.pop(future), future.result()
            outcome = table.add(fault, result)
            if outcome == "WRONG":
                reports.append((f"{fault}: {result['failure'].splitlines()[0]}", explain(options.build, fault, result)))
                print(reports[-1][1], flush=True)
            elif options.verbose:
                said = "; ".join([*result["answers"], *result["ends"]])
                print(f"{fault}: {outcome}{' ' + said if said else ''}, {result['seconds']:.1f} s", flush=True)
    return len(waiting), reports


def main():
    options = parse_arguments()
    words = options.fault
    kinds = [kind for kind in KINDS if not words or words[0] in ("-", kind)]
    if "images" in kinds and plain_images.refusal():
        print("left out:", plain_images.refusal())
        kinds.remove("images")
    if "images" in kinds:
        wanted_images(VICTIM_SEED)  # once, before the processes of the pool are forked
    if not kinds:
        sys.exit(f"no such scenario: {words[0]}; there are {', '.join(KINDS)}")
    begin = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool:
        found = count_calls(kinds, pool)
        faults, limits, seen = [], {}, collections.Counter()
        for kind, results in found.items():
            faults += faults_of(kind, ROLES_OF[kind], results, CALLS_TABLE)
            limits[kind] = max(result["descriptors"] for result in results)
            for (role, phase, _), count in results[-1]["counts"].items():
                seen[kind, role, phase] += count
        faults = [fault for fault in faults if is_wanted(fault, words)]
        if not faults:
            sys.exit(f"no call matches {' '.join(words)}")
        if options.sample:
            faults = take_sample(faults, options.sample, options.seed)
        elif options.seconds:
            faults = take_sample(faults, len(faults), options.seed)
        if not options.seconds:
            faults.sort(key=lambda fault: fault.scenario != "prepared")  # its runs take longest: not at the end
        if options.list:
            print(*faults, sep="\n")
            return 0
        table = Table()
        left, reports = run_all(faults, limits, pool, options, table)
    keys = set(table.rows)
    total = table.show(collections.Counter({key: seen[key] for key in keys}))
    print(f"the longest that the bystander waited for a batch: {table.longest_s:.2f} s")
    for end in table.ends:
        print(f"the daemon ended: {end}")
    repeat(reports)
    print(f"{len(faults) - left} faults in {time.monotonic() - begin:.0f} s, {total['WRONG']} with a wrong outcome"
          + (f"; no time for {left} more" if left else ""))  # fmt: skip
    return 1 if reports else 0


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    os.environ["FEEDD_TEST_BUILD"] = str(ARGUMENTS.build)
    from content import VICTIM_SEED, wanted_images
    from kinds import KINDS, ROLES_OF
    from plan import PHASES, ROLES, Calls, Fault
    from play import run, scene_of

    import plain_images

    CALLS_TABLE = Calls(ARGUMENTS.build / "tests/inject")
    sys.exit(main())
