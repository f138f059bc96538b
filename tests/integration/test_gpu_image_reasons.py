"""`decode gpu`: for each feed, feedd says whether an engine or loaders decode, and why. All with simulated GPUs."""

import json
import time

import consumer
import devices
import harness
import pictures
from devices import CPU, SIMULATED
from test_gpu_images import ALIKE, STEPS, serve
from test_images import TRAINING, add

STEADY = {"loaders": 2, "ring": "1M", "linger": 30, "device_linger": 30}


def decoders(feedd):
    """Of each feed, by its dataset, as feedctl feeds has it; feedctl status has the same."""
    feeds = json.loads(feedd.ctl("feeds", "--json").stdout)
    named = {feed["dataset"]: feed["images"] for feed in feeds}
    assert len(named) == len(feeds)
    listed = feedd.status()["feed_images"]
    assert {row["dataset"]: row["images"] for row in listed} == {name: by for name, by in named.items() if by}
    assert {row["feed"] for row in listed} == {feed["id"] for feed in feeds if feed["images"]}
    return named


def decoders_of(feedd):
    """Of each feed."""
    return [feed["images"] for feed in json.loads(feedd.ctl("feeds", "--json").stdout)]


def logged(feedd, name):
    lines = feedd.read_log().splitlines()
    return [line for line in lines if f"loaders decode the images of dataset {name}, in spite of decode gpu: " in line]


def says(feedd, why, name="pictures"):
    """In every place, once in the log, and no engine has decoded any."""
    assert decoders(feedd)[name] == why
    line = f"({name}): decoded by loaders: {why}\n"
    for command in ("status", "feeds"):
        assert line in feedd.ctl(command).stdout, (command, feedd.ctl(command).stdout)
    (said,) = logged(feedd, name)
    assert said.endswith(f": {why}"), said
    assert all(feed["loader_counters"]["gpu_images"] == 0 for feed in feedd.statistics()["feeds"])


@harness.host_memory
def test_an_engine_decodes():
    encoded = pictures.some(12, seed=41, least=200, kinds=ALIKE)
    instance = harness.Instance(**STEADY)
    add(instance, encoded, STEPS)
    add(instance, encoded, "resize 72, center_crop 64", name="plain")
    with instance.start() as feedd:
        for name in ("pictures", "plain"):
            consumer.read(feedd, name, 7, device=SIMULATED)
        assert decoders(feedd) == {"pictures": "engine", "plain": None}
        assert "(pictures): decoded by the GPU's engine\n" in feedd.ctl("feeds").stdout
        assert "by loaders" not in feedd.ctl("status").stdout + feedd.ctl("feeds").stdout
        assert not logged(feedd, "pictures") + logged(feedd, "plain")
        assert "in spite of" not in feedd.check().stdout


@harness.host_memory
def test_datasets_whose_images_no_engine_decodes():
    """--check says so, too. Another dataset has the engine of the same GPU."""
    encoded = pictures.some(12, seed=42, least=200, kinds=ALIKE)
    whys = {
        "cached": "the cache of cached keeps what loaders decode",
        "named": "field name is ragged",
        "mix-cached": "the cache of cached keeps what loaders decode",
        "mix-plain": "source plain lacks decode gpu, unlike source pictures",
        "plain-mix": "source pictures has decode gpu, unlike source plain",
        "mix-scaled": "sources pictures and scaled have different steps on values",
    }
    instance = harness.Instance(**STEADY)
    add(instance, encoded, STEPS)
    add(instance, encoded, STEPS, name="cached", cache="16M")
    add(instance, encoded, STEPS, name="named", field_name="bytes @ name")
    add(instance, encoded, TRAINING, name="plain")
    add(instance, encoded, "decode gpu, random_resized_crop 48, scale 1/127.5, shift -1, layout chw, cast f16", name="scaled")
    for name in ("cached", "plain", "scaled"):
        instance.add_mix(f"mix-{name}", {"pictures": 1, name: 1}, 24)
    instance.add_mix("plain-mix", {"plain": 1, "pictures": 1}, 24)
    with instance.start() as feedd:
        checked = feedd.check().stdout
        assert checked.count("in spite of decode gpu") == len(whys), checked
        for name, why in whys.items():
            consumer.read(feedd, name, 7, seed=3, device=SIMULATED)
            says(feedd, why, name)
            assert f"\n    loaders decode all images, in spite of decode gpu: {why}\n" in checked, checked
        consumer.read(feedd, "pictures", 7, device=SIMULATED)
        assert decoders(feedd) == {**whys, "pictures": "engine"}


