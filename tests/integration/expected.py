"""What must be delivered, computed without feedd: the content of files by plain slicing, the order and the batches from
their description in order/order.h (the permutation from ../unit/order_reference.py).

A dataset's content is {field: [bytes of sample 0, bytes of sample 1, ...]}.
"""

import ast
import collections
import functools
import itertools
import pathlib
import struct
import sys
import zlib
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

from draw_reference import Draws  # noqa: E402
from mix_reference import Mix  # noqa: E402
from order_reference import Order, selected  # noqa: E402
from replace_reference import ATTEMPTS, replacement  # noqa: E402
from window_reference import Windows, part  # noqa: E402

IDX_BYTES = {0x08: 1, 0x09: 1, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8}


# ---- Files -------------------------------------------------------------------------------------------------


def _cut(data, size):
    assert len(data) % size == 0
    return [data[at : at + size] for at in range(0, len(data), size)]


def read_records(paths, record_bytes, fields, header=0):
    """fields: {name: (offset, bytes)}."""
    records = []
    for path in paths:
        records += _cut(pathlib.Path(path).read_bytes()[header:], record_bytes)
    return {name: [record[at : at + size] for record in records] for name, (at, size) in fields.items()}


def read_idx(path):
    data = pathlib.Path(path).read_bytes()
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    size = IDX_BYTES[data[2]]
    for extent in shape[1:]:
        size *= extent
    return _cut(data[4 + 4 * dimensions :], size)


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    begin = 10 if data[6] == 1 else 12
    size = int.from_bytes(data[8:begin], "little")
    header = ast.literal_eval(data[begin : begin + size].decode())
    item = int(header["descr"][2:])
    for extent in header["shape"][1:]:
        item *= extent
    return _cut(data[begin + size :], item)


def read_tokens(paths, token_bytes, length, header=0):
    """Windows of length+1 tokens; the next begins length tokens later; none extends across files."""
    windows = []
    for path in paths:
        tokens = pathlib.Path(path).read_bytes()[header:]
        at, step = 0, length * token_bytes
        while at + step + token_bytes <= len(tokens):
            windows.append(tokens[at : at + step + token_bytes])
            at += step
    return windows


def _part(values, chosen):
    part = [values[sample] for sample in chosen]
    return Ragged(part, values.item) if isinstance(values, Ragged) else part


def view(content, begin, end, split_seed=None):
    """The content of a view; its samples are numbered from 0."""
    samples = len(next(iter(content.values())))
    chosen = selected(samples, begin, end - begin, split_seed)
    return {name: _part(values, chosen) for name, values in content.items()}


def chosen(samples, begin, end, split_seed=None, indices=None):
    """The sample numbers of a view that takes part of a dataset of so many samples or, with `indices`, of that list."""
    if indices is None:
        return selected(samples, begin, end - begin, split_seed)
    return [indices[place] for place in selected(len(indices), begin, end - begin, split_seed)]


def weights_of_chosen(weights, chosen):
    """A sample that is chosen several times has its weight as often; one that is not has none."""
    times = collections.Counter(chosen)
    return [Fraction(weight) * times[sample] for sample, weight in enumerate(weights)]


# ---- Order and batches -------------------------------------------------------------------------------------


class Shuffled:
    """How a dataset with shuffle_window is shuffled: with groups of these sizes; of a view, some of its samples."""

    def __init__(self, size, groups, first=0, samples=None):
        bounds = [0, *itertools.accumulate(groups)]
        self.size, self.groups = size, part(bounds, first, bounds[-1] - first if samples is None else samples)


@functools.lru_cache(maxsize=64)
def _order(samples, shuffle, seed, epoch, windows=None):
    if not shuffle:
        return range(samples)
    order = Windows(windows.groups, windows.size, seed, epoch) if windows else Order(samples, seed, epoch)
    return [order.sample(position) for position in range(samples)]


