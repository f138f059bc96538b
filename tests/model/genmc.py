#!/usr/bin/env python3
"""Runs GenMC on the harnesses in tests/model/genmc, which run the project's own code: nothing goes wrong under RC11, and
with each defect put back, what is named goes wrong."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from genmc_cases import CASES

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOW_TO_BUILD = """Debian does not package GenMC. To build it:
  apt-get install g++ make autoconf automake clang-14 llvm-14-dev libclang-14-dev libffi-dev zlib1g-dev
  git clone --branch v0.10.1 https://github.com/MPI-SWS/genmc.git && cd genmc
  autoreconf --install && ./configure --with-llvm=/usr/lib/llvm-14 && make
Then: make check-genmc GENMC=<that folder>/genmc"""
SIMPLIFY = "sroa,early-cse,simplifycfg"
PASSES = (f"internalize,globaldce,function({SIMPLIFY}),cgscc(inline),function({SIMPLIFY},dse,sroa,adce),globaldce")


def sources_of(case, folder):
    """The harness and what is linked with it; files in `folder` replace those of the project."""
    harness = HERE / f"genmc/{case.harness}.c"
    linked = " ".join(re.findall(r"^// Linked with: (.*)$", harness.read_text(), re.M)).split()
    return [harness, *(folder / file if (folder / file).exists() else ROOT / file for file in linked)]


def flags_of(arguments, case, folder):
    return ["-w", "-std=gnu11", "-I", folder, "-I", ROOT, "-I", arguments.build / "gen",
            *[f"-D{definition}" for definition in case.definitions.split()]]


def compile_harness(arguments, case, folder):
    """To LLVM's intermediate language, in `folder`. Everything is inlined into the threads and then simplified, because GenMC
    counts each access to a variable in memory, and does not understand copies of whole structures. None of these passes moves
    or merges atomic operations."""
    version = arguments.llvm
    parts = []
    for source in sources_of(case, folder):
        parts.append(folder / f"{len(parts)}.bc")
        subprocess.run([f"clang-{version}", "-c", "-emit-llvm", "-O1", "-g", "-Xclang", "-disable-llvm-passes",
                        *flags_of(arguments, case, folder), source, "-o", parts[-1]], check=True)
    subprocess.run([f"llvm-link-{version}", *parts, "-o", folder / "all.bc"], check=True)
    subprocess.run([f"opt-{version}", "-internalize-public-api-list=main", "-inline-threshold=1000000",
                    f"-passes={PASSES}", folder / "all.bc", "-o", folder / "plain.bc"], check=True)
    return folder / "plain.bc"


def edit(edits, folder):
    """Writes the files of the project that are edited to `folder`."""
    for file, old, new in edits:
        path = folder / file
        text = (path if path.exists() else ROOT / file).read_text()
        if text.count(old) != 1:
            raise RuntimeError(f"{file} has {text.count(old)} times, not once:\n{old}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(old, new))


def run_genmc(arguments, program, folder):
    """What GenMC prints, and the seconds of processor time that it takes. At the limit the kernel ends it."""
    with open(folder / "output", "w+", encoding="utf-8") as output:
        command = ["prlimit", f"--cpu={arguments.limit}", arguments.genmc, "--rc11", "--disable-estimation",
                   "--input-from-bitcode-file", program]
        with subprocess.Popen(command, stdout=output, stderr=output) as process:
            _, process.returncode, usage = os.wait4(process.pid, 0)
        output.seek(0)
        return output.read(), usage.ru_utime + usage.ru_stime


def search(arguments, case):
    """What GenMC found ("": nothing, after all executions), and figures about the search."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        edit(case.edits, folder)
        output, seconds = run_genmc(arguments, compile_harness(arguments, case, folder), folder)
    if arguments.verbose:
        print(output, flush=True)
    executions = re.search(r"complete executions explored: (\d+)", output)
    blocked = re.search(r"blocked executions seen: (\d+)", output)
    error = re.search(r"^(Assertion violation: .*)$", output, re.M) or re.search(r"^(Error: .*)$", output, re.M)
    if not executions or (not error and "No errors were detected" not in output):
        raise RuntimeError(f"not finished in {seconds:.0f} of {arguments.limit} s; GenMC says:\n{output[-3000:]}")
    figures = f"{int(executions.group(1)):,} executions"
    figures += f", {int(blocked.group(1)):,} blocked" if blocked else ""
    return error.group(1) if error else "", f"{figures}, {seconds:.1f} s"


def check_one(arguments, case):
    """Prints a line about one search: whether it went as it must."""
    title = f"{case.harness}: {case.title}"
    try:
        error, figures = search(arguments, case)
    except (RuntimeError, subprocess.CalledProcessError) as failure:
        print(f"FAILED  {title}: {failure}", flush=True)
        return False
    if case.error and case.error in error:
        print(f"found   {title}: {error}; {figures}", flush=True)
        return True
    if not case.error and not error:
        print(f"holds   {title}: {figures}", flush=True)
        return True
    print(f"FAILED  {title}: \"{error or 'no error'}\" in place of \"{case.error or 'no error'}\"; {figures}", flush=True)
    return False


def compiles(arguments, case):
    """Reports if the harness or an edited file does not compile. Files linked unedited have been compiled elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            edit(case.edits, folder)
        except RuntimeError as failure:
            print(f"FAILED  {case.harness}: {case.title}: {failure}", flush=True)
            return False
        harness, *linked = sources_of(case, folder)
        edited = [source for source in linked if folder in source.parents]
        command = [*arguments.compiler.split(), "-fsyntax-only", *flags_of(arguments, case, folder), harness, *edited]
        if subprocess.run(command).returncode == 0:
            return True
    print(f"FAILED  {case.harness}: {case.title}: it does not compile", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--genmc", default="genmc", help="the program")
    parser.add_argument("--llvm", default="14", help="the version of LLVM that GenMC was built with")
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path, help="the build directory")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=300, help="seconds of processor time per search")
    parser.add_argument("--only", default="", help="a part of the titles of the searches that are wanted")
    parser.add_argument("--compiler", help="only check that all harnesses and edits compile with this compiler")
    parser.add_argument("--verbose", action="store_true", help="print what GenMC prints")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in f"{case.harness}: {case.title}"]
    if arguments.compiler:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            return 0 if all(list(pool.map(lambda case: compiles(arguments, case), cases))) else 1
    programs = [arguments.genmc, *[f"{name}-{arguments.llvm}" for name in ("clang", "opt", "llvm-link")]]
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        print(f"not run: there is no {' and no '.join(missing)}. {HOW_TO_BUILD}", file=sys.stderr)
        return 1
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda case: check_one(arguments, case), cases))
    print(f"GenMC: {results.count(True)} of {len(results)} searches went as they must")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
