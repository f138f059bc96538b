"""What the wheel is: one module for all Pythons from 3.10 on that needs the C library and exports one name."""

import inspect
import pathlib
import pickle
import re
import shutil
import subprocess
import traceback
import zipfile

import harness
import pytest

import feedd
from feedd import _feed

FOLDER = pathlib.Path(feedd.__file__).parent
MODULE = FOLDER / "_feed.abi3.so"
SOURCES = harness.ROOT / "client/python"
PROTOCOLS = ("__dlpack__", "__dlpack_device__", "__array_interface__", "__cuda_array_interface__")


def output(*command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
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
    files = [file for file in (SOURCES / "feedd").rglob("*") if file.suffix in (".py", ".pyi", ".typed")]
    here = {str(file.relative_to(SOURCES)) for file in files}
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


@pytest.mark.parametrize("name", ["Error", "OptionError", "Timeout", "TooManyBatches", "Unavailable"])
def test_tracebacks_name_exceptions_as_programs_do(name):
    kind = getattr(feedd, name)
    error = kind("a sentence")
    error.code = 7
    assert traceback.format_exception_only(kind, error) == [f"feedd.{name}: a sentence\n"]
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code) == (kind, "a sentence", 7)


def stub():
    """What _feed.pyi defines: it is Python that does nothing."""
    defined = {}
    exec(compile((FOLDER / "_feed.pyi").read_text(), "_feed.pyi", "exec"), defined)
    return defined


@pytest.mark.parametrize("name", ["Array", "Batch", "Feed"])
def test_the_stub_is_true(name):
    """_feed.pyi and the module name the same methods and the same attributes."""
    said, kind = stub()[name], getattr(_feed, name)
    own = {member: value for member, value in vars(said).items() if not member.startswith("__") or member in PROTOCOLS}
    methods = {member for member, value in own.items() if callable(value)}
    attributes = own.keys() - methods | inspect.get_annotations(said).keys()
    there = {member: value for member, value in vars(kind).items() if not member.startswith("__") or member in PROTOCOLS}
    assert methods == {member for member, value in there.items() if callable(value)}
    assert attributes == {member for member, value in there.items() if inspect.isdatadescriptor(value)}
    assert methods | attributes == there.keys()
    if getattr(said, "__final__", False):
        with pytest.raises(TypeError, match="base type"):
            type(name, (kind,), {})


def test_the_stub_tells_what_describe_gives(daemon):
    feed = _feed.Feed("numbers", 16, socket=str(daemon.socket))
    assert feed.describe().keys() == set(stub()["Description"].__annotations__)
    feed.close()


def test_the_stub_tells_feeds_arguments(daemon):
    """The same names, and defaults that say nothing."""
    said = {name: parameter.default for name, parameter in inspect.signature(stub()["Feed"]).parameters.items()}
    plain = {"dataset": "numbers", "batch_size": 16, "socket": str(daemon.socket)}
    found = []
    for options in (plain, {**said, **plain}):
        feed = _feed.Feed(**options)
        found.append(feed.describe())
        feed.close()
    assert found[0] == found[1]
    with pytest.raises(TypeError, match=rf"at most {len(said)} .*\({len(said) + 1} given\)"):
        _feed.Feed(**{**said, **plain}, one_more=1)
