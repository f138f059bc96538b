"""The datasets of the storm: their files, and what each sample must be, cut out of the files by expected.py."""

import pathlib
import random
import struct
import tarfile

import data
import expected
import harness
import test_tar


class Dataset:
    """`options` are those of feedd.conf; `content` is {field: [bytes of sample 0, ...]}. The truth is a file that holds
    each field's samples one after the other, which consumers compare with."""

    def __init__(self, folder, name, content, skips=False, sums=None, **options):
        self.name, self.skips, self.options = name, skips, options
        self.sums = sums  # a file, of a view that draws by weight
        self.fields = {field: len(samples[0]) for field, samples in content.items()}
        self.samples = options.get("epoch_samples", len(next(iter(content.values()))))
        self.truth = folder / f"{name}.truth"
        self.truth.write_bytes(b"".join(b"".join(samples) for samples in content.values()))
        self.truth.chmod(0o644)

    def section(self, **more):
        """Of feedd.conf."""
        lines = [f"[{'view' if 'of' in self.options else 'dataset'} {self.name}]"]
        for key, value in {**self.options, **more}.items():
            lines.append(f"{harness.dotted(key)} = {value}")
        return "\n".join(lines) + "\n"

    def arguments(self):
        """Of storm_consumer."""
        fields = [f"--field={name}:{size}" for name, size in self.fields.items()]
        skips = ["--skips"] if self.skips else []
        sums = [f"--sums={self.sums}"] if self.sums else []
        return [f"--dataset={self.name}", f"--samples={self.samples}", f"--truth={self.truth}", *fields, *skips, *sums]


def records(chance, samples, size, first=0):
    """Each begins with its number."""
    return b"".join(struct.pack("<Q", first + index) + chance.randbytes(size - 8) for index in range(samples))


def make_records(folder, chance):
    """Three files of different sizes, two fields."""
    first = 0
    for number, samples in enumerate((7000, 5000, 3001)):
        (folder / f"records-{number}.bin").write_bytes(records(chance, samples, 264, first))
        first += samples
    paths = sorted(folder.glob("records-*.bin"))
    content = expected.read_records(paths, 264, {"number": (0, 8), "body": (8, 256)})
    fields = {"field_number": "u64 @ 0", "field_body": "u8[256] @ 8"}
    return Dataset(folder, "records", content, format="records", path=folder / "records-*.bin", record_bytes=264,
                   **fields, io="pread")  # fmt: skip


def make_tokens(folder, chance):
    for number, tokens in enumerate((800_000, 300_017)):
        (folder / f"tokens-{number}.bin").write_bytes(chance.randbytes(2 * tokens))
    content = {"tokens": expected.read_tokens(sorted(folder.glob("tokens-*.bin")), 2, 128)}
    options = {"format": "tokens", "path": folder / "tokens-*.bin", "dtype": "u16", "length": 128}
    return Dataset(folder, "tokens", content, **options, io="mapped")


def make_pairs(folder, chance):
    """Images, which a transform makes f32, and labels."""
    samples, side = 6007, 12
    shapes = {"image": (samples, side, side), "label": (samples,)}
    for name, shape in shapes.items():
        header = struct.pack(">BBBB", 0, 0, 8, len(shape)) + b"".join(struct.pack(">I", size) for size in shape)
        count = samples * side * side if name == "image" else samples
        (folder / f"{name}.idx").write_bytes(header + chance.randbytes(count))
    images, labels = (expected.read_idx(folder / f"{name}.idx") for name in shapes)
    floats = [struct.pack("<f", byte) for byte in range(256)]
    content = {"image": [b"".join(floats[byte] for byte in image) for image in images], "label": labels}
    options = {"format": "idx", "field_image": folder / "image.idx", "field_label": folder / "label.idx"}
    return Dataset(folder, "pairs", content, **options, transform_image="cast f32")


