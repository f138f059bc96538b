#!/usr/bin/env python3
"""Mutation testing: makes small mistakes in the sources, one at a time, and counts how many the unit tests notice.

Works in a copy of the tree, $(BUILD)/mutate/tree. What was found is kept in $(BUILD)/mutate/results.json, so a run that was
ended continues where it was; results are forgotten when a source or its tests change.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KNOWN = pathlib.Path(__file__).resolve().parent / "equivalent.txt"

# Which unit tests are to notice a mistake in which files.
SUITES = [
    (["shm/ring*.c", "shm/holes.c"], ["test_ring*", "test_delivery*"]),
    (["shm/stats*.c", "shm/reader_kind.c"], ["test_stats*"]),
    (["shm/memory_limit.c"], ["test_memory_limit"]),
    (["order/order.c"], ["test_order"]),
    (["order/partition.c"], ["test_partition"]),
    (["order/token.c"], ["test_token"]),
    (["daemon/supervisor/delivery/*.c"], ["test_delivery*", "test_pace"]),
]
# Needs many processes, and notices nothing that the others do not.
LEFT_OUT = ["test_ring_processes"]
# Takes tens of seconds, and alone notices a memory order that is too weak: only with --slow.
SLOW = ["test_ring_schedules"]

OPERATORS = [
    ("comparison", r"(?<![-<>=!&|])(<=|>=|==|!=|<|>)(?![<>=])",
     {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}),
    ("arithmetic", r"(?<=[\w)\]] )([-+*/%])(?= [\w(&])",
     {"+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"]}),
    ("logic", r"(&&|\|\|)", {"&&": ["||"], "||": ["&&"]}),
    ("bits", r"(?<=[\w)] )([&|])(?= [\w(~])", {"&": ["|"], "|": ["&"]}),
    ("step", r"(\+\+|--)", {"++": ["--"], "--": ["++"]}),
    ("assignment", r"( \+= | -= | \|= | &= )",
     {" += ": [" -= "], " -= ": [" += "], " |= ": [" &= "], " &= ": [" |= "]}),
    ("constant", r"(?<![\w.])(0|1|2|64)(?![\w.])", {"0": ["1"], "1": ["0", "2"], "2": ["1", "3"], "64": ["63"]}),
    ("boolean", r"\b(true|false)\b", {"true": ["false"], "false": ["true"]}),
    ("negation", r"(?<=[(\s])(!)(?=[\w(])", {"!": [""]}),
    ("order", r"\bmemory_order_(acquire|release)\b", {"acquire": ["relaxed"], "release": ["relaxed"]}),
]
STATEMENT = re.compile(r"^\s+(?!return|goto|break|continue|case|default|const|struct|uint|int|bool|char|static|\.)"
                       r"[\w>\-.\[\]*&]+(\(.*\)| [-+|&]?= .*|\+\+|--);$")
LEAVING = re.compile(r"^\s+(return( [^;]*)?|break|continue);$")


def code_of(line):
    """The line with strings and comments blanked, so that columns stay."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group()), line)
    return re.sub(r"//.*$", lambda m: " " * len(m.group()), line)


def mutants_of(path):
    """All (line number, what, new line) of a file."""
    found = []
    continued = False
    for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
        code = code_of(line)
        directive = code.startswith("#") or continued
        continued = directive and line.endswith("\\")
        if directive or not code.startswith(" ") or "_Static_assert" in code:
            continue
        for name, pattern, others in OPERATORS:
            for match in re.finditer(pattern, code):
                for other in others.get(match.group(1), []):
                    new = line[:match.start(1)] + other + line[match.end(1):]
                    found.append((number, f"{name}: {match.group(1).strip()} to {other.strip() or 'nothing'}"
                                  f" at {match.start(1) + 1}", new))
        if STATEMENT.match(code) or LEAVING.match(code):
            indent = re.match(r"\s*", line).group()
            found.append((number, "statement: removed", indent + ";"))
    return found


