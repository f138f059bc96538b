"""Fixtures of the tests of the Python package. ../README.md explains how such a test is written and run."""

import faulthandler
import gc
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

# Temporary files of tests and daemons go here, where leftovers are noticed; removed at the end.
FOLDER = tempfile.mkdtemp(prefix="feedd-python-")
os.environ["TMPDIR"] = tempfile.tempdir = FOLDER
os.environ.pop("FEEDD_SOCKET", None)

import harness  # noqa: E402  it reads the environment
import support  # noqa: E402
from reporter import Reporter  # noqa: E402

LIMIT_S = 30.0


def pytest_addoption(parser):
    parser.addoption("--tap", action="store_true", help="print the Test Anything Protocol")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): a test that may take longer than 30 s")
    if config.getoption("--tap"):
        config.pluginmanager.unregister(config.pluginmanager.get_plugin("terminalreporter"))
        config.pluginmanager.register(Reporter())


def pytest_unconfigure():
    shutil.rmtree(FOLDER, ignore_errors=True)


def out_of_time(_number, _frame):
    raise AssertionError("out of time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Each test has a time limit. If it does not react to the signal, its process is ended."""
    marker = item.get_closest_marker("limit")
    limit = (marker.args[0] if marker else LIMIT_S) * harness.SLOWNESS
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, limit)
    faulthandler.dump_traceback_later(limit + 10, exit=True)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def nothing_left():
    """No test leaves files or processes, or changes the environment of the next one."""

    def environment():
        return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}

    before, folder, children = environment(), set(os.listdir(FOLDER)), support.children()
    yield
    gc.collect()
    assert environment() == before
    left = {name for name in set(os.listdir(FOLDER)) - folder if not name.startswith("pytest-of-")}
    assert not left, f"left in the folder for temporary files: {left}"
    harness.eventually(lambda: support.children() <= children, 5, f"no child left but {support.children() - children}")


@pytest.fixture(scope="module")
def daemon():
    """A feedd that serves support.DATASETS to the tests of one file."""
    with harness.Instance() as instance:
        support.add_datasets(instance)
        yield instance.start()


@pytest.fixture(params=support.DEVICES)
def device(request):
    """Where batches go: host memory and a simulated GPU, or the GPU that is being tested."""
    return request.param


@pytest.fixture
def load(daemon, device):
    """support.loader() on the file's daemon and each device; the loaders are closed afterwards."""
    with support.loaders(daemon, device=device) as make:
        yield make


@pytest.fixture
def load_host(daemon):
    """The same, only in host memory."""
    with support.loaders(daemon) as make:
        yield make
