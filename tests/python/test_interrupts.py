"""Ctrl-C, time limits, daemons that are not there, and what cannot be passed on."""

import contextlib
import errno
import os
import pickle
import select
import signal
import socket
import subprocess
import time

import pytest
import support
from support import SHUFFLED, numbers_of, read, take, wanted

import feedd
from feedd import _feed

INTERRUPTED = """
import feedd, sys, time
loader = feedd.DataLoader("numbers", 16, shuffle=True, seed=11, framework="numpy", prefetch_factor=1)
iterator = iter(loader)
def show(batch): print(*batch[0].tolist(), flush=True)
show(next(iterator))
sys.stdin.readline()
try:
    while True: show(next(iterator))
except KeyboardInterrupt:
    print("interrupted", flush=True)
for batch in iterator: show(batch)
"""


def test_interrupt_of_a_wait():
    """It comes through at once, and nothing is lost by it."""
    with support.instance() as daemon:
        process = support.start(INTERRUPTED, daemon=daemon, stdin=subprocess.PIPE)
        lines = [process.stdout.readline()]
        with support.stopped(daemon):
            process.stdin.write("\n")
            process.stdin.close()
            time.sleep(0.5)  # what was granted is read by then, and the program waits
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            while lines[-1] not in ("interrupted\n", ""):
                lines.append(process.stdout.readline())
            assert lines.pop() == "interrupted\n"
            assert time.monotonic() - begun < support.harness.SLOWNESS
        assert numbers_of("".join(lines) + support.finish(process)) == wanted(**SHUFFLED)


ATTACHING = """
import feedd, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begins", flush=True)
try: {}
except KeyboardInterrupt: print("interrupted", flush=True)
"""
ATTACH = ["feedd.DataLoader('numbers', 16, framework='numpy')", "feedd.Dataset('numbers', framework='numpy')[3]"]


@contextlib.contextmanager
def mute(path, answer):
    """A socket whose owner says nothing; gives a function that waits until somebody waits for an answer."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(0)

        def wait():
            if answer == "the queue is full":
                time.sleep(0.5)  # nothing tells that somebody wants to get in
                return
            assert select.select([listener], [], [], 20)[0], "nobody comes"
            if answer == "taken":
                connection = stack.enter_context(listener.accept()[0])
                assert connection.recv(1), "it has said hello and waits"

        if answer == "the queue is full":
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        yield wait


@pytest.mark.parametrize("answer", ["taken", "queued", "the queue is full"])
@pytest.mark.parametrize("attach", ATTACH)
def test_interrupt_of_an_attachment(tmp_path, attach, answer):
    """To a daemon that hangs, for which it would wait for half a minute."""
    path = tmp_path / "feedd.sock"
    with mute(path, answer) as wait:
        process = support.start(ATTACHING.format(attach), variables={"FEEDD_SOCKET": str(path)})
        assert process.stdout.readline() == "begins\n"
        wait()
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert support.finish(process) == "interrupted\n"
        assert time.monotonic() - begun < 3 * support.harness.SLOWNESS


AT_ANY_MOMENT = """
import feedd, signal, time
class Heard(Exception): pass
def hear(number, frame): raise Heard
signal.signal(signal.SIGALRM, hear)
for tenths_of_ms in range(1, 150):
    begun = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, tenths_of_ms / 10000, 5)  # and once more, if that one is not heard
        feedd.DataLoader("numbers", 16, framework="numpy")
    except Heard: pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert time.monotonic() - begun < 4, "not heard"
