"""Every format, read by every reader: each sample once an epoch, in the order that the contract says, with the bytes that
stand in the files."""

import random

import consumer
import data
import expected
import harness

READERS = ("auto", "uring", "mapped", "pread")


def noise(bytes_wanted, seed):
    return random.Random(seed).randbytes(bytes_wanted)


def add_idx(instance, **options):
    image, label = instance.directory / "images-idx3", instance.directory / "labels-idx1"
    data.write_idx(image, (103, 5, 7), noise(103 * 35, 1))
    data.write_idx(label, (103,), noise(103, 2))
    instance.add_dataset("idx", format="idx", field_image=image, field_label=label, **options)
    return {"image": expected.read_idx(image), "label": expected.read_idx(label)}


def add_records(instance, name="records", header=0, **options):
    """Three files, the second with one record; four fields out of order, with gaps, at odd offsets."""
    paths = []
    for number, records in enumerate((60, 1, 50)):
        paths.append(instance.directory / f"{name}-{number}.bin")
        paths[-1].write_bytes(noise(header + 41 * records, number))
    fields = {"field_b": "u8[7] @ 3", "field_d": "u8 @ 40", "field_a": "u16[2,1] @ 13", "field_c": "f32 @ 19"}
    instance.add_dataset(
        name, format="records", path=instance.directory / f"{name}-*.bin", record_bytes=41, header_bytes=header,
        **fields, **options,
    )  # fmt: skip
    places = {"b": (3, 7), "d": (40, 1), "a": (13, 4), "c": (19, 4)}
    return expected.read_records(paths, 41, places, header)


def add_npy(instance, **options):
    shapes = {"x": ("<f4", (97, 3, 2), (1, 0)), "y": ("<i8", (97,), (2, 0)), "z": ("<f2", (97, 1), (3, 0))}
    content, fields = {}, {}
    for name, (descr, shape, version) in shapes.items():
        path = instance.directory / f"{name}.npy"
        size = int(descr[2:]) * (6 if name == "x" else 1)
        data.write_npy(path, descr, shape, noise(97 * size, ord(name)), version=version)
        fields[f"field_{name}"] = path
        content[name] = expected.read_npy(path)
    instance.add_dataset("npy", format="npy", **fields, **options)
    return content


def add_npy_parts(instance, **options):
    """Fields in several files each, cut at different places."""
    content, fields = {}, {}
    for name, parts in (("x", (10, 1, 30)), ("y", (25, 16))):
        content[name] = []
        for number, samples in enumerate(parts):
            path = instance.directory / f"part-{name}-{number}.npy"
            data.write_npy(path, "|u1", (samples, 9), noise(samples * 9, number))
            content[name] += expected.read_npy(path)
        fields[f"field_{name}"] = instance.directory / f"part-{name}-*.npy"
    instance.add_dataset("npy-parts", format="npy", **fields, **options)
    return content


def add_tokens(instance, **options):
    """Windows of 17 tokens; one file ends exactly with a window, one with tokens that are in none, one has one window."""
    paths = []
    for number, tokens in enumerate((16 * 30 + 1, 16 * 20 + 13, 17)):
        paths.append(instance.directory / f"tokens-{number}.bin")
        paths[-1].write_bytes(noise(6 + 2 * tokens, number))
    instance.add_dataset(
        "tokens", format="tokens", path=instance.directory / "tokens-*.bin", dtype="u16", length=16, header_bytes=6,
        **options,
    )  # fmt: skip
    content = {"tokens": expected.read_tokens(paths, 2, 16, header=6)}
    assert len(content["tokens"]) == 30 + 20 + 1
    return content


def add_large(instance, **options):
    """Samples larger than any buffer on the way, in a file that is read in pieces."""
    path = data.add_records(instance, "large", samples=9, size=300_001, **options)
    return expected.read_records([path], 300_001, {"x": (0, 300_001)})


def read_all(io, **options):
    """Every dataset, in file order and shuffled, with the tail and without."""
    with harness.Instance(io=io, linger=0) as feedd:
        adders = (add_idx, add_records, add_npy, add_npy_parts, add_tokens, add_large)
        contents = [(add.__name__[4:].replace("_", "-"), add(feedd, **options)) for add in adders]
        feedd.start()
        for name, content in contents:
            for shuffle in (False, True):
                for drop_last in (False, True):
                    shape = {"shuffle": shuffle, "drop_last": drop_last, "seed": 5 if shuffle else 0, "epochs": 3}
                    batches = consumer.read(feedd, name, 8, **shape)
                    expected.check_run(content, batches, 8, **shape)


