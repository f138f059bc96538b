#!/usr/bin/env python3
"""Runs the test_* functions of integration test files, each in a separate process with a time limit; prints TAP.

    runner.py [--build DIR] [--only PATTERN]... [--jobs N] [--device DEVICE] [FILE...]

--only takes a shell pattern for FILE.FUNCTION or FUNCTION, as in '*kill*', and may be repeated. --device is where consumers
that do not say where want their batches, as in host:0.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import fnmatch
import importlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEFAULT_LIMIT_S = 30.0
GRACE_S = 2.0
PR_SET_CHILD_SUBREAPER = 36
EXIT_PASSED, EXIT_FAILED, EXIT_SKIPPED = 0, 1, 77


@dataclasses.dataclass
class Test:
    name: str
    function: object
    limit_s: float


@dataclasses.dataclass
class Running:
    test: Test
    pid: int
    sink: object
    deadline: float
    status: int | None = None
    late: bool = False
    left: int = 0


def find_tests(files, only, device):
    tests = []
    for file in files:
        module = importlib.import_module(file.stem)
        for name, function in vars(module).items():
            if name.startswith("test_") and callable(function) and function.__module__ == module.__name__:
                real = device and not device.lower().startswith("host")
                if (device and hasattr(function, "host_memory")) or (real and hasattr(function, "quick_attach")):
                    continue
                full = f"{file.stem}.{name}"
                if any(fnmatch.fnmatch(full, pattern) or fnmatch.fnmatch(name, pattern) for pattern in only):
                    tests.append(Test(full, function, getattr(function, "limit_s", DEFAULT_LIMIT_S)))
    return tests


def become_subreaper():
    """Makes this process the parent of a test's orphans, so that it can end them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def run_here(test):
    """In the test's process: runs it and returns the exit status. What it prints is shown if it fails."""
    import harness  # only now: it reads the environment that main() has set up

    try:
        test.function()
    except harness.Skip as reason:
        print(f"skip: {reason}")
        return EXIT_SKIPPED
    except BaseException:
        traceback.print_exc()
        return EXIT_FAILED
    return EXIT_PASSED


def begin(test, slowness):
    sink = tempfile.TemporaryFile()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        import harness

        os.setsid()
        harness.die_with_parent()
        become_subreaper()
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
        status = run_here(test)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return Running(test, pid, sink, time.monotonic() + test.limit_s * slowness)


def orphans(running):
    """Children of this process that are not tests: what a test left behind."""
    known = {item.pid for item in running}
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in known:
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getpid():
                    found.append((int(entry.name), fields[0]))
    return found


def end_orphans(running):
    """Ends and reaps them, generation by generation; returns how many were still alive. What ends with the test, or with its
    daemon, takes a moment to do so."""
    alive, deadline = 0, time.monotonic() + GRACE_S
    while any(state != "Z" for _, state in orphans(running)) and time.monotonic() < deadline:
        time.sleep(0.01)
    while left := orphans(running):
        for pid, state in left:
            if state != "Z":
                alive += 1
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return alive


def poll(running):
    """Removes tests that have ended from the list, after ending those that exceed their limit."""
    done = []
    for item in list(running):
        if time.monotonic() > item.deadline and not item.late:
            item.late = True
            os.kill(item.pid, signal.SIGKILL)
        pid, status = os.waitpid(item.pid, os.WNOHANG)
        if pid:
            item.status = os.waitstatus_to_exitcode(status)
            running.remove(item)
            item.left = end_orphans(running)
            done.append(item)
    return done


def report(number, item, show):
    """One TAP line, and everything the test printed if it failed, or with `show`."""
    item.sink.seek(0)
    output = item.sink.read().decode(errors="replace")
    if item.status == EXIT_SKIPPED:
        reason = output.rpartition("skip: ")[2].strip().replace("\n", " ")
        print(f"ok {number} - {item.test.name} # SKIP {reason}", flush=True)
        return True
    passed = item.status == EXIT_PASSED and not item.left
    print(f"{'' if passed else 'not '}ok {number} - {item.test.name}", flush=True)
    if not passed or show:
        if item.late:
            output += f"\nout of time: {item.test.limit_s:g} s"
        elif item.status < 0:
            output += f"\nended by signal {-item.status}"
        if item.left and not item.late:
            output += f"\n{item.left} processes left behind"
        print("".join(f"#   {line}\n" for line in output.splitlines()), end="", flush=True)
    return passed


def run(tests, jobs, slowness, show):
    print(f"1..{len(tests)}", flush=True)
    waiting, running = list(reversed(tests)), []
    finished = failed = 0
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(begin(waiting.pop(), slowness))
        for item in poll(running):
            finished += 1
            failed += not report(finished, item, show)
        time.sleep(0.01)
    return failed


def reachable(build, directory):
    """The build directory or, if only root can reach it, a copy of the programs that other users run."""
    if os.geteuid() or all(parent.stat().st_mode & 0o1 for parent in (build, *build.parents)):
        return build
    copy = directory / "programs"
    for name in ("feedd", "feedctl", "tests/consumer", "tests/streams", "tests/failing_epoll.so"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build / name, copy / name)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", "-j", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="show what tests print also if they pass")
    parser.add_argument("--slowness", type=float, default=1, help="stretches every time limit")
    parser.add_argument(
        "--device", default=os.environ.get("FEEDD_TEST_DEVICE", ""), help="where consumers want their batches, as in host:0"
    )
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    os.environ["FEEDD_TEST_BUILD"] = str(build)
    os.environ["FEEDD_TEST_SLOWNESS"] = str(options.slowness)
    if options.device:
        os.environ["FEEDD_TEST_DEVICE"] = options.device
    sys.path.insert(0, str(HERE))
    become_subreaper()
    with tempfile.TemporaryDirectory(prefix="feedd-") as directory:  # killed tests cannot clean up after themselves
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        os.chmod(directory, 0o711)  # some tests run programs as another user
        os.environ["FEEDD_TEST_PROGRAMS"] = str(reachable(build, pathlib.Path(directory)))
        tests = find_tests(options.files or sorted(HERE.glob("test_*.py")), options.only or ["*"], options.device)
        if not tests:
            print(f"no test matches {' or '.join(options.only)}", file=sys.stderr)
            return 1
        return 1 if run(tests, options.jobs, options.slowness, options.show) else 0


if __name__ == "__main__":
    sys.exit(main())
