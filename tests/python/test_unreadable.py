"""Samples that cannot be read because a file has shrunk: on_error says whether the feed fails or continues without them."""

import contextlib
import errno
import itertools
import os

import harness
import pytest
import support
from support import RECORD, SHUFFLED, raw, read, samples_of, take, wanted

import feedd

SAMPLES = 3000  # far more than the ring or the pool has room for
LEFT = 1900  # of them are in the file in the end, and a part of the next one


@contextlib.contextmanager
def numbers(on_error, device):
    """A daemon, the file of its dataset numbers, and loaders on it."""
    with harness.Instance(ring="16K", device_pool="64K") as daemon:
        file = support.add_numbers(daemon, SAMPLES, on_error=on_error)
        daemon.start()
        with support.loaders(daemon, device=device) as load:
            yield daemon, file, load


def shrink(file):
    os.truncate(file, LEFT * RECORD + 5)


def readable(batches):
    """What is left of each."""
    return [sorted(sample for sample in batch if sample < LEFT) for batch in batches]


def read_sorted(batches):
    """Others of the batch may close the gap that a sample leaves."""
    return [sorted(samples_of(batch)) for batch in batches]


def test_skipping(device):
    """The batches are as many as ever, and shorter by what is missing; each says by how much."""
    with numbers("skip", device) as (daemon, file, load):
        shrink(file)
        loader = load(framework="dlpack", **SHUFFLED)
        for epoch in range(2):
            right = wanted(samples=SAMPLES, epoch=epoch, **SHUFFLED)
            assert len(loader) == len(right)
            for samples, left in zip(right, readable(right)):
                batch = loader._take()
                assert (batch.epoch, batch.count, batch.skipped) == (epoch, len(left), len(samples) - len(left))
                found = samples_of(batch.arrays())
                assert sorted(found) == left and batch.samples() == found
        counters = daemon.statistics()["feeds"][0]["loader_counters"]
        assert counters["skipped"] >= 2 * (SAMPLES - LEFT), counters


def test_batches_of_which_nothing_is_left(device):
    """In the order of the file the last ones are empty, and as good as any other."""
    with numbers("skip", device) as (_, file, load):
        shrink(file)
        batches = [[tuple(tensor.shape) for tensor in batch] for batch in load()]
        counts = [len(left) for left in readable(wanted(samples=SAMPLES))]
        assert counts[118:120] == [12, 0], "the test's own numbers"
        assert batches == [[(count,), (count, support.BODY)] for count in counts]


@pytest.mark.parametrize("batch_size", [16, 48])
def test_a_state_after_skipped_samples(device, batch_size):
    """It counts those that are missing, so that nothing comes twice, whatever the batches of the next loader."""
    with numbers("skip", device) as (_, file, load):
        shrink(file)
        loader = load(**SHUFFLED)
        right = wanted(samples=SAMPLES, **SHUFFLED)
        assert read_sorted(itertools.islice(loader, 60)) == readable(right)[:60]
        again = load(batch_size=batch_size, **SHUFFLED)
        again.load_state_dict(loader.state_dict())
        rest = wanted(batch_size, samples=SAMPLES, consumed=60 * 16, **SHUFFLED)
        assert read_sorted(again) == readable(rest)
        assert sorted(sum(readable(right)[:60] + readable(rest), [])) == list(range(LEFT))


def read_to_failure(iterator):
    """What comes before the error, and the error."""
    found = []
    with pytest.raises(feedd.Error) as raised:
        while True:
            found += take(iterator, 1)
    return found, raised.value


def check_error(error, file):
    assert type(error) is feedd.Error and error.code == errno.EIO
    for part in ("dataset numbers", f"{file}, offset ", "it has shrunk"):
        assert part in str(error), error


def test_failing(device):
    """Readers are told where; the state is that of the last batch, and a run with a complete file continues from there."""
    with numbers("fail", device) as (_, file, load):
        whole = file.read_bytes()
        loader = load()
        iterator = iter(loader)
        right = wanted(samples=SAMPLES)
        found = take(iterator, 5)
        held = next(iterator)
        kept = [raw(tensor) for tensor in held]
        shrink(file)
        rest, error = read_to_failure(iterator)
        check_error(error, file)
        found += [samples_of(held), *rest]
        assert found == right[: len(found)] and len(found) <= LEFT // 16
        assert [raw(tensor) for tensor in held] == kept, "what is held stays as it is"
        state = loader.state_dict()
        assert read_to_failure(iterator)[0] == [], "it stays failed"
        file.write_bytes(whole)  # in place: the daemon has this very file open
        again = load()
        again.load_state_dict(state)
        assert read(again) == right[len(found) :]
        loader.load_state_dict(state)
        assert read(loader) == right[len(found) :], "and so does the loader that had failed"


def test_failing_at_once(device):
    """A loader that begins when the file is already short; the next epoch does not help."""
    with numbers("fail", device) as (_, file, load):
        shrink(file)
        loader = load(**SHUFFLED)
        found, error = read_to_failure(iter(loader))
        check_error(error, file)
        right = wanted(samples=SAMPLES, **SHUFFLED)
        assert found == right[: len(found)] and readable(found) == [sorted(batch) for batch in found]
        for epoch in (1, 2):
            loader.set_epoch(epoch)
            found, error = read_to_failure(iter(loader))
            check_error(error, file)
