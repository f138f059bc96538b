#!/usr/bin/env python3
"""Runs every test and ends with one line `N passed, N failed, N skipped`.

Exit status: 0 when nothing failed and something passed, else 1. README.md explains how tests are written and run.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMULATED = "host:0"
GPU_JOBS = 6  # tests that use a real GPU at a time: more take so long to open it that some end too late
# The integration tests whose outcome depends on how batches are delivered; they run a second time on a simulated GPU.
DELIVERY = [
    "test_fallback", "test_formats", "test_hostile", "test_kill", "test_leaks", "test_lifecycle",
    "test_limits", "test_order", "test_ranks", "test_reconnect", "test_regressions", "test_reload", "test_resume",
    "test_return", "test_shared", "test_stats", "test_storage",
]  # fmt: skip
# The same on the simulated GPU alone: a real one takes too long to open for every test of these files.
QUICK_DELIVERY = ["test_first_batch"]
# Those that run on a real GPU besides: tests of GPUs themselves and of their clock, and of formats, ragged fields, views, mixes
# and packing.
WITH_GPU = [
    "test_gpu", "test_gpu_formats", "test_gpu_growth", "test_gpu_image_formats", "test_gpu_images", "test_gpu_kill",
    "test_like_service", "test_arrow", "test_arrow_windows", "test_brought", "test_chosen", "test_compressed",
    "test_folder", "test_folder_csv", "test_images", "test_incomplete", "test_indices", "test_megatron", "test_mix",
    "test_mix_folder", "test_mix_ragged", "test_mix_ragged_errors", "test_mix_window", "test_pack", "test_packed_lists",
    "test_parquet", "test_pyarrow", "test_ragged", "test_ragged_errors", "test_ragged_tokens", "test_replace", "test_tar",
    "test_trace_bus", "test_transform", "test_views", "test_weights", "test_window",
]  # fmt: skip
# The tests of the Python package whose outcome depends on the framework, and those that are useful on a GPU.
PYTHON_WITH_TORCH = [
    "test_dataset", "test_fork", "test_images", "test_iterate", "test_jax", "test_kill", "test_lifetime", "test_state",
    "test_threads", "test_transform", "test_unreadable", "test_view",
]  # fmt: skip
PYTHON_ON_GPU = ["test_iterate", "test_jax", "test_lifetime", "test_state", "test_threads", "test_transform"]
# The integration tests whose files PyArrow or Pillow writes, which make python installs.
WITH_PACKAGE = {
    "test_compressed": "pyarrow", "test_condemned": "images", "test_gpu_image_faults": "images", "test_gpu_images": "images",
    "test_gpu_image_formats": "images", "test_gpu_image_reasons": "images", "test_image_cache": "images",
    "test_image_cache_disk": "images", "test_image_jpeg": "pillow", "test_image_png": "pillow", "test_image_resize": "pillow",
    "test_image_webp": "pillow", "test_images": "images", "test_images_broken": "images", "test_images_documents": "images",
    "test_incomplete_rows": "pyarrow", "test_masks": "images", "test_scarce_memory": "images",
    "test_metrics": "prometheus", "test_packed_lists": "pyarrow", "test_parquet": "pyarrow", "test_pyarrow": "pyarrow",
    "test_verify_blocks": "pyarrow",
}  # fmt: skip
running = set()  # session leaders of the running programs
# Resizing in either order of the axes gives other pixels. Before 13.0, Pillow had another one than feedd.
PILLOW = "import PIL; int(PIL.__version__.split('.')[0]) >= 13 or print(f'its Pillow is {PIL.__version__}, wanted 13.0')"
# What an interpreter must have, by what the tests run with; prints nothing if it has it.
NEEDED = {
    "pyarrow": "import pyarrow",
    "pillow": f"import numpy; {PILLOW}",
    "images": f"import numpy, pyarrow; {PILLOW}",
    "prometheus": "import prometheus_client",
    "numpy": f"import numpy, pytest; {PILLOW}",
    "torch": f"import numpy, pytest, torch; {PILLOW}",
    "frameworks": "import numpy, pytest, torch, lightning, accelerate, transformers, ray.train.torch",
    "cuda": "import numpy, pytest, torch; torch.cuda.is_available() or print('its PyTorch sees no GPU')",
}


@dataclasses.dataclass
class Program:
    name: str
    command: list
    limit_s: float
    speaks_tap: bool = True
    environment: dict = dataclasses.field(default_factory=dict)
    skip: str = ""  # why it is not run at all


@dataclasses.dataclass
class Result:
    program: Program
    cases: list
    output: str
    seconds: float

    def count(self, state):
        return sum(case.state == state for case in self.cases)


def sanitizer_settings():
    """Findings abort the program, so that no test can ignore one."""
    return {
        "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:suppress_equal_stacks=0",
    }


def find_unit_tests(options, build):
    """The unit tests, and the checks of golden vectors."""
    for source in sorted((ROOT / "tests/unit").glob("test_*.c")):
        binary = build / "tests" / source.stem
        yield Program(f"unit/{source.stem}", [*options.wrap, str(binary)], options.limit)
    for what in ("order", "draw", "mix", "replace", "window"):
        reference = ROOT / f"tests/unit/{what}_reference.py"
        vectors = ROOT / f"tests/unit/{what}_vectors.h"
        command = [sys.executable, str(reference), "--verify", str(vectors)]
        yield Program(f"unit/{what}_reference", command, options.limit, False)


def integration_test(options, build, name, device=""):
    """One file of integration tests; with a device, its consumers receive their batches there."""
    # Under build/asan, the one of build is as good.
    package = WITH_PACKAGE.get(name)
    interpreter, reason = interpreter_with(package, build, build.parent) if package else (sys.executable, "")
    command = [str(interpreter), str(ROOT / "tests/integration/runner.py"), "--build", str(build)]
    command += ["--jobs", str(options.jobs), "--slowness", str(options.slowness)]
    command += ["--device", device] if device else []
    where = f"@{device}" if device else ""
    command.append(str(ROOT / f"tests/integration/{name}.py"))
    return Program(f"integration{where}/{name}", command, 20 * options.limit, skip=reason)


def interpreter_with(needs, *builds):
    """A Python that has what is needed, or the reason why there is none."""
    reasons = []
    candidates = [build / "venv/bin/python" for build in builds]
    for interpreter in (*candidates, pathlib.Path(sys.executable), shutil.which("python3")):
        if interpreter is None or not pathlib.Path(interpreter).exists():
            continue
        done = subprocess.run([interpreter, "-c", NEEDED[needs]], capture_output=True, text=True, check=False, timeout=300)
        if not (done.stdout + done.stderr).strip():
            return interpreter, ""
        reasons.append(f"{interpreter}: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    return None, "; ".join(reasons)


def find_interpreter(build, needs):
    """A Python for the tests of the package, and the package's folder, or the reason why there is none. Training frameworks
    have an environment of their own."""
    folders = [folder for folder in (build / "python", ROOT / "python") if (folder / "feedd").exists()]
    if not folders:
        return None, None, f"{build / 'python'} does not exist: make python builds it, but not with sanitizers"
    interpreter, reason = interpreter_with(needs, build / "frameworks" if needs == "frameworks" else build)
    return interpreter, folders[0] if interpreter else None, reason


def python_tests(options, build):
    """The tests of the Python package, with NumPy alone, or with PyTorch, or on a GPU."""
    needs = "cuda" if options.device else options.with_packages or "numpy"
    interpreter, package, reason = find_interpreter(build, needs)
    if options.with_packages and not interpreter:
        raise SystemExit(f"the tests with {needs} cannot run: {reason}")
    environment = {
        "FEEDD_TEST_BUILD": str(build), "FEEDD_TEST_SLOWNESS": str(options.slowness), "PYTHONPATH": str(package),
        "FEEDD_TEST_DEVICE": options.device, "FEEDD_TEST_FRAMEWORK": "numpy" if needs == "numpy" else "torch",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    chosen = {"torch": PYTHON_WITH_TORCH, "cuda": PYTHON_ON_GPU, "frameworks": []}.get(needs)
    for file in sorted((ROOT / "tests/python").glob("test_*.py")):
        kind = next((kind for kind in ("gpu", "torch", "framework") if file.stem.startswith(f"test_{kind}")), "")
        own = {"torch": "torch", "cuda": "gpu", "frameworks": "framework"}.get(needs)
        if kind != own if kind else chosen is not None and file.stem not in chosen:
            continue
        command = [str(interpreter), "-m", "pytest", "-p", "no:cacheprovider", "--tap", str(file)]
        where = {"numpy": "python", "cuda": f"python@{options.device}"}.get(needs, f"python@{needs}")
        yield Program(f"{where}/{file.stem}", command, 3 * options.limit, True, environment, reason)


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def find_programs(options):
    """The programs to run: with a device only those whose outcome depends on it, otherwise all."""
    build = options.build.resolve()
    if options.with_packages:
        programs = list(python_tests(options, build))
    elif options.device:
        programs = [integration_test(options, build, name, options.device) for name in [*DELIVERY, *WITH_GPU]]
        programs += python_tests(options, build)
    else:
        programs = list(find_unit_tests(options, build))
        if not options.unit:
            names = [source.stem for source in sorted((ROOT / "tests/integration").glob("test_*.py"))]
            programs += [integration_test(options, build, name) for name in names]
            programs += [integration_test(options, build, name, SIMULATED) for name in [*DELIVERY, *QUICK_DELIVERY]]
            programs += python_tests(options, build)
    return [
        program for program in programs
        if matches(program.name, options.only or ["*"]) and not matches(program.name, options.without)
    ]  # fmt: skip


def is_real(device):
    return bool(device) and not device.lower().startswith("host")


def missing_device(options):
    """Why no consumer can have batches on the device, or None. libfeed tells; it checks before it connects."""
    command = [options.build.resolve() / "tests/consumer", "--dataset=none", "--batch-size=1", f"--device={options.device}"]
    environment = {**os.environ, "FEEDD_SOCKET": "/nonexistent/feedd.sock"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return f"{command[0]} ended with status {done.returncode}: {done.stderr}"
    return None if answer["code"] == "ECONNREFUSED" else answer["text"]


def kill_session(leader):
    """Kills the processes left in a session; returns how many there were."""
    left = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            pid = int(entry.name)
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if os.getsid(pid) == leader and state != "Z":
                os.kill(pid, signal.SIGKILL)
                left += 1
        except OSError:
            continue  # it has ended in the meantime
    return left


def execute(program, slowness):
    """Runs one program in a separate session: (exit status or None when out of time, processes left, output)."""
    environment = {**os.environ, **sanitizer_settings(), "CMOCKA_MESSAGE_OUTPUT": "TAP", **program.environment}
    with tempfile.TemporaryFile() as sink:
        child = subprocess.Popen(
            program.command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=ROOT,
            env=environment, start_new_session=True,
        )  # fmt: skip
        running.add(child.pid)
        try:
            status = child.wait(program.limit_s * slowness)
        except subprocess.TimeoutExpired:
            status = None
        left = kill_session(child.pid)
        child.wait()
        running.discard(child.pid)
        sink.seek(0)
        return status, left, sink.read().decode(errors="replace")


def judge(program, status, left, output):
    """Turns a program's exit and output into cases; any inconsistency is a failure."""
    if not program.speaks_tap:
        cases = [tap.Case(program.name, "passed" if status == 0 else "failed", f"exit status {status}")]
        return cases
    outcome = tap.parse(output)
    cases = outcome.cases
    failed = sum(case.state == "failed" for case in cases)
    missing = outcome.planned - len(cases)

    def wrong(reason):
        cases.append(tap.Case(program.name, "failed", reason))

    if status is None:
        wrong(f"out of time, {max(missing, 0)} cases not finished")
    elif status < 0:
        wrong(f"ended by signal {-status}, {max(missing, 0)} cases not finished")
    elif outcome.planned < 1:
        wrong("announced no case")
    elif missing:
        wrong(f"announced {outcome.planned} cases, reported {len(cases)}")
    elif status and not failed:
        wrong(f"exit status {status} although no case failed")
    if left and status is not None:
        wrong(f"{left} processes left behind")
    return cases


