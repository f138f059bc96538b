"""Training processes and daemons that are killed."""

import json
import signal

import harness
import pytest
import support
from support import ON_GPU, numbers_of, read, samples_of, take, wanted

import feedd

SHUFFLED = {"shuffle": True, "seed": 11}
# A state is written after each batch, before the batch is used.
TRAIN = """
import feedd, json, os, sys
loader = feedd.DataLoader("numbers", 16, shuffle=True, seed=11, framework=FRAMEWORK, device=DEVICE)
file = sys.argv[1]
if os.path.exists(file): loader.load_state_dict(json.load(open(file)))
while loader.epoch < 3:
    for id, body in loader:
        json.dump(loader.state_dict(), open(file + ".new", "w"))
        os.rename(file + ".new", file)
        print(*id.tolist(), flush=True)
        if len(sys.argv) > 2: sys.stdin.readline()
"""
RUN = [batch for epoch in range(3) for batch in wanted(epoch=epoch, **SHUFFLED)]


@pytest.mark.parametrize("device", support.SCRIPT_DEVICES)
@pytest.mark.parametrize("killed_after", [[1], [13, 4, 1], [20, 18]])
def test_a_training_process_is_killed_and_goes_on(tmp_path, device, killed_after):
    """Exactly where it stood; the ring that it left is warm."""
    code = TRAIN.replace("FRAMEWORK", repr(support.FRAMEWORK)).replace("DEVICE", repr(device))
    found = []
    with support.instance() as daemon:
        for count in killed_after:
            process = support.start(code, tmp_path / "state", "wait", daemon=daemon, stdin=support.subprocess.PIPE)
            for number in range(count):
                found += numbers_of(process.stdout.readline())
                if number + 1 < count:
                    process.stdin.write("\n")
                    process.stdin.flush()
            process.send_signal(signal.SIGKILL)
            process.stdin.close()
            support.finish(process, -signal.SIGKILL)
            assert json.loads((tmp_path / "state").read_text())["feedd"] == 1
        found += numbers_of(support.run(code, tmp_path / "state", daemon=daemon))
        assert found == RUN
        assert len(daemon.statistics()["feeds"]) == 1, "each took over the feed that was there"


def kill(daemon):
    daemon.process.kill()
    daemon.process.wait()


@pytest.mark.parametrize("after", [0, 1, 7, 13])
def test_the_daemon_is_killed_and_comes_back(device, after):
    """Nothing is lost and nothing comes twice; what is held stays as it is."""
    with support.instance() as daemon, support.loader(daemon, device=device, prefetch_factor=4, **SHUFFLED) as loader:
        iterator = iter(loader)
        right = wanted(**SHUFFLED)
        found = take(iterator, max(after - 2, 0))
        held = [next(iterator) for _ in range(after - len(found))]
        kill(daemon)
        daemon.start()
        rest = read(iterator)
        assert found + [samples_of(batch) for batch in held] + rest == right
        held.clear()
        assert read(loader) == wanted(epoch=1, **SHUFFLED)


@pytest.mark.skipif(ON_GPU, reason="each start of a transfer process takes its second")
def test_the_daemon_is_killed_again_and_again(device):
    with support.instance() as daemon, support.loader(daemon, device=device, prefetch_factor=2, **SHUFFLED) as loader:
        iterator = iter(loader)
        found = []
        for _ in range(len(loader) // 2):
            found += take(iterator, 2)
            kill(daemon)
            daemon.start()
        assert found + read(iterator) == wanted(**SHUFFLED)


def test_a_loader_process_is_killed(device):
    with support.instance() as daemon, support.loader(daemon, device=device, **SHUFFLED) as loader:
        iterator = iter(loader)
        found = take(iterator, 2)
        for pid in daemon.children_called("loader"):
            support.os.kill(pid, signal.SIGKILL)
        assert found + read(iterator) == wanted(**SHUFFLED)
        harness.eventually(lambda: len(daemon.children_called("loader")) == 2, 10, "loaders are replaced")


def test_states_of_before_a_restart(device):
    with support.instance() as daemon, support.loader(daemon, device=device, **SHUFFLED) as loader:
        take(iter(loader), 5)
        state = loader.state_dict()
        kill(daemon)
        assert loader.state_dict() == state, "it needs no daemon"
        daemon.start()
        with support.loader(daemon, device=device, **SHUFFLED) as other:
            other.load_state_dict(state)
            assert read(other) == wanted(**SHUFFLED)[5:]
        loader.load_state_dict(state)
        assert read(loader) == wanted(**SHUFFLED)[5:]


def test_another_epoch_while_there_is_no_daemon(device):
    """It cannot be begun then, and can be later."""
    with support.instance() as daemon, support.loader(daemon, device=device, **SHUFFLED) as loader:
        take(iter(loader), 2)
        kill(daemon)
        for _ in range(2):
            with pytest.raises(feedd.Unavailable):
                iter(loader)
        daemon.start()
        assert read(loader) == wanted(epoch=1, **SHUFFLED)


def test_a_fork_while_loaders_come_and_go():
    """A child that was forked at any moment keeps no session of loaders that are closed."""
    with support.instance() as daemon:
        code = """
import os, threading, time, feedd
def work():
    for _ in range(40):
        feedd.DataLoader("numbers", 16, framework="numpy").close()
thread = threading.Thread(target=work)
thread.start()
children = []
while thread.is_alive():
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    children.append(pid)
    time.sleep(0.002)
print(*children, flush=True)
input()
for pid in children: os.kill(pid, 9)
"""
        process = support.start(code, daemon=daemon, stdin=support.subprocess.PIPE)
        try:
            assert len(process.stdout.readline().split()) > 5
            harness.eventually(lambda: support.sessions(daemon) == 0, 5, "all have left")
        finally:
            process.stdin.write("\n")
            process.stdin.close()
            support.finish(process)
