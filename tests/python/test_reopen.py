"""A loader goes to another place, and that fails once: what is tried again is the same, and ranks meet."""

import contextlib
import errno

import feedd
import pytest

import support
from support import SHUFFLED, read, samples_of, take, wanted


@contextlib.contextmanager
def daemon_and_loaders(**settings):
    """Loaders that say so when others do not come."""
    with support.instance(**settings) as daemon, support.loaders(daemon, timeout=20) as load:
        yield daemon, load


def read_together(loaders):
    """Of each step what the ranks got."""
    return [[samples_of(batch) for batch in batches] for batches in zip(*loaders, strict=True)]


def test_ranks_meet_though_one_had_to_try_twice():
    with daemon_and_loaders() as (daemon, load):
        loaders = support.ranks(load, 2, "twice")
        iterators = [iter(loader) for loader in loaders]
        for _ in range(3):
            for iterator in iterators:
                next(iterator)
        state = loaders[0].state_dict()
        daemon.stop()
        for _ in range(2):
            with pytest.raises(feedd.Unavailable):
                loaders[0].load_state_dict(state)
        daemon.start()
        for loader in loaders:
            loader.load_state_dict(state)
        right = [wanted(8, **SHUFFLED, world_size=2, rank=rank)[3:] for rank in range(2)]
        assert read_together(loaders) == [list(both) for both in zip(*right, strict=True)]


def test_ranks_meet_where_there_is_room_for_one_feed():
    """The first to leave finds no room while the other is still there; afterwards there is no room for the old feed."""
    with daemon_and_loaders(user_feeds=1) as (_, load):
        loaders = support.ranks(load, 2, "room")
        for loader in loaders:
            next(iter(loader))
            loader.set_epoch(3)
        with pytest.raises(feedd.Error, match="user_feeds") as raised:
            iter(loaders[0])
        assert raised.value.code == errno.EBUSY
        iterators = [iter(loader) for loader in reversed(loaders)]
        right = [wanted(8, **SHUFFLED, world_size=2, rank=rank, epoch=3) for rank in (1, 0)]
        assert read_together(iterators) == [list(both) for both in zip(*right, strict=True)]


@pytest.mark.limit(60)
def test_ranks_leave_more_epochs_early_than_a_daemon_has_feeds():
    """Each epoch that is begun after a break has a feed of its own; those of former epochs make room."""
    with daemon_and_loaders(loaders=1, ring="64K", linger=600) as (daemon, load):
        loaders = support.ranks(load, 2, "early")
        for epoch in range(70):
            for loader in loaders:
                loader.set_epoch(2 * epoch)  # not where the last feed continues
            for rank, iterator in enumerate([iter(loader) for loader in loaders]):
                assert take(iterator, 2) == wanted(8, **SHUFFLED, world_size=2, rank=rank, epoch=2 * epoch)[:2]
        assert "feed 70 " in daemon.read_log() and len(daemon.statistics()["feeds"]) <= 64


@pytest.mark.parametrize("error", [feedd.Error("no room"), feedd.Timeout("late"), KeyboardInterrupt()])
def test_an_epoch_that_could_not_be_gone_to_is_still_wanted(load_host, monkeypatch, error):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 2)
    loader.set_epoch(5)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(loader, "_open", fail)
        for _ in range(2):
            with pytest.raises(type(error)):
                iter(loader)
    assert loader.epoch == 5
    assert read(loader) == wanted(**SHUFFLED, epoch=5)


def test_a_loader_that_could_not_go_on_stands_where_it_stood(load_host, monkeypatch):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 2)
    state = loader.state_dict()
    take(iter(loader), 4)

    def fail(*_):
        raise feedd.Unavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(loader, "_open", fail)
        with pytest.raises(feedd.Unavailable):
            loader.load_state_dict(state)
    assert loader.state_dict()["epoch"] == 1
    loader.load_state_dict(state)
    assert read(loader) == wanted(**SHUFFLED)[2:]


def test_too_many_batches_of_a_ring_that_others_share():
    """Who joins later gets what is left, and more cannot be had by asking for more."""
    with daemon_and_loaders(ring="16K") as (_, load):
        load(share="ring", prefetch_factor=2)
        second = load(share="ring", prefetch_factor=60)
        held = second._describe()["prefetch"]
        assert held < 61
        iterator = iter(second)
        kept = [next(iterator) for _ in range(held)]
        with pytest.raises(feedd.TooManyBatches, match=f"all {held} batches.*the job that makes the feed 'ring'"):
            next(iterator)
        assert len(kept) == held
