"""The datasets of the storm: their files, and what each sample must be, cut out of the files by expected.py."""

import itertools
import pathlib
import random
import struct
import tarfile

import data
import expected
import harness
import test_arrow
import test_folder
import test_megatron
import test_tar


def size_of(samples):
    """As storm_consumer wants it."""
    if hasattr(samples, "kind"):
        return samples.kind  # of images: photos.Cropped
    return "ragged" if isinstance(samples, expected.Ragged) else len(samples[0])


def truth_of(samples):
    """One after the other; if they differ in length, first where each begins, and the end."""
    differ = isinstance(samples, expected.Ragged) or hasattr(samples, "kind")
    begins = [0, *itertools.accumulate(map(len, samples))] if differ else []
    return struct.pack(f"<{len(begins)}Q", *begins) + b"".join(samples)


class Dataset:
    """`options` are those of feedd.conf; `content` is {field: [bytes of sample 0, ...]}. The truth is a file with what
    truth_of says of each field, which consumers compare with."""

    def __init__(self, folder, name, content, skips=False, sums=None, brings=None, mix=None, groups=None, **options):
        self.name, self.skips, self.options = name, skips, options
        self.replaces = options.get("on_error") == "replace"
        self.brings = brings  # the view of the dataset `of` that its consumers bring
        self.sums = sums  # a file, of a view that draws by weight
        self.mix = mix  # the same, of a mix
        self.groups = groups  # the same, of one with shuffle windows
        self.fields = {field: size_of(samples) for field, samples in content.items()}
        self.samples = options.get("epoch_samples", len(next(iter(content.values()))))
        self.truth = folder / f"{name}.truth"
        self.truth.write_bytes(b"".join(map(truth_of, content.values())))
        self.truth.chmod(0o644)

    def section(self, **more):
        """Of feedd.conf."""
        if self.brings:
            return ""
        lines = [f"[{'mix' if self.mix else 'view' if 'of' in self.options else 'dataset'} {self.name}]"]
        for key, value in {**self.options, **more}.items():
            lines.append(f"{harness.dotted(key)} = {value}")
        return "\n".join(lines) + "\n"

    def arguments(self):
        """Of storm_consumer."""
        fields = [f"--field={name}:{size}" for name, size in self.fields.items()]
        skips = ["--skips"] * self.skips + ["--replaces"] * self.replaces
        sums = [f"--sums={self.sums}"] if self.sums else [f"--mix={self.mix}"] if self.mix else []
        view = [f"--view={self.brings}"] if self.brings else []
        groups = [f"--groups={self.groups}"] if self.groups else []
        name = self.options["of"] if self.brings else self.name
        options = [*fields, *skips, *sums, *groups]
        return [f"--dataset={name}", *view, f"--samples={self.samples}", f"--truth={self.truth}", *options]


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


def make_windows(folder, chance):
    """Packed documents, many of them empty and some longer than a window."""
    pairs = [test_megatron.some(3000, chance.randrange(1 << 30), 120) for _ in range(2)]
    for number, documents in enumerate(pairs):
        test_megatron.pair(folder / f"text-{number}", documents)
    content = test_megatron.windows(pairs, 50)
    return Dataset(folder, "windows", content, format="megatron", path=folder / "text-*.idx", pack=50)


def make_batches(folder, chance):
    """A stream and a file of record batches: texts of 0 to 900 bytes, some of them cut, and their numbers."""
    samples = [(chance.randbytes(chance.randrange(900)), number) for number in range(4003)]
    parts = [test_arrow.batch_of(samples[at : at + 500]) for at in range(0, len(samples), 500)]
    (folder / "batches-0.arrow").write_bytes(test_arrow.arrow.stream(test_arrow.COLUMNS, parts[:5]))
    (folder / "batches-1.arrow").write_bytes(test_arrow.arrow.file(test_arrow.COLUMNS, parts[5:]))
    right = test_arrow.content_of(samples, 600)
    options = {"format": "arrow", "path": folder / "batches-*.arrow", "field_text": "bytes", "pad_text": "600 7"}
    return Dataset(folder, "batches", right, **options, field_label="i64")


