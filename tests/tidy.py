#!/usr/bin/env python3
"""Checks what no other tool checks about this tree: sizes, the direction of includes, the writers of shared words, stray words.

Prints one line a finding and exits with 1 if there is any. `tidy.py --self-test` shows that every rule can fire.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 400
MAX_PROTOCOL_LINES = 480  # the numbers of all fields in one place, most of them with a line that says what they are
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = {".c": 120, ".h": 120, ".def": 120, ".proto": 120, ".py": 128}  # of C comments: clang-format sees to code

# Which folders a folder may include from, besides itself.
INCLUDES = {
    "base": set(),
    "parquet": {"base"},
    "block": {"base", "parquet"},
    "order": {"base"},
    "shm": {"base", "order"},
    "gpu": {"base", "shm"},
    "proto": {"base", "shm"},
    "client": {"base", "order", "shm", "gpu", "proto", "parquet", "block"},
    "daemon": {"base", "order", "shm", "gpu", "proto", "parquet", "block"},
    "bench": {"base", "order", "shm", "gpu", "proto", "parquet", "block", "client", "daemon"},
    "tests": {"base", "order", "shm", "gpu", "proto", "parquet", "block", "client", "daemon", "bench"},
}
# What libfeed and the Python package are not linked with.
NOT_IN_LIBFEED = {"parquet", "block"}
# Which folders a folder below client/ or daemon/ may include from, besides itself, the folders below it, and the files
# directly in client/ or daemon/. In the supervisor, includes go one way.
INSIDE = {
    "client/lib": [],
    "client/ctl": ["client/lib"],
    "client/exporter": ["client/ctl", "client/lib"],
    "client/python": [],
    "daemon/config": [],
    "daemon/dataset": ["daemon/image"],
    "daemon/image": [],
    "daemon/source": ["daemon/dataset", "daemon/config"],
    "daemon/source/build": ["daemon/dataset", "daemon/config", "daemon/image"],
    "daemon/source/index": ["daemon/source/build", "daemon/dataset", "daemon/config"],
    "daemon/source/tokens": ["daemon/source/index", "daemon/source/build", "daemon/dataset", "daemon/config"],
    "daemon/source/folder": ["daemon/source/index", "daemon/source/build", "daemon/dataset", "daemon/config"],
    "daemon/source/tar": ["daemon/source/index", "daemon/source/build", "daemon/dataset", "daemon/config"],
    "daemon/source/arrow": ["daemon/source/tokens", "daemon/source/index", "daemon/source/build", "daemon/dataset",
                            "daemon/config"],
    "daemon/source/parquet": ["daemon/source/arrow", "daemon/source/index", "daemon/source/build", "daemon/dataset",
                              "daemon/config"],
    "daemon/confine": [],
    "daemon/loader": ["daemon/dataset", "daemon/confine"],
    "daemon/loader/block": ["daemon/loader/read", "daemon/dataset"],
    "daemon/loader/read": ["daemon/dataset"],
    "daemon/loader/stage": ["daemon/dataset", "daemon/image", "daemon/loader/read"],
    "daemon/transfer": ["daemon/confine", "daemon/image"],
    "daemon/supervisor": ["daemon/config", "daemon/confine", "daemon/dataset", "daemon/source", "daemon/loader"],
    "daemon/supervisor/delivery": [],
    "daemon/supervisor/processes": ["daemon/config", "daemon/confine", "daemon/dataset"],
    "daemon/supervisor/feeds": ["daemon/supervisor/delivery", "daemon/supervisor/processes", "daemon/config",
                                "daemon/dataset"],
    "daemon/supervisor/clients": ["daemon/supervisor/feeds", "daemon/supervisor/delivery", "daemon/supervisor/processes",
                                  "daemon/config", "daemon/confine", "daemon/dataset", "daemon/source",
                                  "daemon/loader/read", "daemon/loader/stage"],
}  # fmt: skip
# What all folders of the supervisor, and all of formats, may include.
SHARED = {"daemon/source/source.h", "daemon/source/source_npy.h",
          "daemon/supervisor/supervisor.h", "daemon/supervisor/poll_set.h", "daemon/supervisor/datasets.h",
          "daemon/supervisor/notify.h", "daemon/supervisor/closer.h",
          "daemon/supervisor/task.h", "daemon/supervisor/indexing.h"}  # fmt: skip
# Main programs, which nobody calls; tests and bench are full of them.
PROGRAMS = {"daemon/main.c", "client/ctl/feedctl.c", "client/exporter/exporter.c", "client/example.c"}
# Public: it may be included by programs that know nothing of this tree.
STANDALONE = {"client/feed.h"}
# The names of CUDA's headers, the one file that includes them, and the files that include that one.
CUDA_HEADER = re.compile(r'\s*#\s*include\s+[<"](cuda\w*|cu[A-Z]\w*|nv\w+)\.h[>"]')
CUDA_INCLUDER = "gpu/gpu_cuda_driver.h"
# Paths and names of places where the tree was written or built; they mean nothing to a reader.
STRAY = re.compile(r"/work/|/home/\w|/root/|/tmp/b-|\bTODO\b|\bFIXME\b|\bXXX\b")
# Unchanged copies of other projects' code.
VENDORED = "third_party"
CODE = {".c", ".h", ".def", ".py", ".sh", ".proto"}


def list_files(root):
    """Every file of ours that git tracks or would track; outside a clone, every file except build output."""
    if not (root / ".git").exists():
        files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
        return [pathlib.PurePosixPath(path) for path in files if path.parts[0] not in ("build", VENDORED)]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [pathlib.PurePosixPath(name) for name in names if (root / name).is_file()]
    return [path for path in paths if path.parts[0] != VENDORED]


def check_size(path, lines):
    most = MAX_PROTOCOL_LINES if path.suffix == ".proto" else MAX_FILE_LINES
    if path.suffix in CODE and len(lines) > most:
        yield 1, f"{len(lines)} lines; {most} are the limit: look for the seam"
    for number, line in enumerate(lines, 1):
        limit = MAX_COLUMNS.get(path.suffix, len(line))
        if len(line) > limit:
            yield number, f"{len(line)} columns; {limit} are the limit"


def check_c_functions(path, lines):
    """A function runs from its line in column 0 that opens a brace to the `}` in column 0."""
    if path.suffix not in {".c", ".h"}:
        return
    begin = None
    for number, line in enumerate(lines, 1):
        if begin is None and re.match(r"[A-Za-z_].*\)\s*\{$|\s.*\)\s*\{$", line) and not line.startswith(" " * 4 + " "):
            begin = number if re.match(r"[A-Za-z_]", line) else begin
        elif line.startswith("}") and begin is not None:
            if number - begin + 1 > MAX_FUNCTION_LINES:
                yield begin, f"a function of {number - begin + 1} lines; {MAX_FUNCTION_LINES} are the limit"
            begin = None


def check_python_functions(path, lines):
    if path.suffix != ".py":
        return
    begin, indent = None, 0
    for number, line in enumerate([*lines, "end"], 1):
        here = len(line) - len(line.lstrip())
        if begin is not None and line.strip() and here <= indent and not line.lstrip().startswith(")"):
            if number - begin > MAX_FUNCTION_LINES:
                yield begin, f"a function of {number - begin} lines; {MAX_FUNCTION_LINES} are the limit"
            begin = None
        if begin is None and re.match(r"\s*(async )?def ", line):
            begin, indent = number, here


def check_includes(path, lines):
    folder = path.parts[0]
    if path.suffix not in {".c", ".h"} or folder not in INCLUDES:
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        target = pathlib.PurePosixPath(match.group(1))
        if str(path) in STANDALONE:
            yield number, "the public header must stand alone"
        elif len(target.parts) == 1:
            # Generated code is used in one place, and others see its types only through that header.
            if target.name == "feed.pb-c.h" and folder in {"shm", "client", "daemon"} and not path.name.startswith("test_"):
                yield number, "generated code is included through proto/codec.h"
            elif target.suffix == ".h" and target.name != "feed.pb-c.h" and (ROOT / path.parent / target).exists():
                yield number, f"include paths begin at the root: {path.parent / target}"
        elif target.parts[0] != folder and target.parts[0] not in INCLUDES[folder]:
            if target.parts[0] in INCLUDES:
                yield number, f"{folder}/ must not include from {target.parts[0]}/"
        elif target.parts[0] in NOT_IN_LIBFEED and str(path.parent).startswith(("client/lib", "client/python")):
            yield number, f"libfeed is not linked with {target.parts[0]}/"


def includes_of(lines):
    for number, line in enumerate(lines, 1):
        if match := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
            yield number, match.group(1)


def check_inside(path, lines):
    """Includes go one way between the folders of client/ and daemon/ too."""
    if path.suffix not in {".c", ".h"}:
        return
    home = next((str(parent) for parent in path.parents if str(parent) in INSIDE), None)
    if home is None:
        return
    for number, name in includes_of(lines):
        target = pathlib.PurePosixPath(name)
        if target.parts[0] != path.parts[0] or str(target.parent) == path.parts[0]:
            continue
        if name in SHARED and home.startswith(f"{target.parent}/"):
            continue
        if not any(target.is_relative_to(folder) for folder in [home, *INSIDE[home]]):
            yield number, f"{path.parent}/ must not include from {target.parent}/"


def check_own_header(path, lines):
    """A source file has a header of its name beside it and includes it, so that what it defines is what others see."""
    if path.suffix != ".c" or path.parts[0] in {"tests", "bench"} or str(path) in PROGRAMS:
        return
    header = path.with_suffix(".h")
    if str(header) not in {name for _, name in includes_of(lines)}:
        yield 1, f"it has to have, and to include, a header {header} of its own"


def check_cuda(path, lines):
    """Programs must build and start without CUDA, so nothing else may know its types."""
    if path.suffix not in {".c", ".h", ".def"}:
        return
    for number, line in enumerate(lines, 1):
        if CUDA_HEADER.match(line) and str(path) != CUDA_INCLUDER:
            yield number, f"{CUDA_INCLUDER} alone includes CUDA's headers"
        elif f'"{CUDA_INCLUDER}"' in line and "#" in line and not path.match("gpu/gpu_cuda*.c"):
            yield number, f"{CUDA_INCLUDER} is for gpu/gpu_cuda*.c alone"


def check_writers(path, lines):
    """Each shared word has a writer named beside it, in the comment over its block or over its structure."""
    if str(path) != "shm/layout.h":
        return
    documented = False
    comment = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("//"):
            comment += " " + text
        elif text.startswith("struct ") and text.endswith("{"):
            documented = names_writer(comment)
            comment = ""
        elif not text:
            comment = ""
        else:
            documented = documented or names_writer(comment)
            words = re.search(r"_Atomic \w+ \w+(\[[^]]*\])?;|struct ring_failure failure", line)
            if words and not documented and not names_writer(text):
                yield number, "a shared word without a word on who may write it"
        if text.startswith("}"):
            documented, comment = False, ""


def names_writer(comment):
    return bool(re.search(r"\b(written|writes|advance|set|supervisor|loader|monotonic|once)\b", comment, re.IGNORECASE))


def check_stray(path, lines):
    if str(path) == "tests/tidy.py":
        return
    for number, line in enumerate(lines, 1):
        if match := STRAY.search(line):
            yield number, f"stray {match.group(0)!r}"


RULES = [
    check_size, check_c_functions, check_python_functions, check_includes, check_inside, check_own_header, check_cuda,
    check_writers, check_stray,
]  # fmt: skip


def check_tree(root):
    findings = []
    for path in list_files(root):
        try:
            lines = (root / path).read_text().splitlines()
        except UnicodeDecodeError:
            continue  # data
        for rule in RULES:
            findings += [f"{path}:{number}: {text}" for number, text in rule(path, lines)]
    return findings


# One broken file per rule: (path, text, part of the finding).
BROKEN = [
    ("shm/long.c", "\n" * 401, "401 lines"),
    ("shm/wide.c", "int a;" + " " * 120 + "\n", "columns"),
    ("shm/function.c", "int f(void) {\n" + "    f();\n" * 70 + "}\n", "a function of 72 lines"),
    ("tests/function.py", "def f():\n" + "    f()\n" * 70 + "\n\nx = 1\n", "a function of"),
    ("shm/up.c", '#include "proto/frame.h"\n', "must not include"),
    ("client/across.c", '#include "daemon/log.h"\n', "must not include"),
    ("daemon/across.c", '#include "client/feed.h"\n', "must not include"),
    ("parquet/up.c", '#include "block/block.h"\n', "must not include"),
    ("block/up.c", '#include "order/order.h"\n', "must not include"),
    ("client/lib/decode.c", '#include "block/block_decode.h"\n', "libfeed is not linked with block/"),
    ("client/feed.h", '#include "base/base.h"\n', "stand alone"),
    ("client/generated.c", '#include "feed.pb-c.h"\n', "generated code"),
    ("gpu/up.c", '#include "proto/frame.h"\n', "must not include"),
    ("shm/across.c", '#include "gpu/gpu.h"\n', "must not include"),
    ("gpu/gpu.c", "#include <cuda.h>\n", "alone includes CUDA's headers"),
    ("tests/unit/test_gpu.c", "#include <cuda_runtime.h>\n", "alone includes CUDA's headers"),
    ("daemon/device.c", '#include "gpu/gpu_cuda_driver.h"\n', "is for gpu/gpu_cuda*.c alone"),
    ("client/lib/up.c", '#include "client/ctl/text.h"\n', "must not include from client/ctl/"),
    ("daemon/loader/across.c", '#include "daemon/transfer/copies.h"\n', "must not include from daemon/transfer/"),
    ("daemon/loader/read/up.c", '#include "daemon/loader/loader.h"\n', "must not include from daemon/loader/"),
    ("daemon/transfer/up.c", '#include "daemon/supervisor/supervisor.h"\n', "must not include from daemon/supervisor/"),
    ("daemon/source/up.h", '#include "daemon/loader/job.h"\n', "must not include from daemon/loader/"),
    ("daemon/config/up.h", '#include "daemon/dataset/dataset.h"\n', "must not include from daemon/dataset/"),
    ("daemon/supervisor/feeds/up.h", '#include "daemon/supervisor/clients/session.h"\n', "must not include from"),
    ("daemon/supervisor/feeds/top.c", '#include "daemon/supervisor/watch.h"\n', "must not include from"),
    ("daemon/supervisor/delivery/up.h", '#include "daemon/supervisor/feeds/pool.h"\n', "must not include from"),
    ("gpu/alone.c", '#include "gpu/gpu.h"\n', "gpu/alone.h of its own"),
    ("shm/layout.h", "struct a {\n    _Atomic uint32_t word;\n};\n", "who may write it"),
    ("README.md", "see /home/me/feedd\n", "stray"),
]


def self_test():
    missed = 0
    for name, text, wanted in BROKEN:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
            findings = check_tree(root)
        if not any(finding.startswith(name) and wanted in finding for finding in findings):
            print(f"the rule against {name} ({wanted}) does not fire: {findings}")
            missed += 1
    return missed


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    findings = check_tree(ROOT)
    print("".join(f"{finding}\n" for finding in findings), end="")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
