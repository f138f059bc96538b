"""Encoded images, as a training loop gets them: pixel by pixel what Pillow and NumPy make of the same files."""

import harness
import numpy
import pictures
import pytest
import support
from support import raw

SAMPLES, SIZE, SEED = 24, 40, 5


@pytest.fixture(scope="module")
def encoded():
    return pictures.some(SAMPLES, seed=20)


@pytest.fixture(scope="module")
def daemon(encoded):
    with harness.Instance() as daemon:
        root = daemon.directory / "train"
        for path, content in pictures.files(encoded).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        daemon.add_dataset(
            "pictures", format="folder", path=root, field_image="bytes @ file", field_label="i64 @ class",
            transform_image=f"random_resized_crop {SIZE}, flip 0.5, {pictures.NORMALISE}",
        )  # fmt: skip
        yield daemon.start()


def test_training(daemon, encoded, device):
    """Two epochs, shuffled: random numbers belong to places."""
    make = pictures.training(SIZE)
    with support.loader(daemon, "pictures", 8, shuffle=True, seed=SEED, device=device) as loader:
        assert loader.fields == (("image", "float16", (8, 3, SIZE, SIZE)), ("label", "int64", (8,)))
        for epoch in range(2):
            order = support.wanted(8, SAMPLES, shuffle=True, seed=SEED, epoch=epoch)
            for number, ((image, label), samples) in enumerate(zip(loader, order, strict=True)):
                assert raw(label) == numpy.array([sample >= SAMPLES // 2 for sample in samples], numpy.int64).tobytes()
                places = [(SEED, epoch, number * 8 + i) for i in range(len(samples))]
                made = [make(pictures.opened(encoded[sample]), place) for sample, place in zip(samples, places, strict=True)]
                assert raw(image) == b"".join(made)