def make_ragged(folder, chance):
    """Fields that differ in length, and now and then a sample that is a thousand times as large, for which slots grow."""
    samples = [
        (f"{number:06}", {"jpg": chance.randbytes(chance.randrange(700)), "txt": b"t" * (number * 7 % 90)})
        for number in range(3001)
    ]
    for number in range(50, 3001, 500):
        samples[number][1]["jpg"] = chance.randbytes(700_000 + number)
    test_tar.write(folder / "ragged.tar", samples)
    right = {name: expected.Ragged(members[name] for _, members in samples) for name in ("jpg", "txt")}
    options = {"format": "tar", "path": folder / "ragged.tar", "field_jpg": "bytes", "field_txt": "bytes"}
    return Dataset(folder, "ragged", right, **options)


def make_shrinking(folder, chance):
    """Its file is cut off now and then, and comes back: samples that are missing then are skipped."""
    path = folder / "shrinking.bin"
    path.write_bytes(records(chance, 8192, 128))
    content = expected.read_records([path], 128, {"x": (0, 128)})
    return Dataset(folder, "shrinking", content, True, format="records", path=path, record_bytes=128,
                   field_x="u8[128] @ 0", on_error="skip")  # fmt: skip


def make_replacing(folder, chance):
    """The same, but others take the places of samples that are missing."""
    path = folder / "replacing.bin"
    path.write_bytes(records(chance, 6144, 128))
    content = expected.read_records([path], 128, {"x": (0, 128)})
    return Dataset(folder, "replacing", content, format="records", path=path, record_bytes=128,
                   field_x="u8[128] @ 0", on_error="replace")  # fmt: skip


def make_pictures(folder, chance):
    """Files of 0 to 900 bytes in folders. Some disappear now and then and come back, and others take their places; files
    come that do not belong to it."""
    root = folder / "pictures"
    for number in range(2003):
        place = root / chance.choice(("cat", "dog/young", "dog/old", "emu"))
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:05}.jpg").write_bytes(chance.randbytes(chance.randrange(900)))
    options = {"field_image": "bytes @ file", "pad_image": "600 7", "field_label": "i64 @ class", "extensions": "jpg"}
    right = test_folder.content_of(root, 600)
    return Dataset(folder, "pictures", right, format="folder", path=root, **options, on_error="replace")


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