def _runs(rest, batch_size, world_size):
    """How `rest` samples of a global batch are divided: the count for each rank."""
    if rest >= batch_size * world_size:
        return [batch_size] * world_size
    return [rest // world_size + (rank < rest % world_size) for rank in range(world_size)]


def epoch_batches(samples, batch_size, world_size=1, rank=0, drop_last=False, shuffle=False, seed=0, epoch=0, consumed=0,
                  windows=None):  # fmt: skip
    """The batches of one rank in one epoch, as the lines of consumer.c without their bytes."""
    order = _order(samples, shuffle, seed, epoch, windows)
    batches, at = [], consumed
    while at < samples and not (drop_last and samples - at < batch_size * world_size):
        counts = _runs(samples - at, batch_size, world_size)
        first = at + sum(counts[:rank])
        count = counts[rank]
        at += sum(counts)
        batches.append({
            "epoch": epoch, "index": len(batches), "first": first, "count": count, "skipped": 0,
            "samples": list(order[first : first + count]),
        })  # fmt: skip
    for batch in batches:
        batch["last"] = batch is batches[-1]
    return batches


def run_batches(samples, batch_size, epochs=1, epoch=0, consumed=0, **shape):
    batches = []
    for number in range(epoch, epochs):
        begin = consumed if number == epoch else 0
        batches += epoch_batches(samples, batch_size, epoch=number, consumed=begin, **shape)
    return batches


class Ragged(list):
    """A field whose samples differ in length, of values of so many bytes."""

    def __init__(self, samples, item=1):
        super().__init__(samples)
        self.item = item


def _crc(chosen, field):
    """Of some samples of a field."""
    hashed = zlib.crc32(b"".join(chosen))
    if isinstance(field, Ragged):
        offsets = [0, *itertools.accumulate(len(sample) // field.item for sample in chosen)]
        hashed = zlib.crc32(struct.pack(f"<{len(offsets)}q", *offsets), hashed)
    return hashed


def crc(content, samples):
    return {name: _crc([values[sample] for sample in samples], values) for name, values in content.items()}


# ---- Comparing ---------------------------------------------------------------------------------------------

KEYS = ("epoch", "index", "first", "count", "skipped", "samples", "last")


def check_bytes(content, batches):
    """Each batch holds the bytes of the samples that it says it holds."""
    for batch in batches:
        assert len(batch["samples"]) == batch["count"], batch
        right = crc(content, batch["samples"])
        assert batch["crc"] == right, f"wrong bytes in {batch}, wanted {right}"


def check_run(content, batches, batch_size, **options):
    """Exactly the batches of that run, in order, with the right bytes, numbered from 0."""
    check_places(len(next(iter(content.values()))), batches, batch_size, **options)
    check_bytes(content, batches)


def check_places(samples, batches, batch_size, **options):
    """Exactly the batches of that run, in order, numbered from 0."""
    wanted = run_batches(samples, batch_size, **options)
    for number, (batch, right) in enumerate(zip(batches, wanted)):
        found = {key: batch[key] for key in KEYS}
        assert found == {key: right[key] for key in KEYS}, f"batch {number} is {found}, wanted {right}"
    assert len(batches) == len(wanted), f"{len(batches)} batches, wanted {len(wanted)}"


def check_drawn(content, weights, batches, seed=0):
    """Each batch holds the bytes of the samples that a view with these weights draws at its positions."""
    draws = Draws(weights)
    for batch in batches:
        assert batch["samples"] == list(range(batch["first"], batch["first"] + batch["count"])), batch
        drawn = [draws.sample(seed, batch["epoch"], position) for position in batch["samples"]]
        assert batch["crc"] == crc(content, drawn), f"wrong bytes in {batch}, wanted those of samples {drawn}"


def replaced(samples, bad, batch, i, seed=0, number=lambda position: position):
    """What stands at place i of the batch, as the dataset numbers it: number() says which of `samples` of the view that is,
    and `bad` are those that cannot be read."""
    wanted = number(batch["samples"][i])
    for attempt in range(1, ATTEMPTS + 1):
        if wanted not in bad:
            return wanted
        wanted = number(replacement(seed, batch["epoch"], batch["first"] + i, attempt, samples))
    return wanted


def check_replaced(content, bad, batches, batch_size, seed=0, number=lambda position: position, samples=None, **options):
    """As check_run, where others stand in the places of `bad`; returns how many."""
    samples = samples or len(next(iter(content.values())))
    check_places(samples, batches, batch_size, seed=seed, **options)
    seed, count = seed if options.get("shuffle") or options.get("drawn") else 0, 0
    for batch in batches:
        stands = [replaced(samples, bad, batch, i, seed, number) for i in range(batch["count"])]
        count += sum(number(sample) != other for sample, other in zip(batch["samples"], stands))
        assert batch["crc"] == crc(content, stands), f"wrong bytes in {batch}, wanted those of samples {stands}"
    return count


class Source:
    """A source of a mix: the content of a dataset or view or, with weights, of the dataset that it draws from. `windows` is a
    Shuffled, or None."""

    def __init__(self, content, weights=None, samples=None, windows=None):
        self.content, self.windows = content, windows
        self.draws = Draws(weights) if weights else None
        self.samples = samples or len(weights or next(iter(content.values())))

    def sample(self, number, shuffle, seed):
        """What it gives as its sample `number` of all epochs, which does not depend on the mix."""
        epoch, position = divmod(number, self.samples)
        if self.draws:
            return self.draws.sample(seed, epoch, position)
        return _order(self.samples, shuffle, seed, epoch, self.windows)[position]

    def replaced(self, number, shuffle, seed, bad):
        """The same if the samples `bad` of the content cannot be read."""
        epoch, position = divmod(number, self.samples)
        wanted = self.sample(number, shuffle, seed)
        for attempt in range(1, ATTEMPTS + 1):
            if wanted not in bad:
                return wanted
            wanted = replacement(seed, epoch, position, attempt, self.samples)
            if self.draws:
                wanted = self.draws.sample(seed, epoch, wanted)
        return wanted


class Mixed:
    """A mix of sources from a position on, before which each had given `drawn` samples."""

    def __init__(self, sources, weights, epoch_samples, start=0, drawn=None):
        self.sources, self.epoch_samples, self.start = sources, epoch_samples, start
        self.drawn = drawn or [0] * len(sources)
        self.mix = Mix(weights)

    def at(self, epoch, position):
        """The source that stands there, and how many samples it gave before."""
        source, number = self.mix.draw(epoch * self.epoch_samples + position - self.start)
        return source, self.drawn[source] + number

    def changed(self, weights, epoch, position):
        """The same with other weights from there on."""
        start = epoch * self.epoch_samples + position
        drawn = [before + more for before, more in zip(self.drawn, self.mix.counts(start - self.start))]
        return Mixed(self.sources, weights, self.epoch_samples, start, drawn)

    def check(self, batches, shuffle=False, seed=0, bad=None):
        """Each batch holds the bytes of what stands at its positions. `bad`: those samples of each source that others
        replace; returns how often."""
        fields, count, bad = self.sources[0].content, 0, bad or [()] * len(self.sources)
        seed = seed if shuffle or any(source.draws for source in self.sources) else 0
        for batch in batches:
            due = range(batch["first"], batch["first"] + batch["count"] + batch["skipped"])
            assert set(batch["samples"]) <= set(due) and len(set(batch["samples"])) == batch["count"], batch
            assert batch["skipped"] or batch["samples"] == list(due), batch
            places = [self.at(batch["epoch"], position) for position in batch["samples"]]
            given = [(self.sources[at].content, self.sources[at].replaced(number, shuffle, seed, bad[at]))
                     for at, number in places]  # fmt: skip
            count += sum(self.sources[at].sample(number, shuffle, seed) in bad[at] for at, number in places)
            wanted = {name: _crc([content[name][sample] for content, sample in given], values)
                      for name, values in fields.items()}  # fmt: skip
            assert batch["crc"] == wanted, f"wrong bytes in {batch}, wanted {wanted}"
        return count


def check_exactly_once(samples, batches):
    """Together these batches are whole epochs: every sample once in each."""
    epochs = {}
    for batch in batches:
        epochs.setdefault(batch["epoch"], []).extend(batch["samples"])
    for epoch, delivered in epochs.items():
        assert sorted(delivered) == list(range(samples)), (
            f"epoch {epoch}: {len(delivered)} samples delivered, {len(set(delivered))} different, wanted {samples}"
        )
    return len(epochs)
