"""Iterating: epochs, their order, their shape."""

import pytest
import support
from support import SAMPLES, SHUFFLED, read, samples_of, take, wanted

import feedd


def test_an_epoch_is_tuples_in_field_order(load):
    loader = load()
    batch = next(iter(loader))
    assert isinstance(batch, tuple)
    assert [tuple(tensor.shape) for tensor in batch] == [(16,), (16, support.BODY)]
    assert samples_of(batch) == list(range(16))


def test_as_dict(load):
    batch = next(iter(load(as_dict=True)))
    assert isinstance(batch, dict) and list(batch) == ["id", "body"]
    assert samples_of(batch) == list(range(16))


def test_files_order(load):
    assert read(load()) == wanted()


@pytest.mark.parametrize("seed", [0, 11, 2**64 - 1])
def test_the_shuffled_order_is_that_of_the_contract(load, seed):
    loader = load(shuffle=True, seed=seed)
    for epoch in range(3):
        assert read(loader) == wanted(shuffle=True, seed=seed, epoch=epoch)


def test_the_default_seed_is_0(load_host):
    assert read(load_host(shuffle=True)) == wanted(shuffle=True, seed=0)


@pytest.mark.parametrize("batch_size", [1, 7, SAMPLES - 1, SAMPLES, SAMPLES + 1])
def test_batch_sizes(load_host, batch_size):
    loader = load_host(batch_size=batch_size)
    assert read(loader) == wanted(batch_size) and len(loader) == len(wanted(batch_size))
    assert read(loader) == wanted(batch_size)


def test_drop_last(load):
    loader = load(drop_last=True, **SHUFFLED)
    assert len(loader) == SAMPLES // 16
    for epoch in range(2):
        assert read(loader) == wanted(drop_last=True, epoch=epoch, **SHUFFLED)
    assert len(load()) == -(-SAMPLES // 16)


def test_drop_last_of_what_is_no_batch(load_host):
    """torch gives epochs without batches; an order that never delivers anything is refused here."""
    with pytest.raises(feedd.Error, match="drop_last"):
        load_host(batch_size=SAMPLES + 1, drop_last=True)


def test_epoch_property(load_host):
    loader = load_host(**SHUFFLED)
    assert loader.epoch == 0
    iterator = iter(loader)
    take(iterator, 3)
    assert loader.epoch == 0
    for _ in iterator:
        pass
    assert loader.epoch == 1


def test_break_in_mid_epoch_then_the_next_one_whole(load):
    loader = load(**SHUFFLED)
    for epoch in range(3):
        assert take(iter(loader), 4) == wanted(epoch=epoch, **SHUFFLED)[:4]
    assert read(loader) == wanted(epoch=3, **SHUFFLED)


def test_break_before_the_first_batch_changes_nothing(load_host):
    loader = load_host(**SHUFFLED)
    iter(loader)
    iter(loader)
    assert read(loader) == wanted(epoch=0, **SHUFFLED)


def test_break_at_the_last_batch(load):
    """The epoch is over with its last batch, whether or not the iteration has heard of its end."""
    loader = load(**SHUFFLED)
    take(iter(loader), len(loader))
    assert read(loader) == wanted(epoch=1, **SHUFFLED)


def test_set_epoch(load):
    loader = load(**SHUFFLED)
    for epoch in (5, 2, 2, 0, 10**12):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch
        assert read(loader) == wanted(epoch=epoch, **SHUFFLED)
    assert read(loader) == wanted(epoch=10**12 + 1, **SHUFFLED)


def test_set_epoch_in_the_usual_loop_costs_no_new_feed(load_host, daemon):
    loader = load_host(**SHUFFLED)
    feeds = daemon.statistics()
    for epoch in range(3):
        loader.set_epoch(epoch)
        assert read(loader) == wanted(epoch=epoch, **SHUFFLED)
    assert [feed["id"] for feed in daemon.statistics()["feeds"]] == [feed["id"] for feed in feeds["feeds"]]


def test_set_epoch_after_a_break(load_host):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 2)
    loader.set_epoch(0)
    assert read(loader) == wanted(epoch=0, **SHUFFLED)


def test_set_epoch_waits_for_the_next_iteration(load_host):
    loader = load_host(**SHUFFLED)
    iterator = iter(loader)
    take(iterator, 2)
    loader.set_epoch(7)
    assert read(iterator) == wanted(epoch=0, **SHUFFLED)[2:]
    assert read(loader) == wanted(epoch=7, **SHUFFLED)


@pytest.mark.parametrize("epoch", [-1, 1.5, "1", None, True])
def test_set_epoch_to_what_is_none(load_host, epoch):
    loader = load_host()
    with pytest.raises((ValueError, TypeError), match="epoch"):
        loader.set_epoch(epoch)


def test_an_iteration_that_another_one_followed_says_so(load_host):
    loader = load_host()
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(feedd.Error, match="another iteration"):
        next(first)
    assert len(read(second)) == len(loader) - 1


def test_an_iteration_that_is_over_stays_over(load_host):
    iterator = iter(load_host())
    read(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def test_an_iteration_knows_its_length_and_itself(load_host):
    loader = load_host()
    iterator = iter(loader)
    assert iter(iterator) is iterator and len(iterator) == len(loader)


def test_what_a_loader_is(load_host):
    loader = load_host(batch_size=8)
    assert loader.fields == (("id", "uint64", (8,)), ("body", "uint8", (8, support.BODY)))
    assert (loader.samples, loader.device, loader.dataset.name, loader.batch_size) == (SAMPLES, "cpu", "numbers", 8)
    assert len(loader.dataset) == SAMPLES
    assert repr(loader) == "feedd.DataLoader('numbers', batch_size=8, device='cpu')"


def test_a_closed_loader_says_so(load_host):
    loader = load_host()
    with loader as same:
        iterator = iter(same)
        next(iterator)
    for use in (lambda: next(iterator), lambda: iter(loader), lambda: len(loader), loader.state_dict, lambda: loader.fields):
        with pytest.raises(feedd.Error, match="the loader is closed"):
            use()
    loader.close()


def test_a_dataset_that_is_not_there(load_host):
    with pytest.raises(feedd.Error, match='no dataset named "nothing-like-it"; .* feedctl reload applies') as found:
        load_host("nothing-like-it")
    assert found.value.code == 2  # ENOENT


def test_tokens(load_host):
    (first, *_), *others = [next(iter(load_host("tokens", 4)))]
    assert not others and tuple(first.shape) == (4, 17)
    assert support.raw(first[1])[:4] == bytes((16, 0, 17, 0))
