"""WebP: what feedd's decoder makes of random rectangles, against Pillow."""

import itertools
import pathlib
import tempfile

import harness
import images
import numpy as np
from PIL import Image

SIZES = [(1, 1), (2, 3), (9, 4), (33, 17), (64, 50), (1, 300), (301, 1), (101, 77), (500, 375)]
WAYS = [{"quality": quality, "method": method} for quality in (1, 30, 80, 100) for method in (0, 4)] + [{"lossless": True}]


@harness.limit(120)
def test_every_kind():
    dice = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.webp"
        for size, way, channels in itertools.product(SIZES, WAYS, (3, 4)):
            Image.fromarray(images.scene(*size, dice, channels)).save(path, **way)
            images.compare(decoder, path, dice, 6)


def test_broken():
    dice = np.random.default_rng(2)
    with tempfile.TemporaryDirectory(prefix="feedd-test-") as folder, images.Decoder() as decoder:
        path = pathlib.Path(folder) / "image.webp"
        for way in ({"lossless": True}, {"quality": 80}):
            Image.fromarray(images.scene(120, 90, dice)).save(path, **way)
            stored = path.read_bytes()
            path.write_bytes(stored[: len(stored) // 2])
            for cut in (*dice.integers(100, len(stored) - 1, 20), len(stored) // 2):
                path.write_bytes(stored[:cut])
                for rect in ((0, 0, 120, 90), (20, 2, 30, 10)):
                    sentence = decoder.ask(path, rect=rect).sentence
                    assert sentence == "its WebP image cannot be decoded: premature end of WebP file", (cut, rect, sentence)
            path.write_bytes(stored[:16])
            assert "premature end" in decoder.ask(path).sentence
        frames = [Image.fromarray(images.scene(20, 20, dice)) for _ in range(3)]
        frames[0].save(path, save_all=True, append_images=frames[1:])
        assert decoder.ask(path).sentence == "its WebP image is animated; only still ones are decoded"
