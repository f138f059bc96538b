"""Files that both sides read: numbered rows of floats, CIFAR-100's records, Fashion-MNIST's arrays."""

import gzip
import os
import zlib

import numpy

from harness import BenchError, MIB, read_to_cache

CIFAR_RECORD = 3074  # coarse label, fine label, 3 x 32 x 32 bytes
CIFAR_MEAN = (0.5071, 0.4865, 0.4409)
CIFAR_STD = (0.2673, 0.2564, 0.2762)
FASHION_PACKAGE = "/usr/share/datasets/fashion-mnist"
FASHION_SIZES = {"train-images-idx3-ubyte": 47040016, "train-labels-idx1-ubyte": 60008,
                 "t10k-images-idx3-ubyte": 7840016, "t10k-labels-idx1-ubyte": 10008}


def made(setting, name, size, write):
    """The path of a file of `size` bytes, written if it is not there, in the page cache."""
    path = os.path.join(setting.data, name)
    if not os.path.exists(path) or os.path.getsize(path) != size:
        with open(path + ".part", "wb") as file:
            write(file)
        os.replace(path + ".part", path)
    read_to_cache(path)
    return path


FLOATS = 2**27  # 512 MiB


def floats(setting, count=FLOATS):
    """A file of floats, small whole numbers, so that sums are exact in any order."""
    def write(file):
        block = numpy.random.default_rng(1).integers(-8, 9, size=(MIB,)).astype(numpy.float32)
        left = count
        shift = 0
        while left:
            part = numpy.roll(block, shift)[:min(left, MIB)]
            part.tofile(file)
            left -= len(part)
            shift += 17
    return made(setting, f"floats-{count}.bin", count * 4, write)


def floats_dataset(path, columns, **options):
    """What feedd.conf says of it."""
    return {"format": "records", "path": path, "record_bytes": 4 * columns, "field.x": f"f32[{columns}] @ 0", **options}


def cifar(setting, images=50000):
    """As cifar-100-binary/train.bin is: 50,000 records of two labels and three planes of 32 x 32."""
    def write(file):
        random = numpy.random.default_rng(100)
        records = random.integers(0, 256, size=(images, CIFAR_RECORD), dtype=numpy.uint8)
        records[:, 1] = random.integers(0, 100, size=images)
        records[:, 0] = records[:, 1] // 5
        records.tofile(file)
    return made(setting, f"cifar-100-{images}.bin", images * CIFAR_RECORD, write)


def cifar_dataset(path):
    """With what torchvision's ToTensor and Normalize do."""
    mean = " ".join(str(value) for value in CIFAR_MEAN)
    std = " ".join(str(value) for value in CIFAR_STD)
    return {"format": "records", "path": path, "record_bytes": CIFAR_RECORD, "field.label": "u8 @ 1",
            "field.image": "u8[3,32,32] @ 2", "transform.image": f"scale {1 / 255!r}, mean {mean}, std {std}"}


def fashion(setting):
    """The folder of Fashion-MNIST's four files, and in words where they are from: Debian's package, or files carried
    along in $FASHION_MNIST, packed or not; else they are made, learnable but not pictures of anything."""
    named = os.environ.get("FASHION_MNIST")
    folder = os.path.join(setting.data, "fashion-mnist")
    os.makedirs(folder, exist_ok=True)

    def there(name, size):
        # What an earlier run has left may be of another folder than the one that is named now.
        return (not named and is_whole(os.path.join(folder, name), size)) or unpack(named or FASHION_PACKAGE, folder,
                                                                                   name, size)
    lacking = [name for name, size in FASHION_SIZES.items() if not there(name, size)]
    if not lacking:
        return folder, "Fashion-MNIST"
    if named:
        raise BenchError(f"$FASHION_MNIST={named} lacks {', '.join(lacking)}: no such file, compressed (.gz) or not, or"
                         " it is not whole")
    made_folder = os.path.join(setting.data, "made-fashion-mnist")
    os.makedirs(made_folder, exist_ok=True)
    make_fashion(made_folder)
    return made_folder, "made images in Fashion-MNIST's format, not Fashion-MNIST itself"


def is_whole(path, size):
    return os.path.exists(path) and os.path.getsize(path) == size


def unpack(source, folder, name, size):
    """Copies the file into the folder, unless it is not there or not whole. Returns whether it did."""
    path = os.path.join(folder, name)
    for candidate, opener in ((os.path.join(source, name), open), (os.path.join(source, name + ".gz"), gzip.open)):
        try:
            with opener(candidate, "rb") as file:
                content = file.read()
        except (OSError, EOFError, zlib.error):
            continue
        if len(content) == size:
            with open(path + ".part", "wb") as out:
                out.write(content)
            os.replace(path + ".part", path)
            return True
    return False


def make_fashion(folder):
    """Ten patterns, shifted and noisy."""
    def images(count, seed):
        random = numpy.random.default_rng(seed)
        patterns = numpy.random.default_rng(7).integers(0, 200, size=(10, 28, 28))
        labels = random.integers(0, 10, size=count).astype(numpy.uint8)
        shifts = random.integers(-3, 4, size=count)
        noisy = patterns[labels] * 0.4 + random.integers(0, 120, size=(count, 28, 28))
        for shift in range(-3, 4):
            noisy[shifts == shift] = numpy.roll(noisy[shifts == shift], shift, axis=2)
        return noisy.clip(0, 255).astype(numpy.uint8), labels

    for part, count, seed in (("train", 60000, 1), ("t10k", 10000, 2)):
        names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
        if all(os.path.exists(os.path.join(folder, name)) for name in names):
            continue
        pixels, labels = images(count, seed)
        heads = (0x803, count, 28, 28), (0x801, count)
        for name, head, content in zip(names, heads, (pixels, labels)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(numpy.array(head, dtype=">i4").tobytes())
                file.write(content.tobytes())


def read_idx(path):
    """An idx file of bytes, as an array."""
    with open(path, "rb") as file:
        dimensions = file.read(4)[3]
        shape = numpy.frombuffer(file.read(4 * dimensions), dtype=">i4")
        return numpy.fromfile(file, dtype=numpy.uint8).reshape(tuple(int(size) for size in shape))
