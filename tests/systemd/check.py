#!/usr/bin/env python3
"""Installs the packages into a minimal Debian, boots its systemd in a container, and runs the tests in this folder there, one
after another; prints TAP.

    check.py --build DIR [--only PATTERN]... [--keep]

The first run makes the Debian, which takes a minute and the network; later ones use it again. Needs root.
"""

import argparse
import fnmatch
import os
import pathlib
import sys
import time
import traceback

import test_exporter
import test_packages
import test_service
import test_upgrade
from machine import Failed, Machine, make_tree
from service import Service

# In this order: the last test of the last file removes the packages.
FILES = (test_packages, test_exporter, test_service, test_upgrade)


def find_tests(only):
    """Each in the order of its file."""
    tests = {}
    for module in FILES:
        for name, function in vars(module).items():
            if name.startswith("test_") and callable(function):
                full = f"{module.__name__}.{name}"
                if any(fnmatch.fnmatch(full, pattern) or fnmatch.fnmatch(name, pattern) for pattern in only):
                    tests[full] = function
    return tests


def run(tests, service):
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, (name, test) in enumerate(tests.items(), 1):
        began, mark = time.monotonic(), service.machine.mark()
        try:
            test(service)
            passed = True
        except Exception:
            passed = False
            failed += 1
            for line in traceback.format_exc().splitlines() + ["", "the journal since the test began:"]:
                print(f"# {line}")
            for row in service.machine.rows(mark)[-60:]:
                print(f"# {row.get('PRIORITY')} {row.get('SYSLOG_IDENTIFIER')}: {row.get('MESSAGE')}")
        print(f"{'ok' if passed else 'not ok'} {number} - {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return failed


def check(build, only):
    packages = sorted((build / "packages").glob("*.deb"))
    if not packages:
        raise Failed(f"there are no packages in {build / 'packages'}; make deb makes them")
    tests = find_tests(only)
    if not tests:
        raise Failed(f"no test is called {' or '.join(only)}")
    folder = build / "systemd"
    folder.mkdir(exist_ok=True)
    began = time.monotonic()
    tree = make_tree(folder, packages)
    print(f"# the files of the machine: {time.monotonic() - began:.0f} s", flush=True)
    with Machine(tree, folder / "console.log") as machine:
        service = Service(machine, packages)
        machine.install(packages)
        print(f"# booted and installed: {time.monotonic() - began:.0f} s", flush=True)
        failed = run(tests, service)
    print(f"{len(tests) - failed} passed, {failed} failed; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument(
        "--only", action="append", default=[], help="tests whose name matches, as in '*drain*'; may be repeated"
    )
    arguments = parser.parse_args()
    try:
        if os.geteuid() != 0:
            raise Failed("only root can boot a container; as another user, run: sudo make check-systemd")
        return check(arguments.build.resolve(), arguments.only or ["*"])
    except Failed as reason:
        print(f"check-systemd: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
