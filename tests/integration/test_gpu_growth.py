"""Slots of a pool that grow: nothing is as large as the largest batch before a batch needs it, and every batch arrives
whole, whoever dies, comes later or still reads what a slot had before."""

import contextlib

import consumer
import devices
import expected
import harness
import test_ragged
import test_tar
from devices import CPU, GPU

MIB = 1 << 20
LARGE = MIB
BATCH = 8
SHAPE = {"shuffle": True, "seed": 7}


def samples(count=600, large=(), size=LARGE):
    """Most have up to 3000 bytes."""
    made = test_tar.some(count)
    for place in large:
        made[place][1]["jpg"] = bytes([place % 251]) * (size + place)
    return made


def serve(made=None, environment=None, options=None, **settings):
    """A feedd with those samples, and what it must deliver."""
    feedd = harness.Instance(**{"device_pool": "256K", "device_linger": 1, **settings})
    content = test_ragged.add(feedd, [made or samples(large=range(100, 600, 100))], **(options or {}))
    return feedd.start(environment=environment), content


def start(feedd, device, **options):
    return consumer.Consumer(feedd, "wds", BATCH, device=device, **options)


def start_all(stack, feedd, places, **options):
    """Consumers of one feed, which begins when all have attached."""
    run = {"share": "job", "wait_for": len(places), **options}
    readers = [stack.enter_context(start(feedd, device, **run)) for device in places]
    for reader in readers:
        reader.uuid = reader.attached()["device"]
    return readers


def pool_bytes(feedd, uuid):
    return devices.gpu(feedd, uuid)["pool_bytes"]


def test_slots_grow_as_batches_need_it():
    """A pool of the usual size, some slots of which have the few large samples."""
    feedd, content = serve()
    with feedd, start(feedd, GPU, epochs=2, step=True, **SHAPE) as reader:
        uuid = reader.attached()["device"]
        at_first = pool_bytes(feedd, uuid)
        batches = reader.take(150)
        grown = pool_bytes(feedd, uuid)
        reader.next_ends()
        expected.check_run(content, batches, BATCH, epochs=2, **SHAPE)
        # A slot for the largest batch would have 5 MiB, or 40 MiB if samples could come more than once.
        assert at_first <= 2 * MIB < grown < 32 * MIB, (at_first, grown)


def test_two_share_a_pool_that_grows():
    feedd, content = serve()
    with feedd, contextlib.ExitStack() as stack:
        for reader in start_all(stack, feedd, [GPU, GPU, CPU], epochs=3, **SHAPE):
            expected.check_run(content, reader.finish(), BATCH, epochs=3, **SHAPE)
