"""torch's Subsets and samplers, where arguments of DataLoader can express the same."""

import sys
from typing import Any

from .dataset import Dataset

_SAMPLERS = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


def adopted(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy in which torch's Subsets and samplers have become indices, weights, shuffle and so on. Anything else is left
    as it is. Only torch's own classes count: a subclass may do anything."""
    given = dict(arguments)
    torch = sys.modules.get("torch.utils.data")
    if torch is not None:
        _take_loader(given)
        _take_batch_sampler(torch, given)
        source = given["dataset"]
        _take_subset(torch, given)
        _take_sampler(torch, given, source)
    return given


def _take_loader(given: dict[str, Any]) -> None:
    """For a loader's own batch_sampler, as when Lightning makes one loader from another for predictions: that loader's
    arguments, except drop_last. The other arguments that are given are attributes of that loader, too."""
    from .torch_samplers import LoaderSampler, loaders_own  # which needs torch

    first = own = loaders_own(given["batch_sampler"])
    while first is not None and own is not None:
        if not isinstance(own.sampler, LoaderSampler):
            raise ValueError(f"the order of a feedd.DataLoader cannot be that of a {type(own.sampler).__name__}: make the"
                             " loader with shuffle=False (as for Lightning's overfit_batches)")
        loader = own.sampler.loader
        if given["dataset"] is not loader.dataset:
            raise ValueError(f"the batch_sampler is that of a loader over {loader.dataset!r}: give that dataset with it")
        given.update(loader._made_with, drop_last=first.drop_last)
        own = loaders_own(given["batch_sampler"])  # that loader may have been made in the same way


def _take_batch_sampler(torch: Any, given: dict[str, Any]) -> None:
    batches = given["batch_sampler"]
    if type(batches) is not torch.BatchSampler:
        return
    if given["batch_size"] != 1 or given["shuffle"] or given["drop_last"] or given["sampler"] is not None:
        raise ValueError("batch_sampler= says what batch_size=, shuffle=, sampler= and drop_last= say: give one or the other")
    given.update(batch_sampler=None, sampler=batches.sampler, batch_size=batches.batch_size, drop_last=batches.drop_last)


def _refuse_both(given: dict[str, Any], name: str, what: str, advice: str) -> None:
    """Where it would be unclear which of the two chooses from what the other has chosen."""
    if given[name] is not None:
        raise ValueError(f"{name}= and a {what} both choose samples: {advice}")


def _take_subset(torch: Any, given: dict[str, Any]) -> None:
    dataset, indices = given["dataset"], None
    while type(dataset) is torch.Subset:
        indices = dataset.indices if indices is None else [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if indices is not None and isinstance(dataset, Dataset):
        _refuse_both(given, "indices", "Subset", "give one list, or a Subset of the Subset")
        _refuse_both(given, "weights", "Subset", "for one weight for each sample of the Subset, give"
                     " sampler=WeightedRandomSampler(weights, num_samples); for one for each sample of the dataset, give the"
                     " dataset itself, weights= and indices=subset.indices")  # fmt: skip
        given.update(indices=indices, dataset=dataset)


def _check_source(sampler: Any, source: Any) -> None:
    sampled = sampler.dataset if hasattr(sampler, "dataset") else sampler.data_source
    if sampled is not source:
        raise ValueError(f"the {type(sampler).__name__} is one of another dataset: make it of the feedd.Dataset, or the Subset"
                         " of one, that the loader gets")


def _take_seed(given: dict[str, Any], generator: Any) -> None:
    if generator is not None and given["generator"] is None and given["seed"] is None:
        given["generator"] = generator


def _take_sampler(torch: Any, given: dict[str, Any], source: Any) -> None:
    sampler, kind = given["sampler"], type(given["sampler"])
    if kind is torch.distributed.DistributedSampler:
        _check_source(sampler, source)
        _take_ranks(given, sampler)
        return
    known = [getattr(torch, name) for name in _SAMPLERS]
    if kind not in known:
        return
    if given["shuffle"]:
        raise ValueError("sampler= and shuffle=True both determine the order: give one of them")
    if kind is torch.SequentialSampler:
        _check_source(sampler, source)
        given.update(sampler=None)
    elif kind is torch.RandomSampler:
        _take_random(given, sampler, source)
    elif kind is torch.SubsetRandomSampler:
        _take_indices(torch, given, sampler, source)
    else:
        _take_weights(torch, given, sampler, source)


def _take_random(given: dict[str, Any], sampler: Any, source: Any) -> None:
    _check_source(sampler, source)
    if sampler.replacement:
        raise ValueError("a RandomSampler with replacement draws with equal weights: give weights=[1] * SAMPLES and"
                         " epoch_samples= instead")
    if sampler.num_samples != len(source):
        raise ValueError("a RandomSampler with num_samples= draws a part of an epoch: leave the loop early instead, or give"
                         " weights= and epoch_samples=")
    _take_seed(given, sampler.generator)
    given.update(sampler=None, shuffle=True)


def _take_indices(torch: Any, given: dict[str, Any], sampler: Any, source: Any) -> None:
    name = "SubsetRandomSampler"
    _refuse_both(given, "split", name, "for a part of its list, give indices=, split= and shuffle=True; if its numbers are"
                 " those of a part's samples, give a part that random_split() makes of a feedd.Dataset")  # fmt: skip
    _refuse_both(given, "weights", name, "for draws from its list, give weights= and indices=")
    indices = sampler.indices
    if type(source) is torch.Subset and given["indices"] is not None:  # of whose samples these are the numbers
        indices = [given["indices"][i] for i in indices]
    else:
        _refuse_both(given, "indices", name, "give one list, or the sampler and a Subset of a feedd.Dataset")
    _take_seed(given, sampler.generator)
    given.update(sampler=None, indices=indices, shuffle=True)


def _take_weights(torch: Any, given: dict[str, Any], sampler: Any, source: Any) -> None:
    if not sampler.replacement:
        raise ValueError("a WeightedRandomSampler without replacement is not what weights= does: it draws with replacement")
    for name, same in (("epoch_samples", "num_samples"), ("weights", "weights")):
        if given[name] is not None:
            raise ValueError(f"{name}= and the {same} of the WeightedRandomSampler say the same: give one of them")
    weights, indices = sampler.weights, given["indices"]
    if type(source) is torch.Subset:
        if not isinstance(given["dataset"], Dataset):
            return  # the loader refuses both
        weights = _weights_within(given["dataset"], indices, weights, given["split"] is not None)
        indices = None if given["split"] is None else indices
    elif hasattr(indices, "__len__") and len(indices) == len(weights):
        raise ValueError("the WeightedRandomSampler has as many weights as indices= has numbers. weights= has one for each"
                         " sample of the dataset; for one for each number, give the sampler and a Subset of a feedd.Dataset"
                         " instead of indices=")
    _take_seed(given, sampler.generator)
    given.update(sampler=None, weights=weights, indices=indices, epoch_samples=sampler.num_samples)


def _weights_within(dataset: Dataset, indices: Any, weights: Any, listed: bool) -> Any:
    """Weights of the samples of the whole dataset, as a tensor: 0 for those that are not in the Subset, and the sum of its
    weights for one that is there more than once. If its list is given along with them, such a sample counts more than once
    anyway, and needs one weight."""
    torch = sys.modules["torch"]
    numbers = torch.as_tensor(list(indices), dtype=torch.int64)
    if len(numbers) != len(weights):
        raise ValueError(f"the WeightedRandomSampler has {len(weights)} weights for the {len(numbers)} samples of its Subset")
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(dataset):
        raise ValueError(f"the Subset has sample numbers beyond the {len(dataset)} samples of {dataset!r}")
    whole, weights = torch.zeros(len(dataset), dtype=torch.float64), weights.to(torch.float64)
    if not listed:
        return whole.index_add_(0, numbers, weights)
    whole[numbers] = weights
    if not torch.equal(whole[numbers], weights):
        raise ValueError("split= takes a part of a Subset that has a sample twice, with two weights: make the part with"
                         " random_split(), and give it a WeightedRandomSampler of its own")
    return whole


def _take_ranks(given: dict[str, Any], sampler: Any) -> None:
    """The ranks share out each global batch; no sample is repeated, as that sampler does to make all ranks' parts equal."""
    if given["shuffle"]:
        raise ValueError("sampler= and shuffle=True both determine the order: give one of them")
    if given["rank"] is None and given["world_size"] is None:
        given.update(rank=sampler.rank, world_size=sampler.num_replicas)
    if given["seed"] is None and given["generator"] is None:
        given["seed"] = sampler.seed
    given.update(sampler=None, shuffle=sampler.shuffle)
