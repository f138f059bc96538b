"""What frameworks look for on a torch DataLoader, and what they build out of the parts of ours."""

import pickle
import sys

import pytest
import support
import torch
from support import SAMPLES, SHUFFLED, read, samples_of, take, wanted
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler

import feedd
from feedd.torch_samplers import LoaderBatchSampler


def built(loader, batches=None):
    """torch's own class over the parts of a loader, as Accelerate builds one."""
    parts = {name: getattr(loader, name) for name in (
        "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
        "prefetch_factor", "persistent_workers", "pin_memory_device", "in_order",
    )}  # fmt: skip
    return DataLoader(loader.dataset, batch_sampler=loader.batch_sampler if batches is None else batches, **parts)


class Skipping(BatchSampler):
    """Leaves out the first batches of another, as Accelerate's does."""

    def __init__(self, batch_sampler, count):
        self.batch_sampler, self.count = batch_sampler, count

    def __iter__(self):
        return (batch for number, batch in enumerate(self.batch_sampler) if number >= self.count)


def test_it_counts_as_a_loader_of_torch(load_host):
    loader = load_host(**SHUFFLED)
    assert isinstance(loader, DataLoader) and isinstance(loader, feedd.DataLoader)
    assert type(loader) is feedd.DataLoader and type(pickle.loads(pickle.dumps(loader))) is feedd.DataLoader
    assert not isinstance(load_host(framework="numpy"), DataLoader)
    with pytest.raises(TypeError):
        loader.__class__ = object


def test_every_attribute_of_torchs_is_there(load_host):
    """All public ones of torch's own loader, and those that describe workers say that there are none."""
    theirs = DataLoader(range(3))
    loader = load_host(timeout=3.0, drop_last=True)
    public = {name for name in dir(theirs) if not name.startswith("_")}
    missing = {name for name in public if not hasattr(loader, name)}
    assert missing <= {"check_worker_number_rationality", "get_worker_init_fn"}, missing
    assert (loader.num_workers, loader.prefetch_factor, loader.pin_memory, loader.persistent_workers) == (0, None, False, False)
    assert (loader.batch_size, loader.drop_last, loader.timeout, loader.generator) == (16, True, 3.0, None)
    assert (len(loader.dataset), loader.in_order, loader.pin_memory_device) == (SAMPLES, True, "")
    generator = torch.Generator().manual_seed(4)
    assert load_host(generator=generator).generator is generator


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_samplers_say_what_the_daemon_does(load_host, shuffle, drop_last):
    lengths = []
    for rank in range(3):
        share = f"{shuffle}-{drop_last}"
        loader = load_host(
            batch_size=8, shuffle=shuffle, seed=9, drop_last=drop_last, rank=rank, world_size=3, share=share
        )  # fmt: skip
        sampler = loader.sampler
        assert isinstance(sampler, DistributedSampler)
        assert isinstance(sampler, RandomSampler) == shuffle and isinstance(sampler, SequentialSampler) == (not shuffle)
        assert (sampler.rank, sampler.num_replicas, sampler.shuffle, sampler.seed) == (rank, 3, shuffle, 9)
        assert sampler.dataset is loader.dataset and loader.batch_sampler.sampler.loader is loader
        assert (loader.batch_sampler.batch_size, loader.batch_sampler.drop_last) == (8, drop_last)
        shape = {"world_size": 3, "rank": rank, "shuffle": shuffle, "seed": 9, "drop_last": drop_last}
        assert len(sampler) == sum(map(len, wanted(8, **shape)))
        assert len(loader.batch_sampler) == len(wanted(8, **shape))
        lengths.append(len(sampler))
    assert sum(lengths) == sampler.total_size == (SAMPLES - SAMPLES % 24 if drop_last else SAMPLES)
    with pytest.raises(TypeError, match="the daemon makes the order"):
        iter(sampler)


def test_torchs_loader_over_its_parts(load_host):
    """The same batches, epoch after epoch."""
    loader = load_host(**SHUFFLED)
    theirs = built(loader)
    assert len(theirs) == len(loader)
    for epoch in range(3):
        assert read(theirs) == wanted(epoch=epoch, **SHUFFLED)
    assert read(loader) == wanted(epoch=3, **SHUFFLED)


@pytest.mark.parametrize("skipped", [0, 1, 7, 12, 13])
def test_batches_that_are_skipped(load_host, skipped):
    """In the epoch that is set, whatever the loader stands at; and the next epoch of the loader itself is whole."""
    loader = load_host(**SHUFFLED)
    take(iter(loader), 2)
    batches = loader.batch_sampler
    batches.set_epoch(5)
    assert read(built(loader, Skipping(batches, skipped))) == wanted(epoch=5, **SHUFFLED)[skipped:]
    loader.set_epoch(6)
    assert read(loader) == wanted(epoch=6, **SHUFFLED)