def make_vectors(folder, chance):
    """Slow to read, so that loaders die with reads in flight."""
    samples, length = 9001, 32
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({samples}, {length}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    content = chance.randbytes(samples * length * 4)
    path = folder / "vectors.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + content)
    content = {"x": expected.read_npy(path)}
    return Dataset(folder, "vectors", content, format="npy", field_x=path, io="uring", io_delay_us=2000)


def make_shards(folder, chance):
    """Members of 0 to 900 bytes, some of them cut, and their numbers."""
    samples = [
        (f"{number:06}", {"jpg": chance.randbytes(chance.randrange(900)), "cls": str(number).encode()})
        for number in range(4007)
    ]
    for number in range(3):
        test_tar.write(folder / f"shard-{number}.tar", samples[number::3], (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)[number % 2])
    right = test_tar.content_of(sum((samples[number::3] for number in range(3)), []), 600)
    options = {"format": "tar", "path": folder / "shard-*.tar", "field_jpg": "bytes", "pad_jpg": "600 7", "field_cls": "i32"}
    return Dataset(folder, "shards", right, **options)


def make_shrinking(folder, chance):
    """Its file is cut off now and then, and comes back: samples that are missing then are skipped."""
    path = folder / "shrinking.bin"
    path.write_bytes(records(chance, 8192, 128))
    content = expected.read_records([path], 128, {"x": (0, 128)})
    return Dataset(folder, "shrinking", content, True, format="records", path=path, record_bytes=128,
                   field_x="u8[128] @ 0", on_error="skip")  # fmt: skip


def make_flaky(folder, path, content):
    """On storage whose reads fail, are slow and hang: a dataset that skips what cannot be read, and one that fails."""
    samples = expected._cut(content, 128)
    options = {"format": "records", "path": path, "record_bytes": 128, "field_x": "u8[128] @ 0"}
    return [
        Dataset(folder, "skipping", {"x": samples}, True, **options, on_error="skip"),
        Dataset(folder, "failing", {"x": samples}, **options, on_error="fail"),
    ]


def make_view(folder, name, of, content, chosen, **options):
    """Of the samples `chosen`."""
    mine = {field: [samples[number] for number in chosen] for field, samples in content.items()}
    return Dataset(folder, name, mine, of=of, **options)


def make_drawn(folder, content, weights):
    data.write_npy(folder / "drawn.npy", "<f8", (len(weights),), struct.pack(f"<{len(weights)}d", *weights))
    sums = folder / "drawn.sums"
    sums.write_bytes(struct.pack(f"<{len(weights)}Q", *expected.Draws(weights).sums))
    sums.chmod(0o644)
    return Dataset(folder, "drawn", content, sums=sums, of="records", weights=folder / "drawn.npy", epoch_samples=8009)


def make_views(folder, seed):
    """A part of a split, a list that names some samples more than once, and draws by weight."""
    content = expected.read_records(sorted(folder.glob("records-*.bin")), 264, {"number": (0, 8), "body": (8, 256)})
    samples = len(content["body"])
    begin, end = samples * 20 // 100, samples * 85 // 100
    part = expected.view(content, begin, end, seed)
    chance = random.Random(f"{seed} make_views")
    chosen = [chance.randrange(samples) for _ in range(5003)]
    data.write_npy(folder / "listed.npy", "<u4", (len(chosen),), struct.pack(f"<{len(chosen)}I", *chosen))
    return [
        make_view(folder, "part", "records", part, range(end - begin), samples="20%..85%", split_seed=seed),
        make_view(folder, "listed", "records", content, chosen, indices=folder / "listed.npy"),
        make_drawn(folder, content, [chance.random() if chance.random() < 0.8 else 0 for _ in range(samples)]),
    ]


def make_all(folder: pathlib.Path, seed):
    """{name: Dataset} of those on plain files."""
    makers = (make_records, make_tokens, make_pairs, make_vectors, make_shards, make_shrinking)
    made = [make(folder, random.Random(f"{seed} {make.__name__}")) for make in makers]
    return {dataset.name: dataset for dataset in made}
