"""PNG: what feedd's decoder makes of random rectangles, against Pillow. The files are made here, of every type and depth."""

import itertools
import pathlib
import struct
import tempfile
import warnings
import zlib

import harness
import images
import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SIZES = [(1, 1), (2, 3), (9, 4), (33, 17), (64, 50), (1, 300), (301, 1), (101, 77)]
# By colour type: samples per pixel, and depths.
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
TYPES = {
    GREY: (1, (1, 2, 4, 8, 16)), COLOUR: (3, (8, 16)), PALETTE: (1, (1, 2, 4, 8)),
    GREY_ALPHA: (2, (8, 16)), COLOUR_ALPHA: (4, (8, 16)),
}  # fmt: skip
TRANSPARENCY = {GREY: b"\0\1", COLOUR: b"\0\1\0\2\0\3", PALETTE: b"\0\x80"}
# Of Adam7: first column, first row, and the steps between them.
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def random_rows(width, height, kind, depth, colours, dice):
    """Scan lines, each with a filter of its own."""
    rows = b""
    for _ in range(height if width else 0):
        row = dice.integers(0, 256, (width * TYPES[kind][0] * depth + 7) // 8, dtype=np.uint8)
        if kind == PALETTE and depth == 8:
            row %= colours
        if kind == GREY and depth == 16:
            row[::2] *= dice.integers(0, 2, len(row) // 2, dtype=np.uint8)  # those below 256 are not clipped
        rows += bytes([dice.integers(0, 5)]) + row.tobytes()
    return rows


def make(width, height, kind, depth, dice, interlaced=False, transparency=False):
    colours = int(dice.integers(1, 256)) if dice.random() < 0.5 else 255
    if interlaced:
        rows = b"".join(
            random_rows(len(range(x, width, dx)), len(range(y, height, dy)), kind, depth, colours, dice)
            for x, y, dx, dy in PASSES
        )
    else:
        rows = random_rows(width, height, kind, depth, colours, dice)
    png = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
    if kind == PALETTE:
        png += chunk(b"PLTE", dice.integers(0, 256, 3 * min(colours, 1 << depth), dtype=np.uint8).tobytes())
    if transparency:
        png += chunk(b"tRNS", TRANSPARENCY[kind][: 2 if kind != PALETTE else 1] if kind != COLOUR else TRANSPARENCY[kind])
    return png + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


@harness.limit(120)
def test_every_kind():
    dice = np.random.default_rng(1)
    warnings.simplefilter("ignore")  # Pillow's, of palettes with transparency
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.png"
        for kind, (_, depths) in TYPES.items():
            for depth, interlaced, size in itertools.product(depths, (False, True), SIZES):
                for transparency in (False, True) if kind in TRANSPARENCY else (False,):
                    path.write_bytes(make(*size, kind, depth, dice, interlaced, transparency))
                    images.compare(decoder, path, dice, 6)


def test_labels():
    """Of a palette, the indices, as NumPy has them of Pillow's image; of 16 bits, what 8 can hold; the rest is grey."""
    dice = np.random.default_rng(5)
    warnings.simplefilter("ignore")
    refused = 0
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.png"
        for kind, (_, depths) in TYPES.items():
            for depth, interlaced, size in itertools.product(depths, (False, True), SIZES):
                path.write_bytes(make(*size, kind, depth, dice, interlaced, kind == PALETTE and bool(dice.integers(2))))
                wide = kind == GREY and depth == 16
                with images.Image.open(path) as image:
                    assert (image.mode == "P") == (kind == PALETTE), image.mode
                    wanted = np.asarray(image if kind == PALETTE or wide else image.convert("L"))
                for x, y, w, h in [(0, 0, *size), *(images.random_rect(*size, dice) for _ in range(6))]:
                    answer, part = decoder.ask(path, channels=1, labels=True, rect=(x, y, w, h)), wanted[y : y + h, x : x + w]
                    if part.max() > 255:
                        assert wide and answer.sentence.startswith("its 16-bit mask has a pixel of "), answer
                        assert int(answer.sentence.split(",")[0].split()[-1]) in part[part > 255], (answer, part)
                        refused += 1
                    else:
                        assert np.array_equal(answer.pixels[:, :, 0], part), (kind, depth, interlaced, size, x, y, w, h)
    assert refused > 10, refused


def test_extreme_sizes():
    dice = np.random.default_rng(2)
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.png"
        for (width, height), interlaced in itertools.product(((65535, 2), (2, 65535)), (False, True)):
            path.write_bytes(make(width, height, COLOUR, 8, dice, interlaced))
            images.compare(decoder, path, dice, 3)


def test_broken():
    """The library's reason is in the sentence. A rectangle above damage is there, but not if bytes are missing."""
    dice = np.random.default_rng(3)
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.png"
        stored = make(90, 300, COLOUR, 8, dice)
        path.write_bytes(stored)
        whole = images.pillow(path, 3)

        def said(damaged, rect=(0, 0, 90, 300)):
            path.write_bytes(damaged)
            return getattr(decoder.ask(path, rect=rect), "sentence", None)

        early = "its PNG image cannot be decoded: premature end of PNG file"
        for interlaced in (False, True):
            one = make(90, 300, COLOUR, 8, dice, interlaced)
            for cut in (*dice.integers(100, len(one) - 100, 20), len(one) // 2):
                assert said(one[:cut]) == said(one[:cut], (5, 10, 40, 20)) == early, (interlaced, cut, len(one))
            for missing in (4, 12):  # of the last chunk, in which there are no pixels
                assert said(one[:-missing]) is None, missing
        damaged = bytearray(stored)
        damaged[len(stored) * 3 // 4] ^= 0x55
        assert said(bytes(damaged)).startswith("its PNG image cannot be decoded: ")
        path.write_bytes(damaged)
        assert np.array_equal(decoder.pixels(path, rect=(5, 10, 40, 20)), whole[10:30, 5:45])
        assert said(stored[:40]) == "its PNG image cannot be decoded: premature end of PNG file"
        wrong = bytearray(stored)
        wrong[30] ^= 1  # a byte of the header's checksum
        assert said(bytes(wrong)) == "its PNG image cannot be decoded: IHDR: CRC error"
        large = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 65535, 65535, 8, 2, 0, 0, 0)) + chunk(b"IDAT", b"")
        assert "65535 x 65535 pixels" in said(large)
