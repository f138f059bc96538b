"""torch's Subsets and samplers: accepted where arguments of DataLoader say the same, else refused with advice."""

import expected
import pytest
import support
import torch
from support import SAMPLES, read, wanted
from test_view import INDICES, drawn, of_list
from torch.utils import data as torch_data
from torch.utils.data.distributed import DistributedSampler

import feedd


@pytest.fixture
def numbers(daemon):
    dataset = feedd.Dataset("numbers", framework="torch", socket=daemon.socket)
    yield dataset
    dataset.close()


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def load(dataset, batch_size=16, **options):
    with feedd.DataLoader(dataset, batch_size, framework="torch", **options) as loader:
        return read(loader)


# ---- What says the same ------------------------------------------------------------------------------------


def test_weights_within_a_subset(numbers):
    """As of the whole dataset, with 0 outside the subset, and those of a sample that is there twice together."""
    train, _ = torch_data.random_split(numbers, [150, 53], seeded(5))
    weights = [0] * SAMPLES
    for number, index in enumerate(train.indices):
        weights[index] = 1 + number % 3
    sampler = torch_data.WeightedRandomSampler([1 + number % 3 for number in range(150)], 300, generator=seeded(3))
    assert load(train, sampler=sampler) == drawn(weights, 300, seed=3)
    twice = torch_data.Subset(numbers, [7, 202, 7])
    sampler = torch_data.WeightedRandomSampler([1, 2, 3], 50)
    assert load(twice, sampler=sampler) == drawn([{7: 4, 202: 2}.get(number, 0) for number in range(SAMPLES)], 50)


def test_a_subset(numbers):
    assert load(torch_data.Subset(numbers, INDICES)) == of_list(INDICES)
    subset = torch_data.Subset(numbers, torch.tensor(INDICES))
    assert load(subset, shuffle=True, seed=3) == of_list(INDICES, shuffle=True, seed=3)
    nested = torch_data.Subset(torch_data.Subset(numbers, INDICES), [3, 1, 1])
    assert load(nested) == of_list([7, 202, 202])
    with feedd.DataLoader(nested, framework="torch") as loader:
        assert len(loader.dataset) == 3


def test_random_split(numbers):
    parts = torch_data.random_split(numbers, [150, 53], seeded(5))
    found = [load(part) for part in parts]
    assert found == [of_list(list(part.indices)) for part in parts]
    assert sorted(sample for part in found for batch in part for sample in batch) == list(range(SAMPLES))


def test_indices_as_a_tensor(numbers):
    for dtype in (torch.uint8, torch.int16, torch.int64):
        assert load(numbers, indices=torch.tensor(INDICES, dtype=dtype)) == of_list(INDICES)


def test_weights_as_a_tensor(numbers):
    weights = [number % 5 for number in range(SAMPLES)]
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int32):
        tensor = torch.tensor(weights, dtype=dtype, requires_grad=dtype == torch.float32)
        assert load(numbers, weights=tensor, seed=4) == drawn(weights, SAMPLES, seed=4)