def make_drawn(folder, content, weights, listed):
    """By the same weights: a view of feedd.conf that draws from a part of a list, one that consumers bring, which draws from
    all samples, and one that draws from the other part of the list."""
    words = struct.pack(f"<{len(weights)}d", *weights)
    data.write_npy(folder / "drawn.npy", "<f8", (len(weights),), words)
    own, rest = numbers_file(folder, "own-drawn", words), listed[len(listed) // 2 :]
    own_part = f"indices:6:{numbers_file(folder, 'own-part', struct.pack(f'<{len(rest)}I', *rest))}"
    draws = {"of": "records", "epoch_samples": 8009}
    part = {"indices": folder / "listed.npy", "samples": f"..{len(listed) // 2}"}
    chosen = expected.weights_of_chosen(weights, listed[: len(listed) // 2])
    drawn, all_drawn = sums_file(folder, "drawn", chosen), sums_file(folder, "own-drawn", weights)
    part_drawn = sums_file(folder, "own-part", expected.weights_of_chosen(weights, rest))
    return [
        Dataset(folder, "drawn", content, sums=drawn, **draws, **part, weights=folder / "drawn.npy"),
        Dataset(folder, "own-drawn", content, sums=all_drawn, **draws, brings=f"weights:13:8009:{own}"),
        Dataset(folder, "own-part", content, sums=part_drawn, **draws, brings=f"weights:13:8009:{own}|{own_part}"),
    ]


def sums_file(folder, name, weights):
    path = folder / f"{name}.sums"
    path.write_bytes(struct.pack(f"<{len(weights)}Q", *expected.Draws(weights).sums))
    path.chmod(0o644)
    return path


def numbers_file(folder, name, words):
    path = folder / f"{name}.numbers"
    path.write_bytes(words)
    path.chmod(0o644)
    return path


def make_own(folder, content, part, chance, seed):
    """Views that consumers bring: a list of several pieces, and a split."""
    samples = len(content["body"])
    chosen = [chance.randrange(samples) for _ in range(20_011)]
    path = numbers_file(folder, "own-list", struct.pack(f"<{len(chosen)}I", *chosen))
    return [
        make_view(folder, "own-list", "records", content, chosen, brings=f"indices:6:{path}"),
        make_view(folder, "own-split", "records", part, range(len(part["body"])), brings=f"split:200000:850000:{seed}"),
    ]


def together(parts):
    """Samples of several sources, one source after the other."""
    samples = sum(parts, [])
    return expected.Ragged(samples, parts[0].item) if isinstance(parts[0], expected.Ragged) else samples


def make_mixed(folder, name, sources, epoch_samples):
    """sources: {name: (weight, content)}"""
    weights = [weight for weight, _ in sources.values()]
    contents = [content for _, content in sources.values()]
    schedule = expected.Mix(weights)
    samples = [len(next(iter(content.values()))) for content in contents]
    pairs = list(zip(schedule.weights, samples))
    numbers = [schedule.total, len(pairs), *sum(pairs, ()), *[0, 0] * (8 - len(pairs))]  # struct storm_mix
    path = folder / f"{name}.mix"
    path.write_bytes(struct.pack("<18Q", *numbers) + bytes(schedule.period))
    path.chmod(0o644)
    right = {field: together([content[field] for content in contents]) for field in contents[0]}
    return Dataset(folder, name, right, mix=path, epoch_samples=epoch_samples,
                   **{f"source_{source}": weight for source, (weight, _) in sources.items()})  # fmt: skip


def make_blend(folder, seed):
    """A mix of shards and of files in folders: texts of 0 to 500 bytes, in which now and then one is much larger."""
    chance = random.Random(f"{seed} make_blend")

    def text(number):
        return chance.randbytes(300_000 if number % 400 == 70 else chance.randrange(500))

    shards = [(f"{number:06}", {"txt": text(number), "cls": str(number).encode()}) for number in range(1501)]
    test_tar.write(folder / "blend.tar", shards)
    test_folder.write(folder / "blend", {f"{number % 3}/{number:05}": text(number) for number in range(701)})
    order = test_folder.in_order(folder / "blend")
    contents = {
        "blend-shards": {"text": expected.Ragged(members["txt"] for _, members in shards),
                         "label": [struct.pack("<q", int(members["cls"])) for _, members in shards]},
        "blend-files": {"text": expected.Ragged(test_folder.read(folder / "blend", path) for _, _, path in order),
                        "label": [struct.pack("<q", number) for number, _, _ in order]},
    }  # fmt: skip
    fields = {"field_text": "bytes @ txt", "field_label": "i64 @ cls"}
    shards = Dataset(folder, "blend-shards", contents["blend-shards"], format="tar", path=folder / "blend.tar", **fields)
    fields = {"field_text": "bytes @ file", "field_label": "i64 @ class"}
    files = Dataset(folder, "blend-files", contents["blend-files"], format="folder", path=folder / "blend", **fields)
    sources = {"blend-shards": (3, contents["blend-shards"]), "blend-files": (2, contents["blend-files"])}
    return [make_mixed(folder, "blend", sources, 2503), shards, files]


def make_views(folder, seed):
    """A part of a split, a part of a list that names some samples more than once, and draws by weight: of feedd.conf, and
    brought. And a mix."""
    content = expected.read_records(sorted(folder.glob("records-*.bin")), 264, {"number": (0, 8), "body": (8, 256)})
    samples = len(content["body"])
    begin, end = samples * 20 // 100, samples * 85 // 100
    part = expected.view(content, begin, end, seed)
    chance = random.Random(f"{seed} make_views")
    numbers = [chance.randrange(samples) for _ in range(7001)]
    data.write_npy(folder / "listed.npy", "<u4", (len(numbers),), struct.pack(f"<{len(numbers)}I", *numbers))
    part_of_list = {"samples": "1000..6003", "split_seed": seed}
    chosen = expected.chosen(samples, 1000, 6003, seed, numbers)
    listed = {field: [values[number] for number in chosen] for field, values in content.items()}
    return [
        make_mixed(folder, "mixed", {"part": (3, part), "listed": (2, listed), "records": (1, content)}, 7001),
        *make_blend(folder, seed),
        make_view(folder, "part", "records", part, range(end - begin), samples="20%..85%", split_seed=seed),
        make_view(folder, "listed", "records", content, chosen, indices=folder / "listed.npy", **part_of_list),
        *make_drawn(folder, content, [chance.random() if chance.random() < 0.8 else 0 for _ in range(samples)], numbers),
        *make_own(folder, content, part, chance, seed),
    ]


def make_all(folder: pathlib.Path, seed):
    """{name: Dataset} of those on plain files."""
    makers = (
        make_records, make_tokens, make_pairs, make_vectors, make_shards, make_windows, make_batches, make_ragged,
        make_shrinking, make_replacing, make_pictures,
    )  # fmt: skip
    made = [make(folder, random.Random(f"{seed} {make.__name__}")) for make in makers]
    return {dataset.name: dataset for dataset in made}