@harness.host_memory
def test_a_source_by_itself():
    """Of the sources of a mix, one has decode gpu: read by itself, an engine decodes its images."""
    encoded = pictures.some(12, seed=43, least=200, kinds=ALIKE)
    instance = harness.Instance(**STEADY)
    add(instance, encoded, "resize 64 64")
    instance.add_view("half", "pictures", samples="0%..50%", transform_image="decode gpu, resize 64 64")
    instance.add_mix("mixed", {"half": 1, "pictures": 1}, 24)
    with instance.start() as feedd:
        assert feedd.check().stdout.count("in spite of decode gpu: source pictures lacks decode gpu") == 1
        for name in ("half", "pictures"):
            consumer.read(feedd, name, 3, device=SIMULATED)
        assert decoders(feedd) == {"half": "engine", "pictures": None}


@harness.host_memory
def test_consumers_for_which_loaders_decode():
    encoded = pictures.some(8, seed=44, least=200, kinds=ALIKE)
    for batch_size, device, faults, why in (
        (7, CPU, None, "the first consumer is in host memory"),
        (7, SIMULATED, "no_engine", "this simulated GPU has no engine"),
        (65536, SIMULATED, None, "batches have more than 65535 samples"),
    ):
        environment = {devices.FAULTS: faults} if faults else None
        steps = STEPS if batch_size < 100 else "decode gpu, resize 9 9"
        with serve(encoded, steps, environment=environment, **{**STEADY, "ring": "64M"}) as feedd:
            consumer.read(feedd, "pictures", batch_size, device=device)
            says(feedd, why)


@harness.host_memory
def test_an_engine_that_cannot_be_opened_at_first():
    """The GPU's process is replaced, but not while a feed uses the GPU, nor at once."""
    encoded = pictures.some(12, seed=48, least=200, kinds=ALIKE)
    why = (
        "the engine could not be opened, and is tried again when no feed uses the GPU:"
        " this simulated GPU has no memory for its engine yet"
    )
    until_ms = int((time.monotonic() + 4 * harness.SLOWNESS) * 1000)
    with serve(encoded, environment={devices.FAULTS: f"engine_at_ms={until_ms}"}, **{**STEADY, "linger": 0}) as feedd:
        with consumer.Consumer(feedd, "pictures", 7, step=True, device=SIMULATED) as first:
            first.attached()
            says(feedd, why)
            (process,) = devices.transfers(feedd)
            time.sleep(max(until_ms / 1000 - time.monotonic(), 0))
            consumer.read(feedd, "pictures", 5, device=SIMULATED)
            assert set(decoders_of(feedd)) == {why} and devices.transfers(feedd) == [process]

        def by_the_engine():
            with consumer.Consumer(feedd, "pictures", 7, step=True, device=SIMULATED) as again:
                again.attached()
                return decoders_of(feedd) == ["engine"]

        harness.eventually(by_the_engine, 15, "the engine is tried again")
        assert devices.transfers(feedd) != [process]


@harness.host_memory
def test_a_libfeed_without_the_kernel():
    encoded = pictures.some(8, seed=45, least=200, kinds=ALIKE)
    with serve(encoded, **STEADY) as feedd, feedd.client() as client:
        client.attach("pictures", 4, device=devices.SIMULATED_UUID)
        says(feedd, "the libfeed of the first consumer was built without nvcc")


@harness.host_memory
def test_a_feed_says_what_holds_for_those_that_use_it():
    """It keeps the reason of its first consumer while it is used; one that finds it idle brings another."""
    encoded = pictures.some(12, seed=46, least=200, kinds=ALIKE)
    options = {"share": "job", "step": True, "seed": 5}
    host, none = "the first consumer is in host memory", "this simulated GPU has no engine"
    with serve(encoded, environment={devices.FAULTS: "no_engine"}, **STEADY) as feedd:
        for device, why in ((CPU, host), (SIMULATED, none)):
            with consumer.Consumer(feedd, "pictures", 4, device=device, **options) as first:
                first.attached()
                with consumer.Consumer(feedd, "pictures", 4, device=SIMULATED if device == CPU else CPU, **options) as second:
                    second.attached()
                    assert decoders(feedd) == {"pictures": why}
        assert [line.rsplit(": ", 1)[1] for line in logged(feedd, "pictures")] == [host, none]


@harness.host_memory
def test_feeds_of_a_process_that_came_before_its_dataset():
    encoded = pictures.some(12, seed=47, least=200, kinds=ALIKE)
    instance = harness.Instance(**STEADY)
    add(instance, encoded, "resize 72, center_crop 64", name="plain")
    with instance.start() as feedd:
        with consumer.Consumer(feedd, "plain", 7, step=True, device=SIMULATED) as other:
            other.attached()
            add(feedd, encoded, STEPS)
            feedd.write_config()
            assert feedd.ctl("reload").returncode == 0
            consumer.read(feedd, "pictures", 7, device=SIMULATED)
            assert "was started before there was a dataset with decode gpu" in decoders(feedd)["pictures"]
