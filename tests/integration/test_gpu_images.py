"""`decode gpu`: images that a GPU's engine decodes and a kernel in the consumer's process finishes. The same bits as those that
loaders deliver, which are Pillow's, whoever makes an image, and whatever dies meanwhile. The engine is a simulated one unless
tests run on a real GPU."""

import re
import time

import consumer
import data
import devices
import expected
import harness
import pictures
from devices import CPU, FAULTS, GPU
from test_folder import write
from test_gpu_kill import kill_while
from test_images import FIELDS, TRAINING, add, evaluated

KINDS = ("jpg", "444.jpg", "grey.jpg", "jpg")  # what an engine takes
ALIKE = ("jpg", "grey.jpg")  # ... of much the same size: loaders decode what is larger than twice the mean
STEPS = f"decode gpu, {TRAINING}"


def serve(encoded, transform=STEPS, environment=None, dataset=None, **settings):
    instance = harness.Instance(**{"loaders": 2, "ring": "1M", "device_linger": 1, **settings})
    add(instance, encoded, transform, **(dataset or {}))
    return instance.start(environment=environment)


def check(feedd, encoded, batches, batch_size, size=48, seed=5, **options):
    """Against what loaders make and, unless a real GPU's machine has another Pillow, against Pillow."""
    wanted = consumer.read(feedd, "pictures", batch_size, seed=seed, device=CPU, **options)
    assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in batches]
    if not harness.on_real_gpu():
        pictures.check(batches, encoded, pictures.training(size), seed)


def check_training(feedd, encoded, batch_size=7, seed=5, device=GPU, **options):
    batches = consumer.read(feedd, "pictures", batch_size, seed=seed, device=device, **options)
    check(feedd, encoded, batches, batch_size, seed=seed, **options)
    return batches


def decoded(feedd, wait_s=10):
    """How many images were decoded by the engine, by libjpeg, by loaders: from the log, once the pools are closed."""
    def found():
        return re.findall(r"pool \d+: (\d+) images decoded by the engine, (\d+) by libjpeg, (\d+) by loaders", feedd.read_log())

    lines = harness.eventually(found, wait_s, "a pool that is closed")
    return [sum(map(int, column)) for column in zip(*lines, strict=True)]


# ---- The same bits -----------------------------------------------------------------------------------------


def test_training():
    """Every kind of image, and batches that end in odd numbers."""
    encoded = pictures.some(41, seed=1, least=64, kinds=pictures.KINDS)
    with serve(encoded, linger=0) as feedd:
        for batch_size in (7, 1, 41, 16):
            check_training(feedd, encoded, batch_size)
        check_training(feedd, encoded, 9, epochs=3, shuffle=True)
        by_engine, by_library, by_loaders = decoded(feedd)
        assert by_engine and by_loaders and not by_library, (by_engine, by_library, by_loaders)


@harness.limit(60)
def test_gpu_that_does_not_linger():
    """It is asked what it can do before anybody uses it, and is kept until it has answered."""
    encoded = pictures.some(20, seed=1, least=200, kinds=ALIKE)
    with serve(encoded, linger=0, device_linger=0, environment={FAULTS: "open_ms=2000"}) as feedd:
        check_training(feedd, encoded)
        assert decoded(feedd) == [20, 0, 0]
        harness.eventually(lambda: not feedd.statistics()["gpus"], 15, "the GPU is given up")
        assert feedd.read_log().count("transfer process of GPU") == 2, feedd.read_log()  # has started, has ended


def test_all_of_what_an_engine_takes():
    encoded = pictures.some(40, seed=2, least=200, kinds=ALIKE)
    with serve(encoded, linger=0) as feedd:
        check_training(feedd, encoded, epochs=2)
        assert decoded(feedd) == [80, 0, 0]


def test_evaluation():
    encoded = pictures.some(30, seed=3, least=200, kinds=ALIKE)
    with serve(encoded, "decode gpu, resize 72, center_crop 64", linger=0) as feedd:
        batches = consumer.read(feedd, "pictures", 7, device=GPU)
        wanted = consumer.read(feedd, "pictures", 7, device=CPU)
        assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in batches]
        if not harness.on_real_gpu():
            expected.check_run(evaluated(encoded), batches, 7)
        assert decoded(feedd)[0] == 30