def test_every_format_with_auto():
    read_all("auto")


def test_every_format_with_uring():
    read_all("uring")


def test_every_format_mapped():
    read_all("mapped")


def test_every_format_with_pread():
    read_all("pread")


def test_every_format_past_the_page_cache():
    for io in ("uring", "pread"):
        read_all(io, io_direct="yes")


def test_direct_reads_with_an_odd_header():
    """Nothing of the file is aligned to anything, and it ends in the middle of a block."""
    with harness.Instance(linger=0) as feedd:
        contents = {}
        for io in ("uring", "pread", "auto"):
            for header in (1, 509, 4095):
                name = f"{io}-{header}"
                contents[name] = add_records(feedd, name, header, io=io, io_direct="yes")
        feedd.start()
        for name, content in contents.items():
            batches = consumer.read(feedd, name, 16, epochs=2, shuffle=True, seed=1)
            expected.check_run(content, batches, 16, epochs=2, shuffle=True, seed=1)


def test_description_of_fields():
    with harness.Instance() as feedd:
        add_records(feedd)
        add_npy(feedd)
        add_tokens(feedd)
        feedd.start()
        shapes = {
            "records": {"b": ["u8", 4, 7], "d": ["u8", 4], "a": ["u16", 4, 2, 1], "c": ["f32", 4]},
            "npy": {"x": ["f32", 4, 3, 2], "y": ["i64", 4], "z": ["f16", 4, 1]},
            "tokens": {"tokens": ["u16", 4, 17]},
        }
        for name, fields in shapes.items():
            with consumer.Consumer(feedd, name, 4, batches=1) as reader:
                found = reader.attached()
                assert found["fields"] == fields, found
                assert found["batches_per_epoch"] == -(-found["samples"] // 4), found


def test_one_sample():
    for io in READERS:
        with harness.Instance(io=io) as feedd:
            path = data.add_records(feedd, samples=1, size=10)
            feedd.start()
            content = expected.read_records([path], 10, {"x": (0, 10)})
            for batch_size in (1, 7):
                batches = consumer.read(feedd, "numbers", batch_size, epochs=50, shuffle=True)
                expected.check_run(content, batches, batch_size, epochs=50, shuffle=True)


def test_batch_larger_than_the_dataset():
    with harness.Instance() as feedd:
        content = add_idx(feedd)
        feedd.start()
        batches = consumer.read(feedd, "idx", 1000, epochs=3, shuffle=True, seed=9)
        assert [batch["count"] for batch in batches] == [103] * 3
        expected.check_run(content, batches, 1000, epochs=3, shuffle=True, seed=9)
        consumer.refused(feedd, "EINVAL", "idx", 103, 1000, "drop_last", dataset="idx", batch_size=1000, drop_last=True)


def test_batch_of_exactly_the_dataset():
    with harness.Instance() as feedd:
        content = add_idx(feedd)
        feedd.start()
        for drop_last in (False, True):
            batches = consumer.read(feedd, "idx", 103, epochs=3, drop_last=drop_last)
            expected.check_run(content, batches, 103, epochs=3, drop_last=drop_last)


def test_batches_of_one_over_many_epochs():
    with harness.Instance() as feedd:
        content = add_idx(feedd)
        feedd.start()
        batches = consumer.read(feedd, "idx", 1, epochs=20, shuffle=True, seed=3)
        expected.check_run(content, batches, 1, epochs=20, shuffle=True, seed=3)
        assert expected.check_exactly_once(103, batches) == 20


def test_largest_shape_and_every_type():
    """Eight dimensions; every type that records can have."""
    types = {
        "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f16": 2, "bf16": 2,
        "f32": 4, "f64": 8, "c64": 8, "c128": 16,
    }  # fmt: skip
    with harness.Instance() as feedd:
        fields, places, at = {}, {}, 0
        for name, size in types.items():
            fields[f"field_{name}"] = f"{name}[1,2,1,1,1,1,1,1] @ {at}"
            places[name] = (at, 2 * size)
            at += 2 * size
        path = feedd.directory / "types.bin"
        path.write_bytes(noise(20 * at, 1))
        feedd.add_dataset("types", format="records", path=path, record_bytes=at, **fields)
        feedd.start()
        with consumer.Consumer(feedd, "types", 3, epochs=2) as reader:
            described = reader.attached()["fields"]
            assert described == {name: [name, 3, 1, 2, 1, 1, 1, 1, 1, 1] for name in types}, described
            expected.check_run(expected.read_records([path], at, places), reader.finish(), 3, epochs=2)