def end_early(number, _):
    """Interrupted: programs in separate sessions do not get the signal, so end them."""
    for leader in list(running):
        kill_session(leader)
    os._exit(128 + number)


def run_program(program, slowness):
    if program.skip:
        return Result(program, [tap.Case(program.name, "skipped", program.skip)], "", 0.0)
    begun = time.monotonic()
    try:
        status, left, output = execute(program, slowness)
    except OSError as error:
        cases = [tap.Case(program.name, "failed", f"cannot run: {error}")]
        return Result(program, cases, "", 0.0)
    return Result(program, judge(program, status, left, output), output, time.monotonic() - begun)


def report(result):
    """One line for a program that passed; the whole output of one that did not."""
    failed = result.count("failed")
    print(
        f"{'FAILED' if failed else 'ok':6}  {result.program.name:36} {result.count('passed'):4} passed,"
        f" {failed} failed, {result.count('skipped')} skipped  {result.seconds:.1f} s",
        flush=True,
    )
    if not failed:
        return
    print(f"---- output of {result.program.name}: {' '.join(result.program.command)}")
    print(result.output.rstrip())
    for case in result.cases:
        if case.state == "failed":
            print(f"---- FAILED {result.program.name}: {case.name}{': ' + case.reason if case.reason else ''}")
    sys.stdout.flush()