def test_other_shapes():
    """Both resizing filters, margins, both orders of axes, grey, and other types; next to what loaders make."""
    encoded = pictures.some(24, seed=4, least=200, kinds=KINDS)
    for steps in (
        "resize 50 90 bicubic, scale 1/255",
        "resize 100 30, layout chw",
        "resize 90, center_crop 120 100, flip, vertical_flip",
        "random_resized_crop 40 60 bicubic, vertical_flip, cast bf16",
        "decode gray, resize 64 64, scale 1/127.5, shift -1, layout chw",
        "random_crop 50 padding 8 fill 1 2 3, cast f32, mean 1 2 3, std 4 5 6",
        "resize 300 300, flip",
    ):
        by_gpu = steps.replace("decode gray", "decode gpu gray") if steps.startswith("decode") else f"decode gpu, {steps}"
        with serve(encoded, by_gpu) as feedd:
            wanted, got = (consumer.read(feedd, "pictures", 5, seed=2, device=device) for device in (CPU, GPU))
            assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in got], steps


def test_turned_images():
    """As EXIF says, in all eight ways, with every sampling that an engine takes; and with the same EXIF, but without `exif`."""
    encoded = []
    for i in range(64):
        exif = pictures.Image.Exif()
        exif[0x0112] = 1 + i % 8
        image = pictures.picture(100 + i, 201 + 7 * (i % 5), 150 + 9 * (i % 7))
        image = image.convert("L") if i // 8 % 4 == 3 else image
        file = pictures.io.BytesIO()
        image.save(file, "JPEG", quality=90, exif=exif, **({} if image.mode == "L" else {"subsampling": i // 8 % 4}))
        encoded.append(file.getvalue())
    for decode in ("decode gpu exif", "decode gpu"):
        for steps in ("random_resized_crop 48, flip 0.5, layout chw", "resize 72 bicubic, center_crop 64, vertical_flip",
                      "random_crop 90 padding 9 fill 1 2 3, flip", "resize 30 61"):  # fmt: skip
            with serve(encoded, f"{decode}, {steps}", linger=0) as feedd:
                wanted, got = (consumer.read(feedd, "pictures", 9, seed=3, device=device) for device in (CPU, GPU))
                assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in got], (decode, steps)
                assert decoded(feedd) == [64, 0, 0], (decode, steps)


# ---- Who decodes -------------------------------------------------------------------------------------------


def test_status_says_who_decodes():
    encoded = pictures.some(12, seed=5, least=200, kinds=KINDS)
    with serve(encoded, device_linger=30) as feedd:
        check_training(feedd, encoded)
        assert [gpu["images"] for gpu in feedd.status()["gpus"]] == ["engine"]


@harness.host_memory
def test_statistics_say_who_decodes_and_why():
    """Of each kind another number of images, so that none is taken for another."""
    flat = pictures.Image.new("RGB", (400, 400), (9, 99, 199))  # few bytes, and reduced to less than a twelfth
    of_kind = {
        "unfit_format": [pictures.encode(pictures.picture(1, 240, 220), "webp")],
        "unfit_coding": [pictures.encode(pictures.picture(2, 240, 220), "progressive.jpg")] * 2,
        "unfit_colours": [pictures.encode(pictures.picture(3, 120, 110), "cmyk.jpg")] * 3,
        "unfit_ending": [pictures.encode(pictures.picture(4, 240, 220), "jpg") + b"more"] * 4,
        "unfit_size": [pictures.encode(pictures.picture(5, 12, 60), "jpg")] * 5,
        "unfit_steps": [pictures.encode(flat, "jpg")] * 6,
    }
    encoded = pictures.some(30, seed=16, least=200, most=280, kinds=ALIKE) + sum(of_kind.values(), [])
    faults = {devices.FAULTS: "refuse_image=5"}
    with serve(encoded, "decode gpu, resize 24 24", environment=faults, linger=30) as feedd:
        wanted = consumer.read(feedd, "pictures", 7, device=CPU)
        got = consumer.read(feedd, "pictures", 7, device=devices.SIMULATED)
        assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in got]

        def counters():
            feeds = feedd.statistics()["feeds"]
            (feed,) = [feed for feed in feeds if feed["loader_counters"]["gpu_images"]]
            return {**feed["loader_counters"], **feed["feed_counters"]}

        harness.eventually(lambda: counters()["engine_images"] + counters()["library_images"] == 30)
        found = counters()
        assert {name: found[name] for name in of_kind} == {name: len(images) for name, images in of_kind.items()}
        assert [found[name] for name in ("gpu_images", "engine_images", "library_images", "refused_images")] == [30, 24, 6, 0]
        assert "ENGINE/S" in feedd.ctl("stats", "--once").stdout
        assert re.search(r"feedd_feed_engine_images_total\{[^}]*\} 24\n", feedd.ctl("metrics").stdout)


def test_without_an_engine_loaders_decode():
    """A real GPU has one, but there is no library."""
    environment, why = {devices.FAULTS: "no_engine"}, "this simulated GPU has no engine"
    if harness.on_real_gpu():
        environment = {"FEEDD_NVJPEG": "/nonexistent/libnvjpeg.so.13"}
        why = "FEEDD_NVJPEG is not the path of nvJPEG: /nonexistent/libnvjpeg.so.13"
    encoded = pictures.some(20, seed=6, least=64)
    with serve(encoded, environment=environment, device_linger=30) as feedd:
        check_training(feedd, encoded)
        (gpu,) = feedd.status()["gpus"]
        assert gpu["images"].startswith(why), gpu
        assert f"for {gpu['uuid']}, decoded by loaders: {why}" in feedd.ctl("status").stdout


@harness.host_memory
def test_refused_images_are_decoded_all_the_same():
    encoded = pictures.some(40, seed=7, least=200, kinds=ALIKE)
    with serve(encoded, environment={devices.FAULTS: "refuse_image=3"}, linger=0) as feedd:
        check_training(feedd, encoded, 16, device=devices.SIMULATED)
        assert decoded(feedd) == [27, 13, 0]


@harness.host_memory
def test_an_engine_that_crashes_gets_the_batch_no_more():
    """Each transfer process dies with its fifth image, so hardly one batch is decoded by the engine alone."""
    encoded = pictures.some(40, seed=8, least=200, kinds=KINDS)
    with serve(encoded, environment={devices.FAULTS: "crash_image=25"}, loader_timeout=30) as feedd:
        with consumer.Consumer(feedd, "pictures", 10, seed=5, epochs=2, device=devices.SIMULATED) as reader:
            check(feedd, encoded, reader.finish(60), 10, epochs=2)
        assert any("transfer process" in line for line in feedd.status()["last_errors"])


@harness.host_memory
def test_an_engine_that_hangs_is_replaced():
    """Its thread does not come back, while the process's other one has nothing to wait for."""
    encoded = pictures.some(40, seed=15, least=200, kinds=ALIKE)
    with serve(encoded, environment={devices.FAULTS: "stall_image=25"}, loader_timeout=2) as feedd:
        with consumer.Consumer(feedd, "pictures", 10, seed=5, epochs=1, device=devices.SIMULATED) as reader:
            check(feedd, encoded, reader.finish(60), 10, epochs=1)
        assert any("has made no progress" in line for line in feedd.status()["last_errors"])


@harness.host_memory
@harness.limit(60)
def test_an_engine_that_begins_slowly_is_not_replaced():
    """It sets itself up with its first batch."""
    encoded = pictures.some(40, seed=15, least=200, kinds=ALIKE)
    with serve(encoded, environment={devices.FAULTS: "first_image_ms=4000"}, loader_timeout=2) as feedd:
        with consumer.Consumer(feedd, "pictures", 10, seed=5, epochs=1, device=devices.SIMULATED) as reader:
            check(feedd, encoded, reader.finish(60), 10, epochs=1)
        assert not feedd.status()["last_errors"], feedd.read_log()


@harness.host_memory
@harness.limit(60)
def test_an_engine_that_begins_slowly_for_a_client_that_leaves_at_once():
    """The process waits for the engine's first batch then, and for nothing else."""
    encoded = pictures.some(40, seed=15, least=200, kinds=ALIKE)
    with serve(encoded, environment={devices.FAULTS: "first_image_ms=4000"}, loader_timeout=2, linger=0) as feedd:
        with consumer.Consumer(feedd, "pictures", 10, seed=5, epochs=1, device=devices.SIMULATED, step=True) as reader:
            reader.attached()
            reader.kill()
        with consumer.Consumer(feedd, "pictures", 10, seed=5, epochs=1, device=devices.SIMULATED) as reader:
            check(feedd, encoded, reader.finish(60), 10, epochs=1)
        assert not feedd.status()["last_errors"], feedd.read_log()


@harness.host_memory
@harness.limit(60)
def test_an_engine_that_begins_slowly_holds_up_nobody_else():
    """Neither while it has the job of a client that has left, whose pool it keeps from ending."""
    slow = 6 # seconds
    with harness.Instance(loaders=2, ring="1M", device_pool="1K", device_linger=1, linger=0) as feedd:
        add(feedd, pictures.some(40, seed=15, least=200, kinds=ALIKE), STEPS)
        data.add_records(feedd, samples=400, size=64)
        feedd.start(environment={FAULTS: f"first_image_ms={slow * 1000}"})
        with consumer.Consumer(feedd, "numbers", 4, epochs=1, device=devices.SIMULATED, step=True) as numbers:
            numbers.attached()
            numbers.take(2)
            with consumer.Consumer(feedd, "pictures", 10, device=devices.SIMULATED, step=True) as reader:
                reader.attached()
                time.sleep(0.5) # its first job has begun
                reader.kill()
            began = time.monotonic()
            time.sleep(1) # the daemon has told the process that the pool is to be closed
            numbers.take(50)
            assert time.monotonic() - began < slow - 2, "the engine's first job held up another pool"
            assert devices.gpu(feedd, devices.SIMULATED_UUID)["pools"] == 2, "the pool has ended, so this shows nothing"
        harness.eventually(lambda: not feedd.statistics()["feeds"], 20, "both feeds are closed")
        assert not feedd.status()["last_errors"], feedd.read_log()


@harness.host_memory
def test_batches_larger_than_a_kernel_takes():
    """Loaders decode them. With the JPEGs in it, the batch would even be too large for a ring."""
    encoded = pictures.some(3, seed=17, least=200, kinds=KINDS)
    with serve(encoded, "decode gpu, resize 9 9", ring="64M") as feedd:
        wanted, got = (consumer.read(feedd, "pictures", 65536, device=device) for device in (CPU, devices.SIMULATED))
        assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in got]


