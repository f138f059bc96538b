"""Masks: fields that follow the geometry of an image. What their pixels mean, and that they have the image's size."""

import struct

import consumer
import harness
import numpy as np
import pictures
import pyarrow as pa
import pyarrow.parquet
import test_errors

SIDE = 40


def palette(labels, colours=21):
    """As PASCAL VOC has them."""
    image = pictures.Image.fromarray(labels, "P")
    dice = np.random.default_rng(colours)
    image.putpalette(dice.integers(0, 256, 3 * colours, dtype=np.uint8).tobytes())
    return pictures.encode(image, "png")


def sixteen(labels):
    return pictures.encode(pictures.Image.fromarray(labels.astype(np.uint16)), "png")


def some_labels(image, seed, most=21):
    width, height = pictures.opened(image).size
    return np.random.default_rng(seed).integers(0, most, (height, width), dtype=np.uint8)


def add(feedd, images, masks, name="pictures", mask_first=False, **options):
    columns = {"mask": pa.array(masks, pa.binary()), "image": pa.array(images, pa.binary())}
    path = feedd.directory / f"{name}.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    fields = {"field_mask": "bytes", "field_image": "bytes"}
    if not mask_first:
        fields = dict(reversed(fields.items()))
    transforms = {"transform_image": f"random_resized_crop {SIDE}, flip", "transform_mask": "with image fill 255"}
    feedd.add_dataset(name, format="parquet", path=path, **{**fields, **transforms, **options})


def check(batches, labels, seed):
    """labels: an array for each sample."""
    for batch in batches:
        places = [(seed, batch["epoch"], batch["first"] + i) for i in range(batch["count"])]
        made = []
        for sample, place in zip(batch["samples"], places, strict=True):
            crop = pictures.random_resized_crop(
                pictures.Image.fromarray(labels[sample]), place, SIDE, resample=pictures.Image.Resampling.NEAREST
            )
            made.append(pictures.hwc(pictures.flip(crop, place)))
        assert batch["crc"]["mask"] == pictures.crc(made), batch


def test_labels():
    """The indices of a palette, of any number of bits, and 16-bit numbers that 8 bits can hold; no colours, no levels."""
    images = pictures.some(24, seed=51, kinds=("jpg", "png"))
    numbers = (2, 4, 16, 21, 256, 256)
    labels = [some_labels(image, i, numbers[i % 6]) for i, image in enumerate(images)]
    masks = [sixteen(one) if i % 6 == 5 else palette(one, numbers[i % 6]) for i, one in enumerate(labels)]
    depths = {struct.unpack(">B", mask[24:25])[0] for mask in masks}
    assert depths == {1, 2, 4, 8, 16}, depths
    for first in (False, True):
        with harness.Instance(loaders=2) as feedd:
            add(feedd, images, masks, mask_first=first)
            feedd.start()
            check(consumer.read(feedd, "pictures", 5, epochs=2, shuffle=True, seed=4), labels, 4)


def test_levels_of_grey_on_demand():
    """`decode gray` reads the mask as other images are read."""
    images = pictures.some(8, seed=52, kinds=("png",))
    masks = [palette(some_labels(image, i)) for i, image in enumerate(images)]
    levels = [np.asarray(pictures.opened(mask, "L")) for mask in masks]
    with harness.Instance() as feedd:
        add(feedd, images, masks, transform_mask="decode gray, with image")
        feedd.start()
        check(consumer.read(feedd, "pictures", 4, shuffle=True, seed=4), levels, 4)


def delivered(batches):
    return [sorted(batch["samples"]) for batch in batches]


def skipped(feedd, count, name="pictures"):
    return [(one["sample"], one["reason"]) for one in test_errors.counted(feedd, "skipped", count, name)["samples"]]


def test_numbers_beyond_eight_bits():
    """They are not cut to 255."""
    images = pictures.some(6, seed=53, kinds=("png",))
    labels = [some_labels(image, i).astype(np.uint16) for i, image in enumerate(images)]
    labels[2] += 256
    with harness.Instance() as feedd:
        add(feedd, images, [sixteen(one) for one in labels], on_error="skip")
        feedd.start()
        batches = consumer.read(feedd, "pictures", 6, seed=4)
        assert delivered(batches) == [[0, 1, 3, 4, 5]], batches
        ((sample, reason),) = skipped(feedd, 1)
        assert sample == 2 and "its 16-bit mask has a pixel of " in reason and "wanted at most 255" in reason, reason


def test_a_mask_of_another_size():
    """It would be cut somewhere else than its image: the sample counts as unreadable, whichever field comes first."""
    images = pictures.some(6, seed=54, kinds=("jpg", "png"))
    width, height = pictures.opened(images[2]).size
    labels = [some_labels(image, i) for i, image in enumerate(images)]
    labels[2] = np.zeros((height + 1, width), np.uint8)
    labels[4] = labels[4].T.copy()
    masks = [palette(one) for one in labels]
    for options in ({}, {"mask_first": True}, {"cache": "16M", "cache_size": 48}):
        with harness.Instance(loaders=1) as feedd:
            add(feedd, images, masks, on_error="skip", **options)
            feedd.start()
            batches = consumer.read(feedd, "pictures", 6, seed=4, epochs=3)
            reasons = dict(skipped(feedd, 3 if "cache" in options else 6))
            if "cache" in options:  # once resized, sample 2 has the right size
                assert delivered(batches) == [[0, 1, 2, 3, 5]] * 3, batches
                assert " pixels at cache_size, image has " in reasons[4], reasons
            else:
                assert delivered(batches) == [[0, 1, 3, 5]] * 3, batches
                words = f"its mask has {width} x {height + 1} pixels, image has {width} x {height}"
                assert reasons.keys() == {2, 4} and words in reasons[2], reasons
    with harness.Instance() as feedd:
        add(feedd, images, masks)
        feedd.start()
        with consumer.Consumer(feedd, "pictures", 6) as reader:
            while (event := reader.event())["event"] != "error":
                pass
        assert "its mask has " in event["text"], event
        assert "sample 2 " in event["text"] or "sample 4 " in event["text"], event