def summarise(results):
    cases = [(result.program.name, case) for result in results for case in result.cases]
    for state in ("failed", "skipped"):
        for program, case in cases:
            if case.state == state:
                print(f"{state}: {program}: {case.name}{': ' + case.reason if case.reason else ''}")
    passed, failed, skipped = (sum(case.state == state for _, case in cases) for state in ("passed", "failed", "skipped"))
    if not passed and not failed:
        print("nothing ran: that is a failure")
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="build directory to test")
    parser.add_argument(
        "--only", action="append", default=[], help="programs whose name matches, as in 'unit/test_ring*'; may be repeated"
    )
    parser.add_argument("--without", action="append", default=[], help="programs to leave out; may be repeated")
    parser.add_argument("--unit", action="store_true", help="unit tests alone")
    parser.add_argument(
        "--torch", action="store_const", dest="with_packages", const="torch", default="",
        help="the tests of the Python package alone, with PyTorch",
    )
    parser.add_argument(
        "--frameworks", action="store_const", dest="with_packages", const="frameworks",
        help="those with Lightning, Accelerate, transformers and Ray alone",
    )
    parser.add_argument(
        "--device", default="", help="where consumers want their batches, as in cuda:0: what depends on it alone"
    )
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--limit", type=float, default=120, help="seconds for a unit test program")
    parser.add_argument("--slowness", type=float, default=1, help="stretches every time limit (sanitizers)")
    parser.add_argument("--wrap", default="", help="command to put before each unit test program")
    options = parser.parse_args(arguments)
    options.wrap = options.wrap.split()
    return options


def main():
    options = parse_arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_early)
    if options.device and (reason := missing_device(options)):
        print(f"no test can run on {options.device}: {reason}", flush=True)
        return 1
    if is_real(options.device):
        options.jobs = min(options.jobs, GPU_JOBS)
    programs = find_programs(options)
    others = [program for program in programs if program.name.startswith("integration")]
    results = []

    def finish(result):
        report(result)
        results.append(result)

    def run_all(those, at_once):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            jobs = [pool.submit(run_program, program, options.slowness) for program in those]
            for job in concurrent.futures.as_completed(jobs):
                finish(job.result())

    run_all([program for program in programs if program not in others], options.jobs)
    # Each runs options.jobs tests at a time on its own. The last ones mostly wait, so another program runs beside them, except
    # on a GPU, where every consumer opens a context of its own.
    run_all(others, 1 if is_real(options.device) else 2)
    results.sort(key=lambda result: result.program.name)
    return summarise(results)


if __name__ == "__main__":
    sys.exit(main())