def test_weights_with_indices_and_a_split_as_tensors(numbers):
    """Weights have one number for each sample of the dataset; one that the list names twice is drawn twice as often."""
    weights = [number % 5 for number in range(SAMPLES)]
    indices = [number * 7 % SAMPLES for number in range(150)] + INDICES
    part = expected.chosen(SAMPLES, 0, len(indices) // 2, 3, indices)
    given = {"weights": torch.tensor(weights, dtype=torch.float32), "indices": torch.tensor(indices), "seed": 4}
    found = load(numbers, split=(0, 0.5), split_seed=3, **given)
    assert found == drawn(expected.weights_of_chosen(weights, part), len(part), seed=4)


def test_samplers_of_a_whole_dataset(numbers):
    assert load(numbers, sampler=torch_data.SequentialSampler(numbers)) == wanted()
    assert load(numbers, sampler=torch_data.RandomSampler(numbers)) == wanted(shuffle=True, seed=0)
    sampler = torch_data.RandomSampler(numbers, generator=seeded(9))
    assert load(numbers, sampler=sampler) == wanted(shuffle=True, seed=9)
    assert load(numbers, sampler=sampler, seed=2) == wanted(shuffle=True, seed=2)


def test_samplers_of_a_subset(numbers):
    subset = torch_data.Subset(numbers, INDICES)
    assert load(subset, sampler=torch_data.SequentialSampler(subset)) == of_list(INDICES)
    assert load(subset, sampler=torch_data.RandomSampler(subset), seed=2) == of_list(INDICES, shuffle=True, seed=2)
    sampler = torch_data.SubsetRandomSampler([3, 1, 1, 0])
    assert load(subset, sampler=sampler, seed=2) == of_list([7, 202, 202, 5], shuffle=True, seed=2)


def test_a_subset_random_sampler(numbers):
    assert load(numbers, sampler=torch_data.SubsetRandomSampler(INDICES), seed=6) == of_list(INDICES, shuffle=True, seed=6)
    sampler = torch_data.SubsetRandomSampler(torch.tensor(INDICES), generator=seeded(8))
    assert load(numbers, sampler=sampler) == of_list(INDICES, shuffle=True, seed=8)


def test_a_weighted_random_sampler(numbers):
    weights = [number % 5 for number in range(SAMPLES)]
    sampler = torch_data.WeightedRandomSampler(weights, 50, generator=seeded(3))
    assert load(numbers, sampler=sampler) == drawn(weights, 50, seed=3)
    assert load(numbers, sampler=torch_data.WeightedRandomSampler(weights, SAMPLES)) == drawn(weights, SAMPLES)


LISTED = [number * 5 % SAMPLES for number in range(100)]


def test_a_split_of_a_subset(numbers):
    """The subset is the list that the split takes a part of, with and without a sampler over it."""
    split = {"split": (0.2, 0.7), "split_seed": 3}
    subset, part = torch_data.Subset(numbers, LISTED), expected.chosen(SAMPLES, 20, 70, 3, LISTED)
    assert load(subset, **split) == of_list(part)
    shuffled = torch_data.RandomSampler(subset, generator=seeded(4))
    assert load(subset, sampler=shuffled, **split) == of_list(part, shuffle=True, seed=4)
    weights = [0] * SAMPLES
    for number, index in enumerate(LISTED):
        weights[index] = 1 + number % 3
    sampler = torch_data.WeightedRandomSampler([1 + number % 3 for number in range(100)], 300, generator=seeded(5))
    assert load(subset, sampler=sampler, **split) == drawn(expected.weights_of_chosen(weights, part), 300, seed=5)
    twice = torch_data.Subset(numbers, [7, 202, 7])
    same, other = (torch_data.WeightedRandomSampler(weights, 50) for weights in ([2, 1, 2], [2, 1, 1]))
    whole = [{7: 2, 202: 1}.get(number, 0) for number in range(SAMPLES)]
    assert load(twice, sampler=same, split=(0, 1)) == drawn(expected.weights_of_chosen(whole, twice.indices), 50)
    with pytest.raises(ValueError, match="a sample twice, with two weights"):
        load(twice, sampler=other, split=(0, 1))


def test_weights_of_a_sampler_with_other_choices(numbers):
    """They are those of weights=: one for each sample of the dataset."""
    weights = [number % 5 for number in range(SAMPLES)]
    sampler = torch_data.WeightedRandomSampler(weights, 300, generator=seeded(5))
    for options in ({"split": (0.2, 0.7)}, {"split": (0.2, 0.7), "split_seed": 3}, {"indices": LISTED},
                    {"indices": torch.tensor(LISTED), "split": (0, 0.5), "split_seed": 3}):  # fmt: skip
        found = load(numbers, sampler=sampler, **options)
        assert found == load(numbers, weights=weights, epoch_samples=300, seed=5, **options)
        assert set(sum(found, [])) < set(range(SAMPLES))


def test_a_distributed_sampler(daemon, numbers):
    for shuffle in (True, False):
        samplers = [DistributedSampler(numbers, 2, rank, shuffle=shuffle, seed=7) for rank in range(2)]
        loaders = [
            feedd.DataLoader(numbers, 16, framework="torch", sampler=sampler, share=f"distributed-{shuffle}")
            for sampler in samplers
        ]  # fmt: skip
        parts = [support.Thread(read, loader) for loader in loaders]
        for rank, part in enumerate(parts):
            part.join()
            assert part.result == wanted(world_size=2, rank=rank, shuffle=shuffle, seed=7)
        for loader in loaders:
            loader.close()


def test_a_batch_sampler(numbers):
    batches = torch_data.BatchSampler(torch_data.RandomSampler(numbers, generator=seeded(4)), 10, True)
    assert load(numbers, batch_size=1, batch_sampler=batches) == wanted(10, shuffle=True, seed=4, drop_last=True)


# ---- What says something else ------------------------------------------------------------------------------


class OwnSampler(torch_data.SequentialSampler):
    def __iter__(self):
        return iter([1])


REFUSED = [
    (lambda d: {"sampler": torch_data.RandomSampler(d, replacement=True)}, "weights="),
    (lambda d: {"sampler": torch_data.RandomSampler(d, num_samples=5)}, "weights= and epoch_samples="),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0] * 5, 5, replacement=False)}, "with replacement"),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0] * 5, 5), "epoch_samples": 5}, "epoch_samples="),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0] * 5, 5), "weights": [1.0] * SAMPLES}, "say the same"),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0], 5), "indices": [1]}, "and a Subset of a feedd.Dataset"),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0] * 5, 5), "indices": [1]}, "found 5, wanted 203, one for"),
    (lambda d: {"sampler": torch_data.WeightedRandomSampler([1.0] * 101, 5), "split": (0, 0.5)}, "found 101, wanted 203"),
    (lambda d: {"sampler": torch_data.SubsetRandomSampler([1]), "split": (0, 0.5)}, "give indices=, split= and shuffle=True"),
    (lambda d: {"sampler": torch_data.SubsetRandomSampler([1]), "indices": [1]}, "both choose samples: give one list"),
    (lambda d: {"sampler": torch_data.SubsetRandomSampler([1]), "weights": [1.0] * SAMPLES}, "give weights= and indices="),
    (lambda d: {"sampler": torch_data.SubsetRandomSampler([1]), "shuffle": True}, "shuffle=True"),
    (lambda d: {"sampler": torch_data.SequentialSampler([1, 2])}, "of another dataset"),
    (lambda d: {"sampler": torch_data.RandomSampler([1, 2])}, "of another dataset"),
    (lambda d: {"sampler": DistributedSampler([1, 2], 2, 0), "share": "x"}, "of another dataset"),
    (lambda d: {"sampler": OwnSampler(d)}, "indices= takes a list"),
    (lambda d: {"sampler": [3, 1, 2]}, "indices= takes a list"),
    (lambda d: {"batch_sampler": [[3, 1], [2]]}, "indices="),
    (lambda d: {"batch_sampler": torch_data.BatchSampler(torch_data.SequentialSampler(d), 3, False)}, "batch_size="),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_samplers_that_say_something_else(numbers, case):
    make, says = REFUSED[case]
    with pytest.raises((ValueError, feedd.OptionError), match=says):
        load(numbers, **make(numbers))