"""


def test_an_interrupt_of_an_attachment_is_heard_at_any_moment(tmp_path):
    """Also between two waits."""
    path = tmp_path / "feedd.sock"
    with mute(path, "the queue is full"):
        support.run(AT_ANY_MOMENT, variables={"FEEDD_SOCKET": str(path)})


def test_signals_with_handlers_of_ones_own():
    """They run during a wait, which continues after them."""
    with support.instance() as daemon, support.loader(daemon, prefetch_factor=1, **SHUFFLED) as loader:
        iterator = iter(loader)
        found = take(iterator, 1)
        heard = []

        def wake(number, _frame):
            heard.append(number)
            daemon.process.send_signal(signal.SIGCONT)

        before = signal.signal(signal.SIGUSR1, wake)
        try:
            with support.stopped(daemon):
                timer = subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -USR1 {os.getpid()}"])
                found += read(iterator)
                timer.wait()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert heard == [signal.SIGUSR1] and found == wanted(**SHUFFLED)


@pytest.mark.parametrize("device", support.DEVICES)
def test_timeout(device):
    options = {"timeout": 0.3, "device": device, "prefetch_factor": 1, **SHUFFLED}
    with support.instance() as daemon, support.loader(daemon, **options) as loader:
        iterator = iter(loader)
        found = take(iterator, 1)
        with support.stopped(daemon):
            with pytest.raises(feedd.Timeout, match="no batch came within 0.3 s") as raised:
                while True:
                    begun = time.monotonic()
                    found += take(iterator, 1)
            assert 0.25 < time.monotonic() - begun < 2 * support.harness.SLOWNESS
            assert isinstance(raised.value, TimeoutError)
            with pytest.raises(feedd.Timeout):
                next(iterator)
        assert found + read(iterator) == wanted(**SHUFFLED), "nothing is lost by it"


def test_no_daemon(tmp_path, monkeypatch):
    with pytest.raises(feedd.Unavailable, match="no feedd is listening") as found:
        feedd.DataLoader("numbers", socket=tmp_path / "none.sock")
    assert isinstance(found.value, ConnectionError) and "none.sock" in str(found.value)
    assert found.value.code == errno.ECONNREFUSED, "a different code: ENOENT means that there is no such dataset"
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEEDD_SOCKET", str(tmp_path / "file"))
    with pytest.raises(feedd.Unavailable, match="not a socket"):
        feedd.DataLoader("numbers")


def test_a_daemon_that_stays_away():
    with support.instance() as daemon:
        feed = _feed.Feed("numbers", 16, socket=str(daemon.socket), reconnect_timeout_ms=300, prefetch=2)
        batch = feed.next()
        daemon.stop()
        with pytest.raises(feedd.Unavailable) as found:
            while True:
                feed.next()
        assert found.value.code
        assert batch.arrays()[0].tobytes()[:16] == bytes([0] * 8 + [1] + [0] * 7)
        assert feed.token()
        feed.close()


def test_errors_are_of_their_kinds():
    kinds = {
        feedd.Timeout: TimeoutError, feedd.TooManyBatches: BufferError, feedd.Unavailable: ConnectionError,
        feedd.OptionError: ValueError,
    }  # fmt: skip
    for kind, also in kinds.items():
        assert issubclass(kind, feedd.Error) and issubclass(kind, also) and issubclass(kind, RuntimeError)


AT_THE_END = """
import feedd, os, sys, threading
loader = feedd.DataLoader("numbers", 16, framework="numpy")
class Last:
    def __init__(self, loader, write): self.loader, self.write = loader, write
    def __del__(self): self.loader.state_dict(), self.write(1, b"ended\\n")
sys.last = Last(loader, os.write)  # goes when the interpreter has begun to end
def read():
    [None for _ in loader]
    print("reads", flush=True)
    while True: [None for _ in loader]
threading.Thread(target=read, daemon=True).start()
sys.stdin.readline()
"""


def test_the_end_of_a_program_while_a_thread_connects_again():
    """The thread is stopped where it asks for the interpreter's lock: it must not have the loader's then."""
    with support.instance() as daemon:
        process = support.start(AT_THE_END, daemon=daemon, stdin=subprocess.PIPE)
        assert process.stdout.readline() == "reads\n"
        support.kill(daemon)
        os.unlink(daemon.socket)
        with mute(daemon.socket, "taken") as wait:
            wait()
            process.stdin.close()  # within the 2 s that an attempt to attach takes
            assert support.finish(process) == "ended\n"
        os.unlink(daemon.socket)
        daemon.start()


def test_nothing_is_pickled(load_host):
    loader = load_host()
    iterator = iter(loader)
    next(iterator)
    for thing in (loader, iterator, loader._feed):
        with pytest.raises(TypeError) as found:
            pickle.dumps(thing)
        assert found.value
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(loader)
