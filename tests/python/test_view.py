"""Views that a program brings: split, indices, weights."""

import array
import fractions
import math
import pickle

import expected
import harness
import pytest
import support
from order_reference import selected
from support import SAMPLES, SHUFFLED, read, wanted

import feedd

INDICES = [5, 202, 0, 7, 7, 100, 33, 202]
MANY = [number * 7 % 101 for number in range(333)]


def taken(loader, epochs=1):
    return [read(loader) for _ in range(epochs)]


def of_list(indices, batch_size=16, **shape):
    """The samples of each batch of an epoch over a list of samples."""
    return [[indices[i] for i in batch] for batch in wanted(batch_size, len(indices), **shape)]


def drawn(weights, count, batch_size=16, seed=0, epoch=0):
    draws = expected.Draws(weights)
    samples = [draws.sample(seed, epoch, position) for position in range(count)]
    return [samples[at : at + batch_size] for at in range(0, count, batch_size)]


def bounds_of(count, split):
    """Millionths, rounded up from the fraction that a bound means; then samples, rounded down."""
    meant = (fractions.Fraction(bound).limit_denominator(10**9) for bound in split)
    return [count * math.ceil(bound * 10**6) // 10**6 for bound in meant]


# ---- What comes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [(0.0, 0.9), (0.9, 1.0), (0, 1), (1 / 3, 2 / 3), [0.25, 0.5]])
@pytest.mark.parametrize("split_seed", [None, 0, 3])
def test_a_split(load, split, split_seed):
    begin, end = bounds_of(SAMPLES, split)
    part = list(selected(SAMPLES, begin, end - begin, split_seed))
    assert read(load(split=split, split_seed=split_seed)) == of_list(part)
    loader = load(split=split, split_seed=split_seed, **SHUFFLED)
    assert taken(loader, 2) == [of_list(part, epoch=epoch, **SHUFFLED) for epoch in range(2)]
    assert loader.samples == len(part)


@pytest.mark.parametrize("count", [3, 7, 300, 203, 1999, 99991])
def test_fractions_of_samples_are_exact(load_host, count):
    """Each K/N of N numbers ends after number K, in whichever way it is calculated."""
    listed = [number % SAMPLES for number in range(count)]
    for end in {1, 2, count // 3, count // 2, count * 2 // 3, count - 1}:
        for bound in (end / count, 1 - (count - end) / count):
            loader = load_host(indices=listed, split=(0, bound))
            assert loader.samples == end, bound
            loader.close()


def test_thirds(load_host):
    thirds = [load_host(indices=[0] * 300, split=part).samples for part in ((0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1))]
    assert thirds == [100, 100, 100]


def test_splits_of_a_seed_share_nothing(load_host):
    bounds = [0.0, 1 / 3, 0.7, 1.0]
    parts = [read(load_host(split=pair, split_seed=9)) for pair in zip(bounds, bounds[1:])]
    samples = [sample for part in parts for batch in part for sample in batch]
    assert sorted(samples) == list(range(SAMPLES))


@pytest.mark.parametrize("split_seed", [None, 3])
def test_a_split_of_indices(load, split_seed):
    """Its parts are disjoint places in the list, and all of them together."""
    parts = []
    for split in ((0.0, 0.4), (0.4, 1.0)):
        begin, end = bounds_of(len(MANY), split)
        part = expected.chosen(SAMPLES, begin, end, split_seed, MANY)
        loader = load(split=split, split_seed=split_seed, indices=MANY)
        assert read(loader) == of_list(part) and loader.samples == len(part)
        assert read(load(split=split, split_seed=split_seed, indices=array.array("H", MANY), **SHUFFLED)) == of_list(
            part, **SHUFFLED)  # fmt: skip
        parts += part
    assert sorted(parts) == sorted(MANY)


def numpy_arrays():
    numpy = pytest.importorskip("numpy", reason="this Python has no NumPy")
    return [numpy.array(INDICES, dtype) for dtype in ("uint8", "int16", "uint32", "int64", "uint64")] + [
        numpy.array([INDICES, INDICES]).T.copy()[:, 1], numpy.array(INDICES + INDICES)[: len(INDICES)]
    ]  # fmt: skip


def test_indices_of_every_kind(load):
    assert read(load(indices=INDICES)) == of_list(INDICES)
    assert read(load(indices=tuple(INDICES), **SHUFFLED)) == of_list(INDICES, **SHUFFLED)
    assert read(load(indices=range(3, 90, 2))) == of_list(list(range(3, 90, 2)))
    assert read(load(indices=array.array("H", INDICES))) == of_list(INDICES)
    for indices in numpy_arrays():
        assert read(load(indices=indices)) == of_list(INDICES)


def test_many_indices(load_host):
    indices = [number * 7 % SAMPLES for number in range(20000)]
    assert read(load_host(indices=indices, batch_size=999)) == of_list(indices, 999)


def test_weights(load):
    numpy = pytest.importorskip("numpy", reason="this Python has no NumPy")
    weights = [number % 5 for number in range(SAMPLES)]
    for given in (weights, numpy.array(weights, "float32"), numpy.array(weights, "float16"), numpy.array(weights, "uint8")):
        assert read(load(weights=given, seed=4)) == drawn(weights, SAMPLES, seed=4)
    loader = load(weights=weights, epoch_samples=50, seed=4)
    assert taken(loader, 3) == [drawn(weights, 50, seed=4, epoch=epoch) for epoch in range(3)]
    assert loader.samples == 50 and len(loader.dataset) == 50


# ---- Where it stands ---------------------------------------------------------------------------------------


def test_it_continues_from_a_state(load_host):
    indices = [number * 7 % SAMPLES for number in range(300)]
    options = {"indices": indices, **SHUFFLED}
    loader = load_host(**options)
    batches = iter(loader)
    support.take(batches, 3)
    state = loader.state_dict()
    again = load_host(**options)
    again.load_state_dict(state)
    assert read(again) == of_list(indices, **SHUFFLED)[3:]
    assert read(again) == of_list(indices, epoch=1, **SHUFFLED)
    for other in ({}, {"indices": indices[1:]}, {"split": (0, 0.5)}):
        with pytest.raises(feedd.OptionError, match="other data"):
            load_host(**{**SHUFFLED, **other}).load_state_dict(state)


def test_the_daemon_is_restarted():
    indices = [number * 7 % SAMPLES for number in range(9000)]
    with support.instance() as own, support.loaders(own) as load:
        loader = load(indices=indices, batch_size=100)
        batches = iter(loader)
        found = support.take(batches, 5)
        support.kill(own)
        own.start()
        assert found + read(batches) == of_list(indices, 100)


def test_ranks(load_host):
    indices = list(range(0, 200, 2))
    loaders = support.ranks(load_host, 2, "view-ranks", indices=indices)
    parts = [support.Thread(read, loader) for loader in loaders]
    for rank, part in enumerate(parts):
        part.join()
        assert part.result == of_list(indices, 8, world_size=2, rank=rank, **SHUFFLED)


def test_all_must_bring_the_same(load_host):
    load_host(share="view-one", indices=[1, 2, 3])
    with pytest.raises(feedd.OptionError, match="must bring the same view"):
        load_host(share="view-one", indices=[3, 2, 1])


# ---- Datasets ----------------------------------------------------------------------------------------------


def test_single_samples(daemon):
    where = {"framework": support.FRAMEWORK, "socket": daemon.socket}
    dataset = feedd.Dataset("numbers", indices=INDICES, **where)
    assert len(dataset) == len(INDICES) and [int(dataset[i][0]) for i in (3, 0, -1)] == [7, 5, 202]
    assert repr(dataset) == "feedd.Dataset('numbers', <feedd view: indices>)"
    with feedd.DataLoader(dataset, 16, framework=support.FRAMEWORK) as loader:
        assert loader.dataset is dataset and read(loader) == of_list(INDICES)
    with pytest.raises(ValueError, match="views cannot be nested"):
        feedd.DataLoader(dataset, split=(0, 0.5))
    whole = feedd.Dataset("numbers", **where)
    with feedd.DataLoader(whole, 16, indices=INDICES, framework=support.FRAMEWORK) as loader:
        assert read(loader) == of_list(INDICES) and len(loader.dataset) == len(INDICES)
    for one in (dataset, whole, loader.dataset):
        one.close()


def test_an_unused_loader_may_be_pickled(load_host):
    loader = load_host(indices=INDICES)
    with pickle.loads(pickle.dumps(loader)) as again:
        assert read(again) == of_list(INDICES)


# ---- What is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"split": (0, 0.1), "indices": [1, 2]}, feedd.OptionError, "split: 0 to 0.1 of 2 sample numbers contains none"),
        ({"split": (0, 0.5), "indices": []}, feedd.OptionError, "indices: found none"),
        ({"split_seed": 3}, ValueError, "split_seed= belongs to split="),
        ({"indices": [1], "split_seed": 3}, ValueError, "split_seed="),
        ({"indices": [1], "epoch_samples": 3}, ValueError, "epoch_samples= belongs to weights="),
        ({"split": (0, 50)}, ValueError, r"indices=range\(BEGIN, END\)"),
        ({"split": (0.5, 0.25)}, ValueError, "the smaller one first"),
        ({"split": (0.0, float("nan"))}, ValueError, "two fractions"),
        ({"split": "train"}, TypeError, "pair of fractions"), ({"split": 0.9}, TypeError, "pair of fractions"),
        ({"split": (0, 0.5), "split_seed": -1}, ValueError, "split_seed=-1"),
        ({"split": (0.0, 0.001)}, feedd.OptionError, "contains none"),
        ({"indices": [True, False]}, ValueError, r"mask.*flatnonzero"),
        ({"indices": [1.5]}, TypeError, "indices="), ({"indices": array.array("d", [1.0])}, TypeError, "has floats"),
        ({"indices": "numbers"}, TypeError, "not a list"), ({"indices": 7}, TypeError, "not a list"),
        ({"indices": [2**70]}, ValueError, "64 bits"),
        ({"indices": memoryview(bytes(4)).cast("B", (2, 2))}, ValueError, "2 dimensions"),
        ({"indices": []}, feedd.OptionError, "indices: found none"),
        ({"indices": [0, SAMPLES]}, feedd.OptionError, f"sample number {SAMPLES} at index 1, wanted numbers from 0 to 202"),
        ({"indices": [-1]}, feedd.OptionError, "sample number -1 at index 0"),
        ({"weights": [1.0] * 7}, feedd.OptionError, "found 7, wanted 203"),
        ({"weights": [0] * SAMPLES}, feedd.OptionError, "all of them are 0"),
        ({"weights": [float("inf")] * SAMPLES}, feedd.OptionError, "found weight inf at index 0"),
        ({"weights": ["a"]}, ValueError, "could not convert"),
        ({"weights": [1.0] * SAMPLES, "epoch_samples": 0}, ValueError, "epoch_samples=0"),
        ({"dataset": "part", "split": (0, 0.5)}, feedd.OptionError, "views cannot be nested"),
    ],
)  # fmt: skip
def test_views_that_cannot_be(options, kind, says):
    with harness.Instance() as own:
        support.add_datasets(own)
        own.add_view("part", "numbers", samples="0%..50%")
        own.start()
        with pytest.raises(kind, match=says):
            support.loader(own, **options)
