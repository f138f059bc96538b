"""`decode gpu` wherever images are stored and however they are read: batches have the bits that loaders make. The engine is a
simulated one unless tests run on a real GPU."""

import json
import re

import consumer
import harness
import pictures
import pyarrow as pa
import pyarrow.parquet
from devices import CPU, GPU
from test_gpu_images import KINDS, STEPS, serve
from test_images import add, add_formats

SETTINGS = {"loaders": 2, "ring": "1M", "device_linger": 1, "linger": 0}
CROPPED = f"decode gpu, resize 72, center_crop 48, {pictures.NORMALISE}"


def crcs(batches):
    return [(batch["crc"], batch["samples"]) for batch in batches]


def decoded_by_engine(feedd, pools):
    """How many images of each pool, once so many are closed."""
    def found():
        return re.findall(r"pool \d+: (\d+) images decoded by the engine", feedd.read_log())

    harness.eventually(lambda: len(found()) == pools, 10, f"{pools} pools that are closed")
    return [int(count) for count in found()]


def check(feedd, names, least, batch_size=7, **options):
    """Batches on the GPU and those that loaders make for host memory. An engine decodes so many images of each dataset."""
    for pools, name in enumerate(names, 1):
        wanted, got = (consumer.read(feedd, name, batch_size, device=device, **options) for device in (CPU, GPU))
        assert crcs(got) == crcs(wanted), name
        assert decoded_by_engine(feedd, pools)[-1] >= least, name


def test_every_format():
    encoded = pictures.some(24, seed=51, least=200, kinds=KINDS)
    with harness.Instance(**SETTINGS) as feedd:
        names = add_formats(feedd, encoded, transform_image=STEPS)
        feedd.start()
        check(feedd, names, 12, shuffle=True, seed=2)


def test_packed():
    encoded = pictures.some(24, seed=52, least=200, kinds=KINDS)
    with harness.Instance(**SETTINGS) as feedd:
        (stored, *_) = add_formats(feedd, encoded)
        feedd.start()
        feedd.ctl("pack", stored, feedd.directory / "packed")
        feedd.add_dataset("packed", format="packed", path=feedd.directory / "packed-?????.feed", transform_image=STEPS)
        feedd.write_config()
        feedd.ctl("reload")
        check(feedd, ["packed"], 12, shuffle=True, seed=2)


def test_a_view():
    """Loaders decode for its dataset, which has other steps."""
    encoded = pictures.some(30, seed=53, least=200, kinds=KINDS)
    with harness.Instance(**SETTINGS) as feedd:
        add(feedd, encoded, "resize 72, center_crop 64")
        feedd.add_view("half", "pictures", samples="50%..100%", transform_image=STEPS)
        feedd.start()
        check(feedd, ["half"], 8, epochs=2, shuffle=True, seed=3)


def test_a_mask():
    """Loaders decode it, with the same random numbers."""
    encoded = pictures.some(20, seed=54, least=200, kinds=KINDS)
    shapes = [pictures.opened(data).size for data in encoded]
    masks = [pictures.encode(pictures.picture(i, *shape).convert("L"), "png") for i, shape in enumerate(shapes)]
    with harness.Instance(**SETTINGS) as feedd:
        table = pa.table({"image": pa.array(encoded, pa.binary()), "mask": pa.array(masks, pa.binary())})
        pa.parquet.write_table(table, feedd.directory / "a.parquet")
        feedd.add_dataset("pictures", format="parquet", path="a.parquet", field_image="bytes", field_mask="bytes",
                          transform_image=STEPS, transform_mask="with image, layout chw")  # fmt: skip
        feedd.start()
        check(feedd, ["pictures"], 20, epochs=2, shuffle=True, seed=3)


def test_a_mix():
    """Sources that decode alike, except for what moves pixels, and whose stored sizes differ."""
    with harness.Instance(**SETTINGS) as feedd:
        add(feedd, pictures.some(20, seed=55, least=200, most=220, kinds=KINDS), STEPS, "small")
        add(feedd, pictures.some(20, seed=56, least=300, most=500, kinds=KINDS), CROPPED, "large")
        for name, weights in (("both", (1, 1)), ("turned", (3, 1))):
            feedd.add_mix(name, dict(zip(("small", "large"), weights, strict=True)), 60)
        feedd.start()
        check(feedd, ["both", "turned"], 40, epochs=2, shuffle=True, seed=4)


def test_two_ranks():
    """Of one feed, on one GPU."""
    encoded = pictures.some(30, seed=57, least=200, kinds=KINDS)
    options = {"world_size": 2, "epochs": 2, "shuffle": True, "seed": 5}
    with serve(encoded, linger=0) as feedd:
        both = {"share": "both", "wait_for": 2, "device_world_size": 2, "device": GPU, **options}
        with (
            consumer.Consumer(feedd, "pictures", 4, rank=0, **both) as one,
            consumer.Consumer(feedd, "pictures", 4, rank=1, **both) as other,
        ):
            got = [reader.finish() for reader in (one, other)]
        assert decoded_by_engine(feedd, 1)[0] >= 30
        for rank in (0, 1):
            wanted = consumer.read(feedd, "pictures", 4, rank=rank, device=CPU, **options)
            assert crcs(got[rank]) == crcs(wanted)


def test_resume_in_the_middle_of_an_epoch():
    encoded = pictures.some(30, seed=58, least=200, kinds=KINDS)
    options = {"epochs": 2, "shuffle": True, "seed": 5}
    with serve(encoded, linger=0) as feedd:
        with consumer.Consumer(feedd, "pictures", 4, step=True, device=GPU, **options) as reader:
            reader.attached()
            before = reader.take(3)
            token = reader.token()
        after = consumer.read(feedd, "pictures", 4, resume=token, device=GPU, **options)
        assert crcs(before + after) == crcs(consumer.read(feedd, "pictures", 4, device=CPU, **options))
        assert decoded_by_engine(feedd, 2)[1] >= 30


def test_replaced_images():
    encoded = pictures.some(30, seed=59, least=200, kinds=KINDS)
    for i, broken in ((2, encoded[2][:200]), (13, b"nothing"), (14, b""), (29, encoded[29][:2])):
        encoded[i] = broken
    with serve(encoded, linger=0, dataset={"on_error": "replace"}) as feedd:
        check(feedd, ["pictures"], 40, epochs=2, shuffle=True, seed=6)

        def replaced():
            return json.loads(feedd.ctl("errors", "pictures", "--json").stdout)["replaced"]

        harness.eventually(lambda: replaced() >= 16)  # four in each epoch of both