def test_consumers_in_host_memory():
    """They join a feed that others on a GPU have made only if loaders decode for all; then those on GPUs get that, too."""
    encoded = pictures.some(20, seed=9, least=64)
    options = {"seed": 5, "share": "job", "step": True}
    with serve(encoded) as feedd:
        check_training(feedd, encoded, device=CPU)
        with consumer.Consumer(feedd, "pictures", 7, device=CPU, **options) as host:
            host.attached()
            with consumer.Consumer(feedd, "pictures", 7, device=GPU, **options) as other:
                other.attached()
        with consumer.Consumer(feedd, "pictures", 7, device=GPU, **{**options, "share": "gpus"}) as reader:
            reader.attached()
            consumer.refused(feedd, "EEXIST", "decode gpu", dataset="pictures", batch_size=7, seed=5, share="gpus", device=CPU)


# ---- Broken images, and deaths -----------------------------------------------------------------------------


def test_broken_images_are_left_out():
    encoded = pictures.some(30, seed=10, least=200, kinds=KINDS)
    broken = {3: encoded[3][: len(encoded[3]) // 2], 11: b"nothing", 12: encoded[12][:2], 29: b""}
    stored = [broken.get(i, data) for i, data in enumerate(encoded)]
    with serve(stored, "decode gpu, resize 72, center_crop 64", dataset={"on_error": "skip"}) as feedd:
        wanted, got = (consumer.read(feedd, "pictures", 7, device=device) for device in (CPU, GPU))
        assert [batch["crc"] for batch in wanted] == [batch["crc"] for batch in got]
        assert sum(batch["count"] for batch in got) == 30 - len(broken)


def kill_while_reading(name, encoded):
    """A real GPU takes a process a second to open, and half another one for its engine."""
    with serve(encoded, STEPS, loaders=3) as feedd:
        with consumer.Consumer(feedd, "pictures", 7, seed=5, epochs=12, sleep_us=harness.slowly(20000), device=GPU) as reader:
            pauses = (0.3, 1) if harness.on_real_gpu() else (0.05, 0.3)
            killed = kill_while(feedd, reader, name, *pauses)
            batches = reader.finish(60)
        check(feedd, encoded, batches, 7, epochs=12)
        assert killed > (0 if harness.on_real_gpu() else 2)


def test_transfer_process_is_killed():
    kill_while_reading("transfer", pictures.some(40, seed=11, least=200, kinds=KINDS))


def test_loaders_are_killed():
    kill_while_reading("loader", pictures.some(40, seed=12, least=64))


def test_slow_consumer_and_held_batches():
    """What is made of a slot stays as it is while the batch is held."""
    encoded = pictures.some(40, seed=13, least=200, kinds=KINDS)
    with serve(encoded) as feedd:
        options = {"seed": 5, "epochs": 3, "sleep_us": 30000, "hold": 2, "prefetch": 4}
        with consumer.Consumer(feedd, "pictures", 5, device=GPU, **options) as reader:
            check(feedd, encoded, reader.finish(60), 5, epochs=3)


# ---- What is refused ---------------------------------------------------------------------------------------


def test_steps_that_a_gpu_does_not_make():
    encoded = pictures.some(2, seed=14, least=64)
    for steps, words in (
        ("decode gpu, resize 9 9, brightness 0.4", ["decode gpu and brightness"]),
        ("decode gpu, resize 9 9 nearest", ["nearest"]),
        ("decode gpu fast, resize 9 9", ["fast"]),
        ("decode gpu, resize 9 9, standardise", ["decode gpu", "standardise"]),
        ("decode gpu, resize 9 9, cast i64", ["decode gpu", "4 bytes"]),
    ):
        with harness.Instance() as feedd:
            write(feedd.directory / "pictures", pictures.files(encoded))
            feedd.add_dataset("pictures", format="folder", path=feedd.directory / "pictures", **FIELDS, transform_image=steps)
            said = feedd.check()
            assert said.returncode != 0 and all(word in said.stderr for word in words), (steps, said.stderr)
