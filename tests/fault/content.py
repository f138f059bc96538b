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
EPOCHS = 4  # of images: more than a victim gets to


def add_records(instance, name, **options):
    data.add_records(instance, name, SAMPLES, SIZE, **options)


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


@functools.lru_cache(maxsize=None)
def wanted_images(seed):
    """The batches of a run without faults, by another reader and in more loaders: tests/integration/test_images.py says that
    these are right."""
    with harness.Instance(loaders=3) as feedd:
        add_images(feedd, "images", io="pread")
        feedd.start()
        return consumer.read(feedd, "images", BATCH, epochs=EPOCHS, shuffle=True, seed=seed)


@functools.lru_cache(maxsize=None)
def wanted(seed, epoch):
    batches = expected.epoch_batches(SAMPLES, BATCH, epoch=epoch, shuffle=True, seed=seed)
    content = [data.sample_bytes(index, SIZE) for index in range(SAMPLES)]
    for batch in batches:
        batch["crc"] = expected.crc({"x": content}, batch["samples"])
    return batches


def right(images, seed, number):
    """Of a batch, by its number from the beginning."""
    if images:
        return wanted_images(seed)[number]
    per_epoch = SAMPLES // BATCH
    return wanted(seed, number // per_epoch)[number % per_epoch]
