"""A wait that takes long is explained, once, by a warning that points to the caller."""

import time
import warnings

import pytest
import support
from support import SHUFFLED, read, wanted

import feedd
from feedd import waiting


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "WARN_AFTER_MS", 200)




def test_a_daemon_that_is_lost(soon):
    with support.instance() as daemon, support.loader(daemon, prefetch_factor=1, **SHUFFLED) as loader:
        loader._opened()
        daemon.stop()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            thread = support.Thread(read, loader)
            support.harness.eventually(lambda: said, 10, "a warning")
            time.sleep(0.5)
            daemon.start()
            assert thread.done() == wanted(**SHUFFLED)
    (warning,) = said
    assert warning.category is RuntimeWarning and warning.filename == support.__file__
    text = str(warning.message)
    assert text.startswith(f"lost the connection to feedd on {daemon.socket}; trying to reconnect for 60 s, then raising"
                           " feedd.Unavailable. If feedd returns, the loader resumes where it was.")
    assert "systemctl status feedd" in text


def test_a_lost_daemon_and_a_short_timeout(soon):
    with support.instance() as daemon, support.loader(daemon, prefetch_factor=1, timeout=1, **SHUFFLED) as loader:
        loader._opened()
        daemon.stop()
        with pytest.warns(RuntimeWarning, match="lost the connection .* to reconnect for 1 s, then raising feedd.Timeout"):
            with pytest.raises(feedd.Timeout):
                read(loader)


def test_a_daemon_that_hangs(soon):
    with support.instance() as daemon, support.loader(daemon, prefetch_factor=1, timeout=1, **SHUFFLED) as loader:
        iterator = iter(loader)
        with support.stopped(daemon):
            with pytest.warns(RuntimeWarning, match="no batch has come for 0.2 s.*feedctl stats.*waits for 1 s in all") as said:
                with pytest.raises(feedd.Timeout, match="no batch came within 1 s"):
                    while True:
                        begun = time.monotonic()
                        next(iterator)
            assert 0.9 < time.monotonic() - begun < 3 * support.harness.SLOWNESS
        assert len(said) == 1


def test_a_rank_that_does_not_come(load_host, soon):
    loader = load_host(batch_size=8, rank=0, world_size=2, share="alone", timeout=0.5)
    with pytest.warns(RuntimeWarning, match="until 2 ranks on this machine have joined the feed 'alone'.*feedctl feeds"):
        with pytest.raises(feedd.Timeout):
            next(iter(loader))


def test_a_reader_that_holds_up_a_shared_feed(soon):
    with support.instance(ring="32K") as daemon, support.loaders(daemon, share="both", prefetch_factor=1) as load:
        first = load(timeout=0.5)
        load()
        with pytest.warns(RuntimeWarning, match="another reader of the feed may hold it up"):
            with pytest.raises(feedd.Timeout):
                for _ in range(50):
                    read(first)


def test_nobody_is_warned_of_a_short_wait(load_host, soon):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = load_host(batch_size=8, rank=0, world_size=2, share="short", timeout=0.1)
        with pytest.raises(feedd.Timeout):
            next(iter(loader))


OPENING = """
import feedd, sys, time, warnings
warnings.simplefilter(sys.argv[1])
begun = time.monotonic()
try: feedd.DataLoader("numbers", 16, framework="numpy")
except RuntimeWarning as warning: print("raised", warning, time.monotonic() - begun < 7)
"""


@pytest.mark.parametrize("action", ["error", "always"])
def test_a_daemon_that_does_not_answer(action):
    with support.instance() as daemon:
        with support.stopped(daemon):
            process = support.start(OPENING, action, daemon=daemon)
            line = process.stdout.readline()
        rest = support.finish(process)
    assert f"feedd on {daemon.socket} has not answered for 5 s: this loader gives up after 30 s" in line
    assert line.endswith("True\n") if action == "error" else line.startswith("<string>:5: RuntimeWarning"), line + rest
