"""JPEG: what feedd's decoder makes of random rectangles, against Pillow."""

import contextlib
import io
import itertools
import math
import pathlib
import tempfile

import images
import numpy as np
from PIL import Image, ImageOps

SIZES = [(1, 1), (2, 3), (5, 4), (17, 16), (33, 65), (100, 75), (129, 257), (15, 900)]
SAMPLING = [
    "1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "1x4", "2x4", "3x1", "3x2", "2x2,2x1,1x1", "2x2,1x2,1x1", "2x1,1x1,2x1",
    "2x2,2x2,1x1", "1x1,2x2,2x2", "4x1,2x1,1x1",
]  # fmt: skip
ORIENTATION = 0x0112


def in_folder(test):
    """A decoder, an empty folder and dice that fall the same way each time."""

    def run():
        with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
            test(decoder, pathlib.Path(folder), np.random.default_rng(1))

    run.__name__, run.__module__, run.limit_s = test.__name__, test.__module__, 120
    return run


def check_sampling(*options):
    @in_folder
    def run(decoder, folder, dice):
        for sampling, (width, height) in itertools.product(SAMPLING, SIZES):
            array = images.scene(width, height, dice)
            quality = str(dice.integers(10, 100))
            path = images.cjpeg(folder / "image.jpg", array, "-quality", quality, "-sample", sampling, *options)
            images.compare(decoder, path, dice, 6)

    run()


def test_baseline():
    check_sampling()


def test_progressive():
    check_sampling("-progressive")


def test_restart_markers():
    check_sampling("-restart", "1")


def test_stored_as_rgb():
    check_sampling("-rgb")


def test_grey():
    check_sampling("-grayscale")


for check in (test_baseline, test_progressive, test_restart_markers, test_stored_as_rgb, test_grey):
    check.limit_s = 120


@in_folder
def test_cmyk(decoder, folder, dice):
    for (width, height), progressive in itertools.product(SIZES, (False, True)):
        image = Image.frombytes("CMYK", (width, height), images.scene(width, height, dice, 4).tobytes())
        for sampling in (0, 1, 2):
            image.save(folder / "image.jpg", subsampling=sampling, progressive=progressive)
            images.compare(decoder, folder / "image.jpg", dice, 6)


@in_folder
def test_ycck(decoder, folder, dice):
    """Pillow writes CMYK; told that these are YCCK, both read them as such."""
    for width, height in SIZES:
        image = Image.frombytes("CMYK", (width, height), images.scene(width, height, dice, 4).tobytes())
        image.save(folder / "image.jpg", quality=90)
        stored = bytearray((folder / "image.jpg").read_bytes())
        adobe = stored.index(b"Adobe")
        assert stored[adobe + 11] == 0  # its transform: none
        stored[adobe + 11] = 2
        (folder / "image.jpg").write_bytes(stored)
        images.compare(decoder, folder / "image.jpg", dice, 12)


@in_folder
def test_extreme_sizes(decoder, folder, dice):
    for width, height in ((1, 5000), (5000, 1), (65500, 3), (3, 65500), (4001, 999)):
        for options in ({}, {"progressive": True}, {"subsampling": 0}):
            Image.fromarray(images.scene(width, height, dice)).save(folder / "image.jpg", **options)
            images.compare(decoder, folder / "image.jpg", dice, 4)


@in_folder
def test_orientation(decoder, folder, dice):
    for orientation, (width, height) in itertools.product(range(10), ((1, 1), (37, 21), (64, 200))):
        image = Image.fromarray(images.scene(width, height, dice))
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        for name in ("image.jpg", "image.png", "image.webp"):
            image.save(folder / name, exif=exif)
            assert decoder.ask(folder / name).orientation == (orientation if 1 <= orientation <= 8 else 1)
            with Image.open(folder / name) as stored:
                expected = np.asarray(ImageOps.exif_transpose(stored).convert("RGB"))
            for _ in range(4):
                x, y, w, h = images.random_rect(expected.shape[1], expected.shape[0], dice)
                found = decoder.pixels(folder / name, oriented=True, rect=(x, y, w, h))
                assert np.array_equal(found, expected[y : y + h, x : x + w]), (name, orientation, x, y, w, h)