def matching(names, patterns):
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def ended(command, folder, limit, **options):
    """The exit status, or None after `limit` seconds; whatever it started is ended."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True, **options) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Bench:
    """The copy of the tree, and what is built there."""

    def __init__(self, build):
        self.home = ROOT / build / "mutate"
        self.tree = self.home / "tree"
        self.tests = sorted(path.stem for path in (ROOT / "tests/unit").glob("test_*.c"))
        shutil.rmtree(self.tree, ignore_errors=True)
        list_files = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
        listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)

    def make(self, tests):
        targets = [f"build/tests/{test}" for test in tests]
        return ended(["make", "-s", "-j2", "WERROR=", *targets], self.tree, 600) == 0

    def passes(self, test, limit):
        environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="tap")
        return ended([f"build/tests/{test}"], self.tree, limit, env=environment) == 0

    def durations(self, tests):
        """Builds the tests, and says how long each takes; they must pass."""
        if not self.make(tests):
            sys.exit("the tests cannot be built")
        took = {}
        for test in tests:
            began = time.monotonic()
            if not self.passes(test, 120):
                sys.exit(f"{test} fails without any mistake made")
            took[test] = time.monotonic() - began
        return took

    def outcome(self, path, number, line, took):
        """What notices the mistake: a test, "limit of TEST", "compiler", or None."""
        source = self.tree / path
        lines = (ROOT / path).read_text().split("\n")
        lines[number - 1] = line
        source.write_text("\n".join(lines))
        try:
            for test in sorted(took, key=took.get):
                if not self.make([test]):
                    return "compiler"
                limit = 10 + 5 * took[test]
                began = time.monotonic()
                if not self.passes(test, limit):
                    return test if time.monotonic() - began < limit else f"limit of {test}"
            return None
        finally:
            shutil.copy(ROOT / path, source)
            os.utime(source)


def known_equivalents():
    """Mistakes that change nothing that a unit test could see: (file, the line's text, what) -> why."""
    known = {}
    for line in KNOWN.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            path, text, what, why = (part.strip() for part in line.split("\t"))
            known[path, text, what] = why
    return known


def sample(arguments, names):
    """(file, tests, line number, what, new line), of each file the same share."""
    chosen = []
    left_out = known_equivalents()
    for patterns, suite in SUITES:
        files = sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
        tests = [test for test in matching(names, suite) if test not in LEFT_OUT + ([] if arguments.slow else SLOW)]
        for path in files:
            if arguments.only and not fnmatch.fnmatch(path, arguments.only):
                continue
            text = (ROOT / path).read_text().split("\n")
            mutants = [mutant for mutant in mutants_of(path)
                       if (arguments.slow or not mutant[1].startswith("order")) and
                       (path, text[mutant[0] - 1].strip(), mutant[1].split(" at ")[0]) not in left_out]
            random.Random(f"{arguments.seed} {path}").shuffle(mutants)
            count = max(1, round(len(mutants) * arguments.share)) if mutants else 0
            chosen += [(path, tests, *mutant) for mutant in mutants[:count]]
    return chosen


def key_of(path, tests, line, what):
    state = hashlib.sha256((ROOT / path).read_bytes())
    for test in tests:
        state.update((ROOT / f"tests/unit/{test}.c").read_bytes())
    return f"{path}:{line}:{what}:{state.hexdigest()[:16]}"


def report(results):
    """Prints the figures per file and what survived; returns the share killed."""
    survivors = [result for result in results if not result["by"]]
    for path in sorted({result["path"] for result in results}):
        mine = [result for result in results if result["path"] == path]
        print(f"{sum(bool(result['by']) for result in mine):4} of {len(mine):4}  {path}")
    for result in survivors:
        print(f"survives  {result['path']}:{result['line']}  {result['what']}\n          {result['text'].strip()}")
    share = 1 - len(survivors) / len(results) if results else 1
    print(f"mutants: {len(results) - len(survivors)} of {len(results)} killed ({share:.2f})")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--share", type=float, default=0.05, help="of all mutants; 1: all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="files that match")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after that time")
    parser.add_argument("--slow", action="store_true", help="memory orders too, with the tests that notice them")
    parser.add_argument("--least", type=float, default=0, help="fail if a smaller share is killed")
    arguments = parser.parse_args()
    bench = Bench(arguments.build)
    kept = bench.home / "results.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    chosen = sample(arguments, bench.tests)
    random.Random(arguments.seed).shuffle(chosen)  # so that a run that is ended early has looked at all files
    took, results = {}, []
    began = time.monotonic()
    for path, tests, number, what, line in chosen:
        key = key_of(path, tests, number, what)
        if key not in known:
            if time.monotonic() - began > arguments.seconds:
                continue
            missing = [test for test in tests if test not in took]
            if missing:
                took.update(bench.durations(missing))
            known[key] = bench.outcome(path, number, line, {test: took[test] for test in tests})
            kept.write_text(json.dumps(known, indent=0))
        if known[key] != "compiler":
            results.append({"path": path, "line": number, "what": what, "text": line, "by": known[key]})
    return 0 if report(results) >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