def test_skipping_after_a_state_was_loaded(load_host):
    """It counts from the beginning of the epoch, as where a framework both restores a state and skips."""
    loader, again = load_host(**SHUFFLED), load_host(**SHUFFLED)
    take(iter(loader), 4)
    again.load_state_dict(loader.state_dict())
    assert read(built(again, Skipping(again.batch_sampler, 4))) == wanted(**SHUFFLED)[4:]


def test_skipping_with_ranks(load_host):
    """Both ranks go to the place together; together they see each sample that was not skipped once."""
    loaders = [
        load_host(batch_size=8, rank=rank, world_size=2, share="skipping", drop_last=True, **SHUFFLED) for rank in range(2)
    ]

    def work(loader):
        return read(built(loader, Skipping(loader.batch_sampler, 3)))

    threads = [support.Thread(work, loader) for loader in loaders]
    for rank, thread in enumerate(threads):
        assert thread.done() == wanted(8, world_size=2, rank=rank, drop_last=True, **SHUFFLED)[3:]


def test_single_samples_of_a_list_of_numbers(load_host):
    """What other samplers give to the dataset, and collate_fn then puts together."""
    loader = load_host(framework="torch")
    assert samples_of(loader.collate_fn(loader.dataset.__getitems__([3, 1, 202]))) == [3, 1, 202]


def test_a_loader_of_a_loaders_batch_sampler(load_host):
    """As Lightning makes one for predictions: with a wrapper, without drop_last, and with attributes of the first one."""
    loader = load_host(drop_last=True, as_dict=True, **SHUFFLED)
    whole = LoaderBatchSampler(loader.sampler, loader.batch_size, False)
    with feedd.DataLoader(loader.dataset, batch_sampler=Skipping(whole, 0), seed=11, as_dict=True) as again:
        assert (again.batch_size, again.drop_last, again.as_dict, again.seed) == (16, False, True, 11)
        assert read(again) == wanted(**SHUFFLED)
        batches, put_together = Skipping(again.batch_sampler, 0), again.collate_fn
        with feedd.DataLoader(again.dataset, batch_sampler=batches, collate_fn=put_together) as third:
            assert read(third) == wanted(**SHUFFLED)
    with pytest.raises(ValueError, match="the batch_sampler is that of a loader over"):
        feedd.DataLoader("types", batch_sampler=loader.batch_sampler)
    in_order = LoaderBatchSampler(SequentialSampler(loader.dataset), 16, False)
    with pytest.raises(ValueError, match="shuffle=False"):
        feedd.DataLoader(loader.dataset, batch_sampler=in_order)


def test_an_epoch_that_is_set_after_iter(load_host):
    """Before the first batch it counts, as with torch's samplers; the sampler leaves an iteration in that epoch alone."""
    loader = load_host(**SHUFFLED)
    batches = iter(loader)
    loader.sampler.set_epoch(4)
    assert take(batches, 2) == wanted(epoch=4, **SHUFFLED)[:2]
    loader.sampler.set_epoch(4)
    state = loader.state_dict()
    assert read(batches) == wanted(epoch=4, **SHUFFLED)[2:]
    loader.load_state_dict(state)
    assert read(loader) == wanted(epoch=4, **SHUFFLED)[2:]


def test_a_feed_that_is_shared_stays_where_it_is(load_host):
    loader = load_host(share="together", **SHUFFLED)
    with pytest.raises(feedd.OptionError, match="shared as 'together' cannot go to another place"):
        read(built(loader, Skipping(loader.batch_sampler, 3)))


def test_accelerate_sees_the_end_of_an_epoch(load_host, monkeypatch):
    """Its protocol, spoken to a stand-in."""

    class State:
        _shared_state = {"made": True}
        active = []

        def _add_dataloader(self, loader):
            self.active.append(loader)

        def _remove_dataloader(self, loader):
            self.active[:] = [one for one in self.active if one is not loader]

    module = type(torch)("accelerate.state")
    module.GradientState = State
    monkeypatch.setitem(sys.modules, "accelerate.state", module)
    loader = load_host(**SHUFFLED)
    for batches in (loader, built(loader), built(loader, Skipping(loader.batch_sampler, 10))):
        ends = [State.active[-1].end_of_dataloader for _ in batches]
        assert ends == [False] * (len(ends) - 1) + [True] and not State.active
    for _ in loader:
        break
    assert len(State.active) == 1 and not State.active[0].end_of_dataloader
    assert len([0 for _ in loader]) == 13 and not State.active


def test_without_torch_there_are_no_samplers(load_host):
    loader = load_host(framework="numpy")
    assert loader.sampler is None and loader.batch_sampler is None