def chosen_eighths(rect, fast):
    return next((n for n in (1, 2, 4) if all(rect[2 + i] * n >= 8 * fast[i] for i in (0, 1))), 8)


@in_folder
def test_fast(decoder, folder, dice):
    """A rectangle at a smaller scale is cut from the whole image at that scale."""
    for options in ([], ["-progressive"], ["-sample", "1x1"], ["-sample", "2x1"], ["-sample", "1x2"], ["-grayscale"]):
        path = images.cjpeg(folder / "image.jpg", images.scene(301, 203, dice), *options)
        for n in (1, 2, 4, 8):
            whole = decoder.pixels(path, rect=(0, 0, 301, 203), fast=(301 * n // 8, 203 * n // 8))
            assert whole.shape == (math.ceil(203 * n / 8), math.ceil(301 * n / 8), 3)
            for _ in range(8):
                x, y, w, h = rect = images.random_rect(301, 203, dice)
                fast = max(1, w * n // 8), max(1, h * n // 8)
                if chosen_eighths(rect, fast) != n:
                    continue
                answer = decoder.ask(path, rect=rect, fast=fast)
                left, top = x * n // 8, y * n // 8
                right, bottom = math.ceil((x + w) * n / 8), math.ceil((y + h) * n / 8)
                assert np.array_equal(answer.pixels, whole[top:bottom, left:right]), (options, n, rect)
                box = x * n / 8 - left, y * n / 8 - top, (x + w) * n / 8 - left, (y + h) * n / 8 - top
                assert answer.box == box, (answer.box, box)


@in_folder
def test_fast_is_close(decoder, folder, dice):
    """At half the size, each pixel is nearly the mean of the four that Pillow decodes."""
    Image.fromarray(images.scene(320, 200, np.random.default_rng(4))).save(folder / "image.jpg", quality=95)
    whole = images.pillow(folder / "image.jpg", 3).astype(float)
    mean = (whole[0::2, 0::2] + whole[1::2, 0::2] + whole[0::2, 1::2] + whole[1::2, 1::2]) / 4
    half = decoder.pixels(folder / "image.jpg", rect=(0, 0, 320, 200), fast=(160, 100))
    assert half.shape == mean.shape
    assert np.abs(half - mean).mean() < 4


@in_folder
def test_fast_oriented(decoder, folder, dice):
    exif = Image.Exif()
    for orientation in range(1, 9):
        exif[ORIENTATION] = orientation
        Image.fromarray(images.scene(120, 80, dice)).save(folder / "image.jpg", exif=exif)
        width, height = (120, 80) if orientation < 5 else (80, 120)
        whole = decoder.pixels(folder / "image.jpg", oriented=True, rect=(0, 0, width, height), fast=(width // 2, height // 2))
        assert whole.shape == (height // 2, width // 2, 3)
        for _ in range(8):
            x, y, w, h = images.random_rect(width, height, dice)
            fast = max(1, w // 2), max(1, h // 2)
            if chosen_eighths((x, y, w, h), fast) != 4:
                continue
            answer = decoder.ask(folder / "image.jpg", oriented=True, rect=(x, y, w, h), fast=fast)
            left, top, right, bottom = answer.box
            assert (right - left, bottom - top) == (w / 2, h / 2)
            # Where the pixels begin in the whole: where their box does, less its place in them.
            column, row = int(x / 2 - left), int(y / 2 - top)
            cut = whole[row : row + answer.pixels.shape[0], column : column + answer.pixels.shape[1]]
            assert np.array_equal(answer.pixels, cut), (orientation, x, y, w, h)


def verdict(decoder, path, rect):
    """What feedd says of a rectangle: \"\", or why it is refused."""
    return getattr(decoder.ask(path, rect=rect), "sentence", "")


def accepted(path):
    """Whether Pillow decodes the whole image."""
    with contextlib.suppress(OSError):
        images.pillow(path, 3)
        return True
    return False


def with_thumbnail(stored):
    """With another whole JPEG in front of the frame, as cameras put one into EXIF."""
    small = io.BytesIO()
    Image.new("RGB", (8, 8)).save(small, "JPEG")
    return stored[:2] + b"\xff\xe1" + (len(small.getvalue()) + 2).to_bytes(2, "big") + small.getvalue() + stored[2:]


@in_folder
def test_truncated(decoder, folder, dice):
    """What feedd says does not depend on the rectangle. Where bytes are missing and nothing takes their place, it is what
    Pillow says; behind other bytes, Pillow may also refuse what follows the last row."""
    path, whole, above = folder / "image.jpg", (0, 0, 200, 160), (20, 3, 100, 40)
    kinds = [], ["-progressive"], ["-restart", "1"], ["-sample", "1x1"], ["-grayscale"]
    for kind in kinds:
        images.cjpeg(path, images.scene(200, 160, dice), *kind)
        stored = with_thumbnail(path.read_bytes())
        first = stored.rindex(b"\xff\xc4", 0, stored.rindex(b"\xff\xda"))  # a table, before a scan
        cuts = [*range(len(stored) - 40, len(stored) + 1), *(int(cut) for cut in dice.integers(first, len(stored), 40))]
        for cut in cuts:
            for rest in (b"", bytes(8), bytes(3000), b"\xff\xd9", b"garbage"):
                path.write_bytes(stored[:cut] + rest)
                found = {verdict(decoder, path, rect) for rect in (whole, above)}
                assert len(found) == 1, (kind, len(stored) - cut, rest, found)
                same = (found == {""}) == accepted(path)
                assert same or rest in (bytes(8), b"garbage"), (kind, len(stored) - cut, rest, found)
        path.write_bytes(stored[: len(stored) // 2])
        assert verdict(decoder, path, above) == "its JPEG image cannot be decoded: Premature end of JPEG file"
        path.write_bytes(stored[:100])
        assert "Premature end" in decoder.ask(path).sentence


def without(stored, marker):
    """Without the segments of that kind."""
    while (begin := stored.find(marker)) >= 0:
        stored = stored[:begin] + stored[begin + 2 + int.from_bytes(stored[begin + 2 : begin + 4], "big") :]
    return stored


@in_folder
def test_tables_of_an_earlier_image_do_not_count(decoder, folder, dice):
    """Frames of Motion JPEG have no Huffman tables: the standard ones count then, and for quantisation there are none."""
    earlier, path, whole = folder / "earlier.jpg", folder / "image.jpg", (0, 0, 90, 70)
    images.cjpeg(earlier, images.scene(90, 70, dice), "-optimize", "-quality", "20")
    stored = images.cjpeg(path, images.scene(90, 70, dice), "-quality", "90").read_bytes()
    expected = decoder.ask(path, rect=whole).pixels
    for marker, refused in ((b"\xff\xc4", ""), (b"\xff\xdb", "its JPEG image cannot be decoded: Quantization table 0x00")):
        path.write_bytes(without(stored, marker))
        assert verdict(decoder, earlier, whole) == ""
        answer = decoder.ask(path, rect=whole)
        assert getattr(answer, "sentence", "").startswith(refused) and hasattr(answer, "sentence") == bool(refused), answer
        assert refused or np.array_equal(answer.pixels, expected)


@in_folder
def test_damaged(decoder, folder, dice):
    """Flipped bytes: what Pillow decodes, feedd decodes to the same pixels, unless it calls that an error. Versions of the
    library differ in what they make of damaged progressive images."""
    same = 0
    for number in range(200):
        path = folder / "image.jpg"
        Image.fromarray(images.scene(90, 70, dice)).save(path, progressive=number % 4 == 0)
        stored = bytearray(path.read_bytes())
        begin = stored.index(b"\xff\xda") + 12
        for _ in range(3):
            stored[dice.integers(begin, len(stored) - 2)] = dice.integers(0, 256)
        path.write_bytes(stored)
        answer = decoder.ask(path, rect=(0, 0, 90, 70))
        if hasattr(answer, "sentence"):
            assert answer.code < 0 and answer.sentence.startswith("its JPEG image cannot be decoded: "), answer
            continue
        assert answer.pixels.shape == (70, 90, 3)
        if number % 4:
            with contextlib.suppress(OSError):  # Pillow also looks at what follows the last row
                assert np.array_equal(answer.pixels, images.pillow(path, 3)), number
                same += 1
    assert same > 100, same
