"""Loaders that are made before torch.distributed is initialised: their ranks are those of their first use."""

import copy
import pickle
import sys
import types

import pytest
import support
from support import SAMPLES, SHUFFLED, read, take, wanted

import feedd
from feedd import ranks


class World(types.ModuleType):
    """What feedd asks of torch.distributed."""

    def __init__(self):
        super().__init__("torch.distributed")
        self.world = None
        self.is_available = lambda: True
        self.is_initialized = lambda: self.world is not None
        self.get_rank = lambda: self.world[0]
        self.get_world_size = lambda: self.world[1]


@pytest.fixture
def world(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "here")
    monkeypatch.setitem(sys.modules, "torch.distributed", fake := World())
    return fake


def both(world, loaders, use):
    """use(loader) of rank 0 and of rank 1, as two processes with a counter of loaders each would do it."""
    found = []
    made = ranks._loaders_made
    for rank, loader in enumerate(loaders):
        world.world = rank, 2
        ranks._loaders_made = made
        found.append(use(loader))
    return found


def right(rank, **more):
    return wanted(8, world_size=2, rank=rank, **SHUFFLED, **more)


@pytest.mark.parametrize("share", [None, "mine", "x" * 63])
def test_ranks_that_come_up_later_share_out_the_samples(load, world, share):
    loaders = [load(batch_size=8, share=share, device_world_size=2, **SHUFFLED) for _ in range(2)]
    iterators = both(world, loaders, iter)
    found = [read(iterator) for iterator in iterators]
    assert found == [right(rank) for rank in range(2)]
    assert sorted(sum(sum(found, []), [])) == list(range(SAMPLES))


@pytest.mark.parametrize("name", ["local_world_size", "device_world_size"])
def test_sizes_that_only_fit_the_ranks_to_come(load_host, world, name):
    loader, other = (load_host(batch_size=8, **{name: 2}) for _ in range(2))
    with pytest.raises(ValueError, match=f"{name}=2: must be 1$"):
        iter(loader)
    world.world = 1, 2
    assert len(other) == 13
    with pytest.raises(ValueError, match=f"{name}=-1"):
        load_host(**{name: -1})


def test_len_is_of_the_ranks(load_host, world):
    loader = load_host(batch_size=8, **SHUFFLED)
    world.world = 1, 2
    assert len(loader) == len(right(1)) == 13


LOOKS = ["fields", "samples", "device", "epoch", "state_dict()", "__bool__()", "dataset", "__repr__()"]


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_what_does_not_depend_on_ranks_fixes_nothing(load_host, world, look):
    loader = load_host(batch_size=8, **SHUFFLED)
    eval(f"loader.{look}")
    world.world = 0, 2
    assert len(loader) == 13


def test_what_was_loaded_and_set_before_stays(load_host, world):
    first = load_host(batch_size=8, **SHUFFLED)
    take(iter(first), 4)
    state = first.state_dict()
    first.close()
    loaders = [load_host(batch_size=8, **SHUFFLED) for _ in range(2)]
    for loader in loaders:
        loader.load_state_dict(state)
    assert [take(iterator, 3) for iterator in both(world, loaders, iter)] == [right(rank)[2:5] for rank in range(2)]
    world.world = None
    loaders = [load_host(batch_size=8, **SHUFFLED) for _ in range(2)]
    for loader in loaders:
        loader.set_epoch(3)
    assert [read(iterator) for iterator in both(world, loaders, iter)] == [right(rank, epoch=3) for rank in range(2)]


@pytest.mark.parametrize("use", ["iter(loader)", "len(loader)", "read(loader)"])
@pytest.mark.parametrize("again", ["iter(loader)", "len(loader)"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_world_that_comes_up_after_the_first_use_is_an_error(load_host, world, use, again, rank):
    loader = load_host(batch_size=8, **SHUFFLED)
    eval(use)
    eval(again), "alone it may be used again"
    world.world = rank, 2
    for _ in range(2):
        with pytest.raises(feedd.OptionError, match=f"first used alone.* rank {rank} of 2.*init_process_group") as found:
            eval(again)
        assert "rank=0, world_size=1" in str(found.value)
    world.world = 0, 1
    assert len(loader) == len(wanted(8))


def test_another_world_than_the_first_is_an_error(load_host, world):
    world.world = 0, 2
    loader = load_host(batch_size=8, **SHUFFLED)
    assert len(loader) == 13
    world.world = 0, 3
    with pytest.raises(feedd.OptionError, match="as rank 0 of 2.* rank 0 of 3"):
        iter(loader)
    world.world = None
    assert len(loader) == 13, "a world that has ended changes nothing"


def test_another_world_before_the_first_use_is_the_one(load_host, world):
    world.world = 0, 2
    loader = load_host(batch_size=8, **SHUFFLED)
    world.world = 0, 1
    assert read(loader) == wanted(8, **SHUFFLED)


def test_what_was_given_stays(load_host, world):
    loader = load_host(batch_size=8, rank=0, world_size=1, **SHUFFLED)
    world.world = 1, 2
    assert read(loader) == wanted(8, **SHUFFLED)


def test_ranks_that_come_up_without_a_name(load_host, world, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR")
    loader = load_host(batch_size=8)
    world.world = 1, 2
    for _ in range(2):
        with pytest.raises(ValueError, match="share="):
            iter(loader)


def test_a_daemon_that_is_away_at_the_first_use(world):
    with support.instance() as daemon, support.loaders(daemon) as load:
        loaders = [load(batch_size=8, **SHUFFLED) for _ in range(2)]
        daemon.stop()
        world.world = 0, 2
        with pytest.raises(feedd.Unavailable):
            iter(loaders[0])
        daemon.start()
        world.world = 0, 2
        first = iter(loaders[0])
        ranks._loaders_made -= 1
        world.world = 1, 2
        second = iter(loaders[1])
        assert [read(first), read(second)] == [right(rank) for rank in range(2)]


def test_a_loader_that_was_not_used_can_be_sent(load_host, world):
    """As mp.spawn does with what a program has made before it."""
    made = load_host(batch_size=8, **SHUFFLED)
    loaders = [pickle.loads(pickle.dumps(made)), copy.copy(made)]
    assert [read(iterator) for iterator in both(world, loaders, iter)] == [right(rank) for rank in range(2)]
    for loader in loaders:
        loader.close()
    for change in (lambda: made.set_epoch(2), lambda: made.load_state_dict(made.state_dict())):
        change()
        with pytest.raises(TypeError, match="state_dict"):
            pickle.dumps(made)
        made = load_host(batch_size=8, **SHUFFLED)
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(load_host(rank=0, world_size=1))


FORKED = """
import feedd, os, sys
loader = feedd.DataLoader("numbers", 8, shuffle=True, seed=11, framework="numpy")
for child in range(2):
    pid = os.fork()
    if pid == 0:
        for id, body in loader: print(*id.tolist())
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
for id, body in loader: print(*id.tolist())
"""


def test_a_loader_that_was_not_used_survives_a_fork(daemon):
    assert support.numbers_of(support.run(FORKED, daemon=daemon)) == 3 * wanted(8, **SHUFFLED)
