"""Draws by weight from a part of a dataset that a program brings: weights with split, indices, or both."""

import array
import collections

import data
import expected
import harness
import pytest
import support
from support import SAMPLES, SHUFFLED, read
from test_view import drawn, taken

import feedd

# Some samples are there three times and more. Weights have as many digits as their type has.
LIST = [number * 7 % 101 for number in range(333)]
WEIGHTS = [0.0 if number % 4 == 0 else 1 / number for number in range(SAMPLES)]
SPLIT = {"split": (0.2, 0.7)}
SEEDED = {**SPLIT, "split_seed": 3}
IN_CONF = {"samples": "20%..70%"}
# What is combined with weights, the same in feedd.conf, and the samples that it chooses.
COMBINED = [
    (SPLIT, IN_CONF, expected.chosen(SAMPLES, 40, 142)),
    (SEEDED, {**IN_CONF, "split_seed": 3}, expected.chosen(SAMPLES, 40, 142, 3)),
    ({"split": (0, 1)}, {"samples": "0%..100%"}, range(SAMPLES)),
    ({"split": (0, 1), "split_seed": 3}, {"split_seed": 3}, range(SAMPLES)),
    ({"indices": LIST}, {"indices": "list.npy"}, LIST),
    ({"indices": LIST, **SPLIT}, {"indices": "list.npy", **IN_CONF}, expected.chosen(SAMPLES, 66, 233, None, LIST)),
    ({"indices": LIST, **SEEDED}, {"indices": "list.npy", **IN_CONF, "split_seed": 3},
     expected.chosen(SAMPLES, 66, 233, 3, LIST)),
]  # fmt: skip


def drawn_from(chosen, count=None, weights=WEIGHTS, **place):
    return drawn(expected.weights_of_chosen(weights, chosen), count or len(chosen), **place)


# ---- What is drawn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "in_conf", "chosen"), COMBINED)
def test_draws_are_from_the_part_alone(load, options, in_conf, chosen):
    loader = load(weights=WEIGHTS, seed=4, **options)
    assert taken(loader, 2) == [drawn_from(chosen, seed=4, epoch=epoch) for epoch in range(2)]
    assert loader.samples == len(loader.dataset) == len(chosen)
    assert read(load(weights=WEIGHTS, epoch_samples=500, **options, **SHUFFLED)) == drawn_from(chosen, 500, seed=11)


def test_a_view_of_feedd_conf_draws_the_same():
    """Bit by bit, with the same seed, whatever is combined."""
    with harness.Instance() as own:
        support.add_datasets(own)
        data.write_npy(own.directory / "list.npy", "<i8", (len(LIST),), array.array("q", LIST).tobytes())
        data.write_npy(own.directory / "weights.npy", "<f8", (SAMPLES,), array.array("d", WEIGHTS).tobytes())
        for number, (_, in_conf, _) in enumerate(COMBINED):
            own.add_view(f"default{number}", "numbers", weights="weights.npy", **in_conf)
            own.add_view(f"chosen{number}", "numbers", weights="weights.npy", epoch_samples=777, **in_conf)
        own.start()
        with support.loaders(own, seed=6) as load:
            for number, (options, _, _) in enumerate(COMBINED):
                for name, draws in (("default", None), ("chosen", 777)):
                    brought = load(weights=WEIGHTS, epoch_samples=draws, **options)
                    assert taken(brought, 2) == taken(load(f"{name}{number}"), 2), (options, draws)


def test_arrays(load_host):
    numpy = pytest.importorskip("numpy", reason="this Python has no NumPy")
    for indices in (numpy.array(LIST, "uint8"), numpy.array(LIST, "int64"), numpy.array(LIST * 2)[: len(LIST)]):
        loader = load_host(weights=numpy.array(WEIGHTS), indices=indices, **SEEDED, seed=4)
        assert read(loader) == drawn_from(COMBINED[-1][2], seed=4)


def test_weights_of_any_size_times_how_often(load_host):
    """Their products are exact, however many digits the weights have: no type could hold them."""
    numpy = pytest.importorskip("numpy", reason="this Python has no NumPy")
    cases = [("uint64", [(1 << 64) - 1, 3, (1 << 63) + 1, 0]), ("uint8", [255, 1, 254, 0]),
             ("float64", [1e308, 5e-324, 1.7976931348623157e308, 0.1]), ("float32", [0.1, 3.4e38, 1e-45, 1e38])]  # fmt: skip
    listed = [0] * 3 + [1] * 200 + [2] * 7 + [3] * 5
    for dtype, first in cases:
        weights = numpy.array(first + [0] * (SAMPLES - 4), dtype)
        wanted = drawn_from(listed, 3000, weights.tolist(), batch_size=100)
        assert read(load_host(weights=weights, indices=listed, epoch_samples=3000, batch_size=100)) == wanted


