"""Images of every kind, as Pillow and cjpeg write them, and what feedd's decoder makes of them, next to Pillow."""

import contextlib
import io
import subprocess
import types

import harness
import numpy as np
from PIL import Image

MODES = {1: "L", 3: "RGB"}
EIGHTHS = 8


class Decoder:
    """feedd's decoder, in a process of its own that serves any number of requests."""

    def __enter__(self):
        self.process = subprocess.Popen([harness.BUILD / "tests/image_dump"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)  # fmt: skip
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        status = self.process.wait(10)
        self.process.stdout.close()
        if kind is None:
            assert status == 0 and not rest, (status, rest)

    def ask(self, path, channels=3, oriented=False, labels=False, rect=(0, 0, 0, 0), fast=(0, 0)):
        request = [path, channels, oriented + 2 * labels, *rect, *fast]
        self.process.stdin.write((" ".join(map(str, request)) + "\n").encode())
        self.process.stdin.flush()
        kind, *values = self.process.stdout.readline().decode().rstrip("\n").split(" ")
        if kind == "header":
            names = "format", "width", "height", "orientation"
            return types.SimpleNamespace(**dict(zip(names, map(int, values), strict=True)))
        if kind == "error":
            return types.SimpleNamespace(code=int(values[0]), sentence=" ".join(values[1:]))
        assert kind == "pixels", (kind, values)
        width, height, found = map(int, values[:3])
        raw = self.process.stdout.read(width * height * found)
        pixels = np.frombuffer(raw, np.uint8).reshape(height, width, found)
        return types.SimpleNamespace(pixels=pixels, box=tuple(map(float, values[3:])))

    def pixels(self, path, **options):
        answer = self.ask(path, **options)
        assert hasattr(answer, "pixels"), (path, options, answer)
        return answer.pixels


def pillow(path, channels):
    """The whole image, as Pillow decodes and converts it."""
    with Image.open(path) as image:
        array = np.asarray(image.convert(MODES[channels]))
    return array.reshape(*array.shape[:2], channels)


def scene(width, height, dice, channels=3):
    """Smooth colours, sharp edges and noise: what codecs treat differently."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    layers = []
    for _ in range(channels):
        waves = sum(np.sin(dice.uniform(0, 0.4) * x + dice.uniform(0, 0.4) * y + dice.uniform(0, 6)) for _ in range(3))
        layers.append(128 + 40 * waves)
    array = np.stack(layers, 2)
    for _ in range(4):
        top, left = dice.integers(0, height), dice.integers(0, width)
        array[top : top + height // 3 + 1, left : left + width // 3 + 1] = dice.uniform(0, 255, channels)
    array += dice.normal(0, dice.choice([0, 4, 40]), array.shape)
    return np.clip(array, 0, 255).astype(np.uint8)


def cjpeg(path, array, *options):
    """A JPEG file in ways that Pillow does not write; `array` is grey or in colour."""
    buffer = io.BytesIO()
    Image.fromarray(array if array.shape[2] == 3 else array[:, :, 0]).save(buffer, "ppm")
    with contextlib.suppress(FileNotFoundError):
        path.write_bytes(subprocess.run(["cjpeg", *options], input=buffer.getvalue(), capture_output=True, check=True).stdout)
        return path
    return harness.skip("cjpeg is not installed")


def random_rect(width, height, dice):
    """Of any size, often at the image's edge."""
    w, h = (1 + int(side * dice.uniform() ** dice.choice([0.3, 1, 4])) for side in (width, height))
    w, h = min(w, width), min(h, height)
    x, y = (int(dice.choice([0, dice.integers(0, room + 1), room])) for room in (width - w, height - h))
    return x, y, w, h


def compare(decoder, path, dice, crops, whole=None):
    """Random crops, in both numbers of channels, against Pillow's whole image."""
    for channels in (3, 1):
        expected = pillow(path, channels) if whole is None else whole[channels]
        height, width = expected.shape[:2]
        rects = [(0, 0, width, height), *(random_rect(width, height, dice) for _ in range(crops))]
        for x, y, w, h in rects:
            found = decoder.pixels(path, channels=channels, rect=(x, y, w, h))
            wanted = expected[y : y + h, x : x + w]
            assert found.shape == wanted.shape, (path, x, y, w, h, found.shape)
            worst = int(np.abs(found.astype(int) - wanted).max())
            assert not worst, f"{path} {width}x{height}, {channels} channels: {w}x{h} at {x},{y} differs by up to {worst}"
