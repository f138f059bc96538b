"""Datasets of the storm with images that loaders decode, crop at random and flip. What must come of each is computed by
storm_image.c from the pixels that djpeg finds. Some images are broken; at some, the decoder crashes (failing_decoder.c)."""

import random
import re
import struct

import files
import harness
import plain_images
import test_folder
import test_tar

SIDE = 24
STEPS = f"random_resized_crop {SIDE}, flip 0.5"
ENGINE = "refuse_image=11"  # libjpeg decodes what a simulated engine refuses
CRASHES = 166  # pixels wide, as failing_decoder.c has it
LIBRARY = harness.PROGRAMS / "tests/failing_decoder.so"
FATAL = ("spoilt", "mended")  # the datasets with images at which the decoder crashes,
CRASHING = (16, 61)  # and which of their samples these are


class Cropped(list):
    """Of each sample what storm_image_read expects; empty if it cannot be decoded. `kind`: see storm_options.c."""

    def __init__(self, samples, kind="crop"):
        super().__init__(samples)
        self.kind = f"{kind}={SIDE}"


def may_crash():
    """Whether the daemon can have that decoder: the sanitizers want to be the first library."""
    return LIBRARY.exists() and not plain_images.refusal() and not any(name in str(harness.BUILD) for name in ("asan", "tsan"))


def without_crashes(log):
    """The lines that do not say what must happen: that a loader of such an image has crashed."""
    datasets, left = {}, []
    for line in log:
        if re.search(r"version \S+ serves ", line):
            datasets = {}
        if made := re.search(r"feed (\d+)(?: \S+)?: dataset (\S+),", line):
            datasets[made[1]] = made[2]
        ended = re.search(r"of feed (\d+) .*killed by signal (?:4|5) ", line)
        if not (ended and datasets.get(ended[1]) in FATAL):
            left.append(line)
    return left


def condemned(log):
    """How often the log says that a loader has crashed or hung again at an image that is whole."""
    found = re.findall(r"sample (\d+) of dataset (\S+) has ended loaders", "\n".join(log))
    return sum(name not in FATAL or int(sample) not in CRASHING for sample, name in found)


# ---- Datasets --------------------------------------------------------------------------------------------------


def truth(width, height, pixels):
    return struct.pack("<III", width, height, len(pixels) // (width * height)) + pixels


def doubtful(what):
    """As storm_image.h marks it."""
    return what[:8] + struct.pack("<I", 256 + struct.unpack_from("<I", what, 8)[0]) + what[12:]


def an_image(chance, number, width, height):
    """(encoded, what it is)"""
    pixels = plain_images.pixels_of(chance, width, height, 3)
    encoded = plain_images.encode(number, width, height, pixels)
    return encoded, truth(*plain_images.decoded(encoded)) if number % 3 != 2 else truth(width, height, pixels)


def sides(chance):
    return chance.randrange(30, 90), chance.randrange(30, 90)


def make_photos(folder, chance):
    """Images and their masks, in a tar archive."""
    samples, images, masks = [], [], []
    for number in range(103):
        width, height = sides(chance)
        image, what = an_image(chance, number, width, height)
        mask = plain_images.pixels_of(chance, width, height, 1)
        samples.append((f"{number:06}", {"img": image, "seg": plain_images.png(width, height, mask)}))
        images.append(what)
        masks.append(truth(width, height, mask))
    test_tar.write(folder / "photos.tar", samples)
    options = {"format": "tar", "path": folder / "photos.tar", "field_img": "bytes", "field_seg": "bytes"}
    content = {"img": Cropped(images), "seg": Cropped(masks, "mask")}
    return files.Dataset(folder, "photos", content, **options, transform_img=STEPS, transform_seg="with img")


def some_broken(chance, count, crashes):
    """[(encoded, what it is), ...]: every ninth is broken, and two crash the decoder if `crashes`. Some are cut off: those can
    be decoded if the crop lies above."""
    made = []
    for number in range(count):
        image, what = an_image(chance, number, *sides(chance))
        if number % 9 == 4:
            image, what = ((b"", b""), (b"no image", b""), (image[: len(image) // 2], doubtful(what)))[number // 9 % 3]
        made.append((image, what))
    for number in CRASHING if crashes else ():
        assert number % 3 != 2 and number % 9 != 4
        made[number] = (an_image(chance, 0, CRASHES, 40)[0], b"")
    return made


def make_spoilt(folder, chance, crashes):
    """Whatever cannot be decoded is left out."""
    made = some_broken(chance, 97, crashes)
    test_tar.write(folder / "spoilt.tar", [(f"{number:06}", {"img": image}) for number, (image, _) in enumerate(made)])
    options = {"format": "tar", "path": folder / "spoilt.tar", "field_img": "bytes", "transform_img": STEPS}
    return files.Dataset(folder, "spoilt", {"img": Cropped(what for _, what in made)}, True, **options, on_error="skip")


def make_mended(folder, chance, crashes):
    """Others take the places of those that cannot be decoded; in folders."""
    made = some_broken(chance, 89, crashes)
    root = folder / "mended"
    test_folder.write(root, {f"{number // 45}/{number:03}.img": image for number, (image, _) in enumerate(made)})
    labels = [struct.pack("<q", number // 45) for number in range(len(made))]
    options = {"format": "folder", "path": root, "field_image": "bytes @ file", "field_label": "i64 @ class"}
    content = {"image": Cropped(what for _, what in made), "label": labels}
    return files.Dataset(folder, "mended", content, **options, transform_image=STEPS, on_error="replace")


def make_engined(folder, chance):
    """Images that a GPU's engine decodes for consumers there, except for every third, a PNG, and some kinds of JPEG."""
    made = [an_image(chance, number, *sides(chance)) for number in range(109)]
    root = folder / "engined"
    test_folder.write(root, {f"{number // 55}/{number:03}.img": image for number, (image, _) in enumerate(made)})
    labels = [struct.pack("<q", number // 55) for number in range(len(made))]
    options = {"format": "folder", "path": root, "field_image": "bytes @ file", "field_label": "i64 @ class"}
    content = {"image": Cropped(what for _, what in made), "label": labels}
    return files.Dataset(folder, "engined", content, **options, transform_image=f"decode gpu, {STEPS}")


def make_all(folder, seed, crashes):
    """{name: Dataset}; `crashes`: the daemon has failing_decoder.so."""
    if plain_images.refusal():
        return {}
    chance = random.Random(f"{seed} pictures")
    made = [make_photos(folder, chance), make_spoilt(folder, chance, crashes), make_mended(folder, chance, crashes)]
    made.append(make_engined(folder, chance))
    return {dataset.name: dataset for dataset in made}
