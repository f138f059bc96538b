"""What the consumers of make check-fault read, and what they must get."""

import functools
import random

import consumer
import data
import expected
import harness
import plain_images
import test_tar

SAMPLES, SIZE, BATCH = 96, 1024, 16
VICTIM_SEED = 11
EPOCHS = 4  # of images: more than a victim gets to


def add_records(instance, name, size=SIZE, **options):
    data.add_records(instance, name, SAMPLES, size, **options)


def add_images(instance, name, **options):
    """JPEG and PNG images in a tar archive."""
    chance = random.Random(5)
    samples = []
    for number in range(SAMPLES):
        width, height = chance.randrange(20, 60), chance.randrange(20, 60)
        pixels = plain_images.pixels_of(chance, width, height, 3)
        samples.append((f"{number:03}", {"x": plain_images.encode(number, width, height, pixels)}))
    path = instance.directory / f"{name}.tar"
    test_tar.write(path, samples)
    steps = "random_resized_crop 12, flip 0.5, brightness 0.3, cast f16"
    instance.add_dataset(name, format="tar", path=path, field_x="bytes", transform_x=steps, **options)


def grown_samples():
    """Batch 1 of the first epoch needs more than a usual slot, and batch 2 of the second one more than that. The pool's slot
    grows when it is delivered, and again after a process has died."""
    sizes = [200 + number for number in range(SAMPLES)]
    for epoch, batch, size in ((0, 1, 1_200_000), (1, 2, 2_600_000)):
        sizes[expected.epoch_batches(SAMPLES, BATCH, epoch=epoch, shuffle=True, seed=VICTIM_SEED)[batch]["samples"][3]] = size
    return [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]


def add_grown(instance, name, **options):
    path = instance.directory / f"{name}.tar"
    test_tar.write(path, [(f"{number:03}", {"x": sample}) for number, sample in enumerate(grown_samples())])
    instance.add_dataset(name, format="tar", path=path, field_x="bytes", **options)


@functools.lru_cache(maxsize=None)
def wanted_images(seed):
    """The batches of a run without faults, by another reader and in more loaders: tests/integration/test_images.py says that
    these are right."""
    with harness.Instance(loaders=3) as feedd:
        add_images(feedd, "images", io="pread")
        feedd.start()
        return consumer.read(feedd, "images", BATCH, epochs=EPOCHS, shuffle=True, seed=seed)


@functools.lru_cache(maxsize=None)
def wanted(grown, seed, epoch, size):
    batches = expected.epoch_batches(SAMPLES, BATCH, epoch=epoch, shuffle=True, seed=seed)
    content = [data.sample_bytes(index, size) for index in range(SAMPLES)]
    if grown:
        content = expected.Ragged(grown_samples())
    for batch in batches:
        batch["crc"] = expected.crc({"x": content}, batch["samples"])
    return batches


ADD = {"images": add_images, "grown": add_grown}


def right(kind, seed, number, size):
    """Of a batch, by its number from the beginning."""
    if kind == "images":
        return wanted_images(seed)[number]
    per_epoch = SAMPLES // BATCH
    return wanted(kind == "grown", seed, number // per_epoch, size)[number % per_epoch]