def test_train_and_validation_share_nothing(load_host):
    """Both parts of one seed: nothing is drawn in both, nothing from outside, and shares are as the weights say. The seed is
    fixed, so the figure is the same at each run."""
    draws, weights = 20_000, [1 + number % 7 for number in range(SAMPLES)]
    found = []
    for split in ((0.0, 0.8), (0.8, 1.0)):
        begin, end = (SAMPLES * round(bound * 10**6) // 10**6 for bound in split)
        part = set(expected.chosen(SAMPLES, begin, end, 9))
        loader = load_host(weights=weights, split=split, split_seed=9, epoch_samples=draws, batch_size=500, seed=2)
        counts = collections.Counter(sample for batch in read(loader) for sample in batch)
        assert set(counts) == part
        due = {sample: draws * weights[sample] / sum(weights[other] for other in part) for sample in part}
        excess = sum((counts[sample] - wanted) ** 2 / wanted for sample, wanted in due.items()) - len(part)
        assert abs(excess) < 4 * (2 * len(part)) ** 0.5, excess
        found.append(part)
    assert not found[0] & found[1] and len(found[0] | found[1]) == SAMPLES


# ---- Where it stands ---------------------------------------------------------------------------------------


def test_a_state_belongs_to_the_part(load_host):
    options = {"weights": WEIGHTS, "indices": LIST, "epoch_samples": 200, "seed": 4}
    loader = load_host(**options, **SEEDED)
    support.take(iter(loader), 3)
    state = loader.state_dict()
    other = [weight * weight for weight in WEIGHTS]
    again = load_host(**{**options, "weights": other}, **SEEDED)
    again.load_state_dict(state)
    part = COMBINED[-1][2]
    assert read(again) == drawn_from(part, 200, other, seed=4)[3:]
    assert read(again) == drawn_from(part, 200, other, seed=4, epoch=1)
    for change in ({"split_seed": 4}, {"split": (0.2, 0.8)}, {"indices": LIST[::-1]}, {"split": None, "split_seed": None}):
        with pytest.raises(feedd.OptionError, match="other data"):
            load_host(**{**options, **SEEDED, **change}).load_state_dict(state)
    with pytest.raises(feedd.OptionError, match="other data"):
        load_host(weights=WEIGHTS, epoch_samples=200, seed=4).load_state_dict(state)


def test_the_daemon_is_restarted():
    with support.instance() as own, support.loaders(own) as load:
        loader = load(weights=WEIGHTS, indices=LIST, **SEEDED, epoch_samples=300)
        batches = iter(loader)
        found = support.take(batches, 5)
        support.kill(own)
        own.start()
        assert found + read(batches) == drawn_from(COMBINED[-1][2], 300)


def test_ranks(load_host):
    loaders = support.ranks(load_host, 2, "drawn-ranks", weights=WEIGHTS, indices=LIST, **SEEDED)
    parts = [support.Thread(read, loader) for loader in loaders]
    for part in parts:
        part.join()
    both = [sample for pair in zip(parts[0].result, parts[1].result) for batch in pair for sample in batch]
    assert both == [sample for batch in drawn_from(COMBINED[-1][2], seed=11) for sample in batch]


def test_single_samples(daemon):
    where = {"framework": support.FRAMEWORK, "socket": daemon.socket}
    dataset = feedd.Dataset("numbers", weights=WEIGHTS, indices=LIST, **SEEDED, **where)
    wanted = [sample for batch in drawn_from(COMBINED[-1][2]) for sample in batch]
    assert len(dataset) == len(wanted) and [int(dataset[i][0]) for i in (3, 0, -1)] == [wanted[i] for i in (3, 0, -1)]
    dataset.close()


# ---- What is refused ---------------------------------------------------------------------------------------

FIRST = [1.0] * 100 + [0.0] * 103


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"split": (0.5, 1.0)}, feedd.OptionError, "weights: all of them that the view chooses are 0"),
        ({"indices": [202]}, feedd.OptionError, "all of them that the view chooses are 0"),
        ({"indices": [0, SAMPLES]}, feedd.OptionError, f"sample number {SAMPLES} at index 1, wanted numbers from 0 to 202"),
        ({"indices": [0, -1]}, feedd.OptionError, "sample number -1 at index 1"),
        ({"indices": [1.0]}, TypeError, "indices="), ({"indices": []}, feedd.OptionError, "indices: found none"),
        ({"split": (0.5, 0.5), "split_seed": 3}, feedd.OptionError, "split: 0.5 to 0.5 of 203 samples contains none"),
        ({"split": (0, 0.1), "indices": [1, 2]}, feedd.OptionError, "split: 0 to 0.1 of 2 sample numbers contains none"),
        ({"split": (0, 0.5), "weights": [1.0] * 7}, feedd.OptionError, "found 7, wanted 203"),
        ({"indices": [1], "weights": [float("nan")] * SAMPLES}, feedd.OptionError, "found weight nan at index 0"),
        ({"indices": [1], "split_seed": 3}, ValueError, "split_seed= belongs to split="),
        ({"indices": [1], "epoch_samples": 0}, ValueError, "epoch_samples=0"),
        ({"dataset": "part", "split": (0, 0.5)}, feedd.OptionError, "views cannot be nested"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be(options, kind, says):
    with harness.Instance() as own:
        support.add_datasets(own)
        own.add_view("part", "numbers", samples="0%..50%")
        own.start()
        with pytest.raises(kind, match=says):
            support.loader(own, **{"weights": FIRST, **options})
