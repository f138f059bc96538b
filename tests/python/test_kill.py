"""Training processes and daemons that are killed."""

import contextlib
import json
import os
import signal
import subprocess

import harness
import pytest
import support
from support import ON_GPU, SAMPLES, SHUFFLED, Thread, kill, numbers_of, read, samples_of, take, wanted

import feedd

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
    code = support.program(TRAIN, device)
    found = []
    with support.instance() as daemon:
        for count in killed_after:
            process = support.start(code, tmp_path / "state", "wait", daemon=daemon, stdin=subprocess.PIPE)
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


@contextlib.contextmanager
def killed_under(device, loaders_of):
    """Two loaders on a ring that holds a small part of an epoch, the first one two batches ahead, when the daemon is killed and
    comes back: gives the daemon, the loaders, their iterations, and what these have given."""
    with support.instance(ring="32K", device_pool="64K") as daemon, support.loaders(daemon, device=device) as load:
        loaders = loaders_of(load)
        iterators = [iter(loader) for loader in loaders]
        before = [take(iterators[0], loaders[1]._describe()["start_consumed"] // 4), []]  # it may have been given some alone
        for _ in range(4):  # in turns, so that they are given batches together
            for batches, iterator in zip(before, iterators):
                batches += take(iterator, 1)
        before[0] += take(iterators[0], 2)
        kill(daemon)
        daemon.start()
        yield daemon, loaders, iterators, before


def come_back(daemon, iterators, first):
    """What they still give, when one of them is back before the other."""
    threads = {first: Thread(read, iterators[first])}
    support.check_sessions(daemon, 1)
    threads[1 - first] = Thread(read, iterators[1 - first])
    return [threads[number].done() for number in range(2)]


@pytest.mark.parametrize("first", [0, 1])
def test_the_daemon_is_killed_under_the_ranks_of_a_job(device, first):
    """They go on, each where it stood, and together they miss nothing."""

    def ranks(load):  # what is granted is handed out before the loss is seen: with this it is not the rest of the epoch
        return support.ranks(load, 2, "job", batch_size=4, prefetch_factor=2)

    with killed_under(device, ranks) as (daemon, loaders, iterators, before):
        found = [early + late for early, late in zip(before, come_back(daemon, iterators, first))]
        assert found == [wanted(4, world_size=2, rank=rank, **SHUFFLED) for rank in range(2)]
        assert sorted(sum(sum(found, []), [])) == list(range(SAMPLES))
        threads = [Thread(read, loader) for loader in loaders]
        for rank, thread in enumerate(threads):
            assert thread.done() == wanted(4, world_size=2, rank=rank, epoch=1, **SHUFFLED)


@pytest.mark.parametrize("first", [0, 1])
def test_the_daemon_is_killed_under_jobs_that_share_a_feed(device, first):
    """Each still sees every batch, no matter which is back first."""

    def sharers(load):
        return [load(share="both", batch_size=4, prefetch_factor=2, **SHUFFLED) for _ in range(2)]

    with killed_under(device, sharers) as (daemon, loaders, iterators, before):
        right = wanted(4, **SHUFFLED)
        begun = len(before[0]) - 2 - len(before[1])
        found = [early + late for early, late in zip(before, come_back(daemon, iterators, first))]
        assert found == [right, right[begun:]]
        for thread in [Thread(read, loader) for loader in loaders]:
            assert thread.done() == wanted(4, epoch=1, **SHUFFLED)


def test_a_loader_process_is_killed(device):
    with support.instance() as daemon, support.loader(daemon, device=device, **SHUFFLED) as loader:
        iterator = iter(loader)
        found = take(iterator, 2)
        for pid in daemon.children_called("loader"):
            os.kill(pid, signal.SIGKILL)
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
        # A child that was just starting has the socket, too. A connection that it drops would look like a restart.
        harness.eventually(lambda: not daemon.processes(), 5, "its children have ended")
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
        process = support.start(code, daemon=daemon, stdin=subprocess.PIPE)
        try:
            assert len(process.stdout.readline().split()) > 5
            harness.eventually(lambda: support.sessions(daemon) == 0, 5, "all have left")
        finally:
            process.stdin.write("\n")
            process.stdin.close()
            support.finish(process)
