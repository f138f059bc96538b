"""Fields that loaders transform: bit for bit what NumPy makes of the files, whatever the format, the reader and the ring."""

import json
import os
import random
import time

import consumer
import data
import expected
import harness

try:
    import numpy as np
except ImportError:
    np = None

READERS = ("uring", "mapped", "pread")
DTYPES = {
    "bool": "?", "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8",
    "f16": "f2", "f32": "f4", "f64": "f8",
}  # fmt: skip


def needs_numpy(test):
    def run():
        if np is None:
            harness.skip("this Python has no NumPy")
        test()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# ---- What has to come of it ----------------------------------------------------------------------------------


def number(text):
    dividend, _, divisor = text.partition("/")
    return np.float32(float(dividend) / float(divisor or 1))


def sum_in_lanes(values):
    lanes = np.zeros(-(-len(values) // 16) * 16)
    lanes[: len(values)] = values
    return np.cumsum(np.cumsum(lanes.reshape(-1, 16), axis=0)[-1])[-1]


def standardise(x):
    values = x.reshape(-1).astype(np.float64)
    mean = sum_in_lanes(values) / len(values)
    deviation = np.float32(np.sqrt(sum_in_lanes((values - mean) ** 2) / len(values)))
    return np.zeros_like(x) if deviation == 0 else (x - np.float32(mean)) / deviation


def to_bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_whole(x, dtype):
    """Rounded, within the limits of the type; in whole numbers of Python, which have none themselves."""
    limits = np.iinfo(dtype)
    whole = lambda value: min(max(round(value), int(limits.min)), int(limits.max))
    return np.array([whole(value) for value in x.reshape(-1).tolist()], dtype=dtype).reshape(x.shape)


def transform(sample, text):
    """The bytes that come of an array."""
    steps = [step.split() for step in text.split(",")]
    layout = next((words[0] for name, *words in steps if name == "layout"), None)
    planes = sample.ndim == 3 and sample.shape[0] <= 4
    pixels = sample.transpose(1, 2, 0) if layout and planes else sample
    x, target = pixels.astype(np.float32), "f32" if any(name not in ("cast", "layout") for name, *_ in steps) else None
    for name, *words in steps:
        if name == "cast":
            target = words[0]
        elif name == "layout":
            pass
        elif name == "standardise":
            x = standardise(x)
        else:
            values = np.array([number(word) for word in words], dtype=np.float32)
            if len(values) > 1 and not layout:
                values = values.reshape([-1] + [1] * (x.ndim - 1))
            x = {"scale": np.multiply, "shift": np.add, "mean": np.subtract, "std": np.divide}[name](x, values)
        assert x.dtype == np.float32
    if target is None:
        x = pixels
    elif target in ("f32", "f16"):
        with np.errstate(over="ignore"):
            x = x.astype(DTYPES[target])
    elif target == "bf16":
        x = to_bf16(x)
    else:
        x = to_whole(pixels if len(steps) == 1 + bool(layout) else x, "<" + DTYPES[target])
    return (x.transpose(2, 0, 1) if layout == "chw" else x).tobytes()


def transformed(content, dtype, shape, text):
    array = lambda sample: np.frombuffer(sample, dtype="<" + DTYPES[dtype]).reshape(shape)
    return [transform(array(sample), text) for sample in content]


# ---- Datasets ------------------------------------------------------------------------------------------------


def values(dtype, shape, seed):
    """Numbers all over the range of a type, but for those that are none."""
    bits = np.dtype("<" + DTYPES[dtype])
    noise = np.random.default_rng(seed)
    if bits.kind == "f":
        return (noise.standard_normal(shape) * 10.0 ** noise.integers(-8, 5, shape)).astype(bits)
    if bits.kind == "b":
        return noise.integers(0, 2, shape).astype(bits)
    limits = np.iinfo(bits)
    return noise.integers(limits.min, limits.max, shape, dtype=bits, endpoint=True)


def add_idx(feedd, **options):
    image, label = feedd.directory / "images-idx3", feedd.directory / "labels-idx1"
    data.write_idx(image, (103, 15, 7), values("u8", 103 * 105, 1).tobytes())
    data.write_idx(label, (103,), values("u8", 103, 2).tobytes())
    steps = "cast f32, scale 1/255, shift -0.5"
    feedd.add_dataset("idx", format="idx", field_image=image, field_label=label, transform_image=steps, **options)
    return {"image": transformed(expected.read_idx(image), "u8", (15, 7), steps), "label": expected.read_idx(label)}


# Every type, larger and smaller after it than before, per channel and per sample, and one left as it is.
FIELDS = {
    "a": ("u8", (3, 5, 7), "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225"),
    "b": ("u16", (2, 1), "mean 1000 3000, std 7 300, cast f16"),
    "c": ("f32", (11,), "cast f16"),
    "d": ("i8", (), "cast f32"),
    "e": ("i16", (37,), "standardise"),
    "f": ("f64", (2, 3), "scale 1e-3"),
    "g": ("u8", (4,), None),
    "h": ("i32", (5,), "shift 1/3, cast bf16"),
    "i": ("u32", (3,), "scale 2e-9"),
    "j": ("i64", (2,), "mean 7, cast f16"),
    "k": ("u64", (), "std 1e18"),
    "l": ("f16", (9,), "scale -1.5"),
    "m": ("bool", (6,), "shift -0.5, cast bf16"),
    "n": ("f32", (17,), "scale 3, standardise, scale 0.5, shift 1"),
    "o": ("i64", (3,), "cast i32"),
    "p": ("u8", (5, 7, 3), "scale 1/255, mean 0.485 0.456 0.406, layout chw, cast f16"),
}


def add_records(feedd, name="records", pad=0, **options):
    """Two files; records of all fields with a byte between them, so that most lie unaligned."""
    places, offset, settings, columns = {}, 1, {}, {}
    for field, (dtype, shape, steps) in FIELDS.items():
        columns[field] = values(dtype, (150, *shape), ord(field))
        places[field] = (offset, columns[field][0].nbytes)
        settings[f"field_{field}"] = f"{dtype}[{','.join(map(str, shape))}] @ {offset}" if shape else f"{dtype} @ {offset}"
        if steps:
            settings[f"transform_{field}"] = steps
        offset += columns[field][0].nbytes + 1
    records = [b"#" + b"#".join(columns[field][i].tobytes() for field in FIELDS) + b"#" * (1 + pad) for i in range(150)]
    paths = [feedd.directory / f"{name}-0.bin", feedd.directory / f"{name}-1.bin"]
    paths[0].write_bytes(b"".join(records[:61]))
    paths[1].write_bytes(b"".join(records[61:]))
    feedd.add_dataset(
        name, format="records", path=feedd.directory / f"{name}-*.bin", record_bytes=offset + pad, **settings, **options
    )
    feedd.records = paths
    content = expected.read_records(paths, offset + pad, places)
    for field, (dtype, shape, steps) in FIELDS.items():
        content[field] = transformed(content[field], dtype, shape, steps) if steps else content[field]
    return content


def add_npy(feedd, **options):
    fields = {"x": ("f32", (3, 2), "mean 1 2 3, std 2 3 4, cast bf16"), "y": ("i64", (), "scale 0.5"),
              "z": ("u8", (70, 41), "standardise, cast f16"), "w": ("i16", (2000,), "scale 1/32768")}  # fmt: skip
    settings, content = {}, {}
    for field, (dtype, shape, steps) in fields.items():
        path = feedd.directory / f"{field}.npy"
        array = values(dtype, (97, *shape), ord(field))
        array[5] = 3  # a constant sample
        data.write_npy(path, array.dtype.str, array.shape, array.tobytes())
        settings.update({f"field_{field}": path, f"transform_{field}": steps})
        content[field] = transformed(expected.read_npy(path), dtype, shape, steps)
    feedd.add_dataset("npy", format="npy", **settings, **options)
    return content


def add_tokens(feedd, **options):
    path = feedd.directory / "tokens.bin"
    path.write_bytes(values("u16", 16 * 50 + 1, 9).tobytes())
    feedd.add_dataset("tokens", format="tokens", path=path, dtype="u16", length=16, transform_tokens="cast f32", **options)
    return {"tokens": transformed(expected.read_tokens([path], 2, 16), "u16", (17,), "cast f32")}


# ---- Delivery ------------------------------------------------------------------------------------------------


def read_all(io, **options):
    """In file order and shuffled, with partial last batches."""
    with harness.Instance(io=io, linger=0) as feedd:
        contents = {add.__name__[4:]: add(feedd, **options) for add in (add_idx, add_records, add_npy, add_tokens)}
        feedd.start()
        for name, content in contents.items():
            for shuffle in (False, True):
                shape = {"shuffle": shuffle, "seed": 5 if shuffle else 0, "epochs": 2}
                expected.check_run(content, consumer.read(feedd, name, 8, **shape), 8, **shape)


@needs_numpy
def test_every_format_with_uring():
    read_all("uring")


@needs_numpy
def test_every_format_mapped():
    read_all("mapped")


@needs_numpy
def test_every_format_with_pread():
    read_all("pread")


@needs_numpy
def test_every_format_past_the_page_cache():
    read_all("uring", io_direct="yes")
    read_all("pread", io_direct="yes")


@needs_numpy
def test_samples_of_several_reads_and_batches_of_several_chunks():
    """Samples beyond what one request reads; and batches that several loaders fill."""
    with harness.Instance(ring="64M", loaders=3) as feedd:
        large, small = values("u8", (20, 3, 700_001), 3), values("u8", (5000, 3, 400), 4)
        contents = {}
        for name, array in (("large", large), ("small", small)):
            path = feedd.directory / f"{name}.npy"
            data.write_npy(path, "|u1", array.shape, array.tobytes())
            for io in READERS:
                for target in ("f32", "f16"):
                    steps = f"scale 1/255, mean 0.1 0.2 0.3, cast {target}"
                    feedd.add_dataset(f"{name}-{io}-{target}", format="npy", field_x=path, transform_x=steps, io=io)
                    contents[f"{name}-{io}-{target}"] = {"x": [transform(sample, steps) for sample in array]}
        feedd.start()
        for name, content in contents.items():
            batch_size = 3 if name.startswith("large") else 2000
            batches = consumer.read(feedd, name, batch_size, shuffle=True, seed=2)
            expected.check_run(content, batches, batch_size, epochs=1, shuffle=True, seed=2)


@needs_numpy
def test_ranks_and_devices_see_the_same():
    with harness.Instance() as feedd:
        content = add_npy(feedd)
        feedd.start()
        for rank in range(2):
            shape = {"world_size": 2, "rank": rank, "shuffle": True, "seed": 3, "epochs": 1}
            expected.check_run(content, consumer.read(feedd, "npy", 6, **shape), 6, **shape)


@needs_numpy
@harness.quick_attach
def test_loaders_are_killed_again_and_again():
    """Also during a transform: the chunk is read again."""
    for io in READERS:
        with harness.Instance(io=io, loaders=3, ring="256K") as feedd:
            content = add_records(feedd)
            feedd.start()
            shape = {"epochs": 20, "shuffle": True, "seed": 13}
            reader = consumer.Consumer(feedd, "records", 20, sleep_us=harness.slowly(8000), **shape)
            killed = 0
            while reader.process.poll() is None:
                if alive := feedd.children_called("loader"):
                    killed += harness.kill(random.choice(alive))
                time.sleep(0.05)
            assert killed >= 5, f"only {killed} were killed: that shows nothing"
            expected.check_run(content, reader.finish(), 20, **shape)


@needs_numpy
def test_unreadable_samples_are_skipped():
    for io in READERS:
        with harness.Instance(io=io) as feedd:
            content = add_records(feedd, on_error="skip")
            feedd.start()
            size = feedd.records[1].stat().st_size
            os.truncate(feedd.records[1], size * 3 // 4 + 5)
            batches = consumer.read(feedd, "records", 16, shuffle=True, seed=4)
            expected.check_bytes(content, batches)
            delivered = [sample for batch in batches for sample in batch["samples"]]
            lost = range(61 + int(89 * 0.75), 150)
            assert sorted(delivered) == [sample for sample in range(150) if sample not in lost], io
            assert sum(batch["skipped"] for batch in batches) == len(lost)


# ---- What is said of it --------------------------------------------------------------------------------------


@needs_numpy
def test_what_is_delivered_is_described():
    with harness.Instance() as feedd:
        add_idx(feedd)
        said = feedd.check().stdout
        assert "image: f32[15,7], made of u8: cast f32, scale 1/255, shift -0.5\n" in said, said
        assert "label: u8\n" in said, said
        feedd.start()
        with consumer.Consumer(feedd, "idx", 8, step=True) as reader:
            fields = reader.attached()["fields"]
            assert fields == {"image": ["f32", 8, 15, 7], "label": ["u8", 8]}, fields


@needs_numpy
def test_feedctl_names_transforms():
    with harness.Instance() as feedd:
        add_idx(feedd)
        feedd.start()
        (dataset,) = json.loads(feedd.ctl("datasets", "--json").stdout)
        image, label = dataset["fields"]
        steps = "cast f32, scale 1/255, shift -0.5"
        assert image == {"name": "image", "dtype": "f32", "shape": [15, 7], "stored": "u8", "transform": steps}, image
        assert label == {"name": "label", "dtype": "u8", "shape": [], "stored": "u8", "transform": None}, label
        assert "image f32[15,7] from u8, label u8" in feedd.ctl("datasets").stdout


@needs_numpy
def test_verification_says_what_it_cannot_verify():
    with harness.Instance() as feedd:
        add_idx(feedd)
        data.add_records(feedd, "plain")
        data.add_records(feedd, "made", transform_x="scale 2")
        path = feedd.directory / "same-size.npy"
        data.write_npy(path, "<f4", (40, 3), values("f32", (40, 3), 1).tobytes())
        feedd.add_dataset("same-size", format="npy", field_x=path, transform_x="shift 1")
        feedd.start()
        place = "each in its place, none twice"
        for dataset, sentence in (
            ("idx", f"{place}, all bytes of label equal to the files'; not verified: the bytes of image, which"),
            ("plain", f"{place}, all bytes equal to the files'\n"),
            ("made", f"{place}; not verified: the bytes of x, which the daemon transforms\n"),
            ("same-size", f"{place}; not verified: the bytes of x, which the daemon transforms\n"),
        ):
            said = feedd.ctl("read", dataset, "--epochs", 2, "--shuffle", "--verify").stdout
            assert sentence in said, said
