#!/usr/bin/env python3
"""Puts feedd and feedctl into the wheel of the Python package: make-wheel.py WHEEL PROGRAMS FOLDER.

PROGRAMS is a build directory with statically linked programs, whose static/ has the libraries that are in them. Writes the new
wheel to FOLDER, for Python 3.10 or newer on Linux with glibc 2.34 or newer, and fails if auditwheel finds that it needs a newer
one or anything else, or if the licence of a library is not on this machine.
"""

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "cp310"  # of whose limited API the module is made: limited_api in client/python/meson.build
GLIBC = 34  # of glibc 2.34
SCRIPTS = "[console_scripts]\nfeedd = feedd.programs:feedd\nfeedctl = feedd.programs:feedctl\n"


def fail(text):
    sys.exit(f"{sys.argv[0]}: {text}")


def stripped(program):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "-o", file.name, program], check=True)
        return pathlib.Path(file.name).read_bytes()


def licences(static):
    """Of the project, of what is copied into it, and of each library that is linked in, as Debian records it."""
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()
    yield "third_party.md", (ROOT / "third_party/README.md").read_bytes()
    for file in sorted([*(ROOT / "third_party").glob("*/LICENSE*"), *(ROOT / "third_party").glob("*/NOTICE*")]):
        yield f"{file.parent.name}-{file.name}", file.read_bytes()
    packages = {"libc6-dev"}  # whose parts for start-up are in every program
    for library in sorted(static.glob("*.a")):
        owner = subprocess.run(["dpkg", "-S", library.resolve()], capture_output=True, text=True, check=False).stdout
        package = re.match(r"[a-z0-9.+-]+", owner)
        if not package:
            fail(f"no package owns {library.resolve()}, so that its licence is unknown")
        packages.add(package[0])
    for package in sorted(packages):
        file = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not file.exists():
            fail(f"there is no {file}, and the library is linked in")
        yield f"{package}-copyright", file.read_bytes()


def contents(old, programs, tag):
    """Name, bytes and mode of each file but RECORD."""
    (info,) = {name.split("/")[0] for name in old.namelist() if ".dist-info/" in name}
    for name in old.namelist():
        data = old.read(name)
        if name == f"{info}/WHEEL":
            data = re.sub(rb"(?m)^Tag: .*$", f"Tag: {tag}".encode(), data)
        if name != f"{info}/RECORD":
            yield name, data, 0o644
    for program in ("feedd", "feedctl"):
        yield f"feedd/bin/{program}", stripped(programs / program), 0o755
    yield f"{info}/entry_points.txt", SCRIPTS.encode(), 0o644
    for name, data in licences(programs / "static"):
        yield f"{info}/licenses/{name}", data, 0o644


def write(path, files, info):
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            wheel.writestr(entry(name, mode), data)
        wheel.writestr(entry(f"{info}/RECORD", 0o644), "".join([*record, f"{info}/RECORD,,\n"]))


def entry(name, mode):
    about = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))  # the same bytes from the same files
    about.external_attr = (0o100000 | mode) << 16
    about.compress_type = zipfile.ZIP_DEFLATED
    return about


def audit(path):
    """Raises unless auditwheel finds that every program and library in it needs glibc 2.34 or an older one alone."""
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", path], capture_output=True, text=True, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    newest = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_', said)
    if done.returncode or not newest or int(newest[1]) > GLIBC:
        fail(f"auditwheel on {path}: {said}")
    return f"manylinux_2_{newest[1]}"


def main():
    source, programs, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    # meson-python writes the version of the Python that it ran with.
    tag = f"{PYTHON}-abi3-manylinux_2_{GLIBC}_{platform.machine()}"
    name, version = source.name.split("-")[:2]
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(source) as old:
        (info,) = {name.split("/")[0] for name in old.namelist() if ".dist-info/" in name}
        write(path, contents(old, programs, tag), info)
    print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB; auditwheel: {audit(path)}")


main()