def test_weights_and_a_subset(numbers):
    """It would be unclear whose samples the weights are of: those of the Subset, or of the dataset."""
    with pytest.raises(ValueError, match="weights= and a Subset both choose samples: .* weights= and indices=subset.indices"):
        load(torch_data.Subset(numbers, [1]), weights=[1.0] * SAMPLES)
    with pytest.raises(ValueError, match="indices= and a Subset both choose samples: .* a Subset of the Subset"):
        load(torch_data.Subset(numbers, [1]), indices=[1])


def test_weights_that_do_not_fit_the_subset(numbers):
    for indices, says in (([1, 2], "has 1 weights for the 2 samples of its Subset"), ([-1], "beyond the 203 samples")):
        with pytest.raises(ValueError, match=says):
            load(torch_data.Subset(numbers, indices), sampler=torch_data.WeightedRandomSampler([1.0], 5))


def test_subsets_of_something_else(numbers, daemon):
    with pytest.raises(TypeError, match="not a dataset's name"):
        load(torch_data.Subset([1, 2, 3], [1]))
    with pytest.raises(ValueError, match="The daemon makes the order"):
        load(torch_data.Subset([1, 2, 3], [1]), sampler=torch_data.WeightedRandomSampler([1.0], 5))
    part = feedd.Dataset("numbers", indices=[1, 2], socket=daemon.socket)
    with pytest.raises(ValueError, match="cannot be nested"):
        load(torch_data.Subset(part, [1]))
    with pytest.raises(feedd.OptionError, match="sample number 203"):
        load(torch_data.Subset(numbers, [SAMPLES]))
