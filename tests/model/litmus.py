#!/usr/bin/env python3
"""Runs herd7 on tests/model/litmus: nothing forbidden is reachable under RC11, and it is with any of the weaker orders."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def reachable(arguments, text):
    """Whether herd7 finds an execution of the test that ends as its last line says."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(text)
        file.flush()
        command = [arguments.herd, "-model", arguments.model, file.name]
        if arguments.libdir:
            command[1:1] = ["-set-libdir", arguments.libdir]
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = re.search(r"^Observation \S+ (Never|Sometimes|Always)", output.stdout, re.M)
    if not found:
        raise RuntimeError(f"herd7 says nothing of:\n{text}\n{output.stdout}{output.stderr}")
    return found.group(1) != "Never"


def weaker_orders(text):
    """The (old, new) of the comments that begin with "weaker:"."""
    return [tuple(part.replace("\\n", "\n") for part in found)
            for found in re.findall(r"^\(\* weaker: (.*?) => (.*?) ?\*\)$", text, re.M)]


def check(arguments, path):
    """How many runs of herd7 went as they must, and the failures."""
    text = path.read_text()
    bare = re.sub(r"^\(\* weaker:.*\n", "", text, flags=re.M)
    failures = ["is reachable"] if reachable(arguments, bare) else []
    for old, new in weaker_orders(text):
        old = old.replace("\n", "\n  ") if not old.endswith("\n") else old
        new = new.replace("\n", "\n  ")
        if old not in bare:
            failures.append(f"has no \"{old}\"")
        elif not reachable(arguments, bare.replace(old, new, 1)):
            failures.append(f"is unreachable even with \"{new}\" in place of \"{old}\"")
    return 1 + len(weaker_orders(text)), failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--herd", default="herd7")
    parser.add_argument("--libdir", help="herd7's models, if it was not installed")
    parser.add_argument("--model", default="rc11.cat")
    arguments = parser.parse_args()
    runs = failed = 0
    for path in sorted((HERE / "litmus").glob("*.litmus")):
        count, failures = check(arguments, path)
        runs += count
        failed += len(failures)
        for failure in failures:
            print(f"{path.stem}: what must not happen {failure}")
    print(f"litmus tests: {runs - failed} of {runs} went as they must")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
