"""What must be delivered, computed without feedd: the content of files by plain slicing, the order and the batches from
their description in order/order.h (the permutation from ../unit/order_reference.py).

A dataset's content is {field: [bytes of sample 0, bytes of sample 1, ...]}.
"""

import ast
import functools
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

from draw_reference import Draws  # noqa: E402
from order_reference import Order, selected  # noqa: E402

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


def view(content, begin, end, split_seed=None):
    """The content of a view; its samples are numbered from 0."""
    samples = len(next(iter(content.values())))
    chosen = selected(samples, begin, end - begin, split_seed)
    return {name: [values[sample] for sample in chosen] for name, values in content.items()}


# ---- Order and batches -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _order(samples, shuffle, seed, epoch):
    if not shuffle:
        return range(samples)
    order = Order(samples, seed, epoch)
    return [order.sample(position) for position in range(samples)]


def _runs(rest, batch_size, world_size):
    """How `rest` samples of a global batch are divided: the count for each rank."""
    if rest >= batch_size * world_size:
        return [batch_size] * world_size
    return [rest // world_size + (rank < rest % world_size) for rank in range(world_size)]


def epoch_batches(samples, batch_size, world_size=1, rank=0, drop_last=False, shuffle=False, seed=0, epoch=0, consumed=0):
    """The batches of one rank in one epoch, as the lines of consumer.c without their bytes."""
    order = _order(samples, shuffle, seed, epoch)
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


def crc(content, samples):
    return {name: zlib.crc32(b"".join(values[sample] for sample in samples)) for name, values in content.items()}


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
