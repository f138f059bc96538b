"""Images as Pillow writes them, and what must be delivered of them, by Pillow and NumPy alone."""

import io
import pathlib
import random
import sys
import tarfile
import zlib

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

from image_reference import Random, erasure, random_crop, single  # noqa: E402

KINDS = ("jpg", "png", "webp", "grey.jpg", "cmyk.jpg", "palette.png", "444.jpg", "progressive.jpg")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISE = "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, layout chw, cast f16"


def picture(seed, width, height):
    """Smooth colours with some detail, another picture for each seed."""
    dice = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x * a + y * b + c) for a, b, c in dice.uniform((0.005, 0.005, 0), (0.2, 0.2, 6), (3, 3))]
    noise = dice.integers(-20, 20, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(waves, -1) * 100 + 128 + noise, 0, 255).astype(np.uint8))


def encode(image, kind, **options):
    file = io.BytesIO()
    if kind == "png":
        image.save(file, "PNG")
    elif kind == "palette.png":
        image.quantize(60).save(file, "PNG")
    elif kind == "webp":
        image.save(file, "WEBP", quality=80)
    elif kind == "grey.jpg":
        image.convert("L").save(file, "JPEG", quality=90)
    elif kind == "cmyk.jpg":
        image.convert("CMYK").save(file, "JPEG", quality=90)
    elif kind == "444.jpg":
        image.save(file, "JPEG", quality=95, subsampling=0)
    else:
        image.save(file, "JPEG", quality=90, progressive=kind == "progressive.jpg", **options)
    return file.getvalue()


def some(count, seed=0, kinds=KINDS, least=40, most=300):
    """Encoded images of all kinds and sizes."""
    dice = random.Random(seed)
    return [
        encode(picture(seed * 1000 + i, dice.randrange(least, most), dice.randrange(least, most)), kinds[i % len(kinds)])
        for i in range(count)
    ]


def files(encoded, classes=("cat", "dog"), ending="img"):
    """As a folder has them: {path: bytes}, in the order in which they are numbered."""
    half = (len(encoded) + 1) // 2
    return {f"{classes[i // half]}/{i:05}.{ending}": data for i, data in enumerate(encoded)}


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def crc(samples):
    return zlib.crc32(b"".join(samples))


def undecoded(data):
    return Image.open(io.BytesIO(data))


def opened(data, mode="RGB"):
    return undecoded(data).convert(mode)


# ---- Steps -------------------------------------------------------------------------------------------------


def resize(image, size, resample=Image.Resampling.BILINEAR):
    """torchvision's Resize(size): the shorter side."""
    width, height = image.size
    if width <= height:
        return image.resize((size, int(size * height / width)), resample)
    return image.resize((int(size * width / height), size), resample)


def center_crop(image, size):
    """torchvision's CenterCrop(size) of an image that is large enough."""
    width, height = image.size
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def hwc(image):
    return np.asarray(image).tobytes()


def normalised(image):
    """What NORMALISE delivers."""
    values = np.asarray(image).astype(np.float32) * np.float32(1 / 255)
    values = (values - np.float32(MEAN)) / np.float32(STD)
    return values.transpose(2, 0, 1).astype(np.float16).tobytes()


# ---- Random steps ------------------------------------------------------------------------------------------

AREA, RATIO = ((single(0.08), 1.0), (single(3 / 4), single(4 / 3)))
ERASED, ERASED_RATIO = ((single(0.02), single(0.33)), (single(0.3), single(3.3)))


def random_resized_crop(image, place, size, step=0, resample=Image.Resampling.BILINEAR):
    x, y, width, height = random_crop(Random(place, step), *image.size, AREA, RATIO)
    return image.crop((x, y, x + width, y + height)).resize((size, size), resample)


def flip(image, place, step=1):
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if Random(place, step).uniform() < 0.5 else image


def erased(dice, width, height):
    """The rectangle that `erase` fills: x, y, width and height."""
    return erasure(dice, width, height, ERASED, ERASED_RATIO)


def training(size):
    """random_resized_crop SIZE, flip 0.5, and NORMALISE."""
    return lambda image, place: normalised(flip(random_resized_crop(image, place, size), place))


def check(batches, encoded, make, seed=0, mode="RGB", field="image"):
    """Each batch holds what make(image, place) makes of the samples that it says it holds."""
    for batch in batches:
        places = [(seed, batch["epoch"], batch["first"] + i) for i in range(batch["count"])]
        made = [make(opened(encoded[sample], mode), place) for sample, place in zip(batch["samples"], places, strict=True)]
        assert batch["crc"][field] == crc(made), f"wrong pixels in {batch}"
