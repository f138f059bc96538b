"""What the wheel is: one module for all Pythons from 3.10 on that needs the C library and exports one name."""

import pathlib
import re
import shutil
import subprocess
import zipfile

import harness
import pytest

import feedd

FOLDER = pathlib.Path(feedd.__file__).parent
MODULE = FOLDER / "_feed.abi3.so"
SOURCES = harness.ROOT / "client/python"


def output(*command):
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} here")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wheel():
    wheels = list((harness.BUILD / "wheel").glob("*.whl"))
    if not wheels:
        pytest.skip("a bundle has the wheel unpacked")
    (found,) = wheels
    return found


def test_the_tag():
    """abi3, and no older Python than the package asks for."""
    name = wheel().name
    assert re.fullmatch(r"feedd-[0-9.]+-cp3[0-9]+-abi3-linux_[a-z0-9_]+\.whl", name), name
    metadata = zipfile.ZipFile(wheel()).read(f"feedd-{feedd.__version__}.dist-info/METADATA").decode()
    assert "Requires-Python: >=3.10\n" in metadata
    assert "Requires-Dist" not in metadata, "it needs no other package"


def test_the_content():
    """Every file of the package, and nothing else."""
    names = {name for name in zipfile.ZipFile(wheel()).namelist() if ".dist-info/" not in name}
    files = [file for file in (SOURCES / "feedd").iterdir() if file.suffix in (".py", ".pyi", ".typed")]
    here = {f"feedd/{file.name}" for file in files}
    assert names == here | {"feedd/_feed.abi3.so"}


def test_it_exports_one_name():
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", MODULE).splitlines()]
    assert exported == ["PyInit__feed"]


def test_it_needs_the_c_library_alone():
    needed = re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", MODULE))
    assert set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}, needed


def test_the_version_is_everybodys():
    assert feedd.__version__ == re.search(r"^VERSION\s*:=\s*(\S+)", makefile(), re.MULTILINE)[1]
    assert feedd.__version__ in output(str(harness.PROGRAMS / "feedd"), "--version")


def makefile():
    file = harness.ROOT / "Makefile"
    if not file.exists():
        pytest.skip("a bundle has no Makefile")
    return file.read_text()


def test_what_is_public():
    assert set(feedd.__all__) <= set(dir(feedd))
    for name in feedd.__all__:
        thing = getattr(feedd, name)
        assert isinstance(thing, str) or thing.__doc__, f"{name} has no docstring"


def test_the_stub_is_true():
    """_feed.pyi and the module name the same methods and attributes."""
    stub = (FOLDER / "_feed.pyi").read_text()
    for name in ("Array", "Batch", "Feed"):
        body = stub[re.search(rf"^class {name}\b", stub, re.MULTILINE).end() :].split("\n\n")[0].split("\n@final")[0]
        body = body.split("\nclass ")[0]
        said = set(re.findall(r"^    (?:def )?(\w+)[:(]", body, re.MULTILINE)) - {"__init__"}
        kind = getattr(feedd._feed, name)
        protocols = {member for member in vars(kind) if "dlpack" in member or "interface" in member}
        there = {member for member in vars(kind) if not member.startswith("__")} | protocols
        assert said == there, name
