"""`decode gpu` where something goes wrong: images that cannot be decoded in the transfer process, GPUs with and without an
engine, engines that are asked for late, and whatever can die, at random. All with simulated GPUs."""

import errno
import os
import random
import signal
import time

import consumer
import devices
import harness
import pictures
from devices import CPU, OTHER, SIMULATED
from test_gpu_images import ALIKE, KINDS, STEPS, check, serve
from test_images import add

NO_MEMORY = 199  # pixels wide, as failing_decoder.c has it


def failing_decoder():
    """What the environment must have."""
    if harness.sanitized():
        harness.skip("a library cannot be preloaded before the address sanitizer")
    return {"LD_PRELOAD": str(harness.PROGRAMS / "tests/failing_decoder.so")}


# ---- Images that cannot be decoded -------------------------------------------------------------------------


def some_with_one_too_many(count, which):
    """The transfer process finds no memory for one of them."""
    encoded = [pictures.encode(pictures.picture(i, 240, 220), "jpg") for i in range(count)]
    encoded[which] = pictures.encode(pictures.picture(which, NO_MEMORY, 220), "jpg")
    return encoded


@harness.host_memory
def test_an_image_without_memory_fails_its_feed_alone():
    """The transfer process lives on, and so does another feed there."""
    environment = failing_decoder()
    encoded = some_with_one_too_many(40, 33)
    instance = harness.Instance(loaders=2, ring="1M", linger=30)
    add(instance, encoded[:30], STEPS, name="others")
    add(instance, encoded, "decode gpu, resize 72, center_crop 64")
    with instance.start(environment=environment) as feedd:
        options = {"seed": 5, "device": SIMULATED}
        with consumer.Consumer(feedd, "others", 5, epochs=4, sleep_us=50000, **options) as other:
            other.attached()
            pids = devices.transfers(feedd)
            with consumer.Consumer(feedd, "pictures", 5, **options) as reader:
                reader.fail("EIO", "cannot be decoded for the GPU", "Insufficient memory")
                assert all(33 not in batch["samples"] for batch in reader.batches)
            other.finish()
        assert devices.transfers(feedd) == pids
        assert any("Insufficient memory" in line for line in feedd.status()["last_errors"])


@harness.host_memory
def test_an_image_without_memory_is_black_where_errors_are_tolerated():
    environment = failing_decoder()
    encoded = some_with_one_too_many(20, 13)
    with serve(encoded, "decode gpu, resize 72, center_crop 64", environment=environment, linger=30,
               dataset={"on_error": "skip"}) as feedd:  # fmt: skip
        wanted, got = (consumer.read(feedd, "pictures", 1, device=device) for device in (CPU, SIMULATED))
        differ = [i for i in range(20) if wanted[i]["crc"] != got[i]["crc"]]
        assert differ == [13] and got[13]["crc"]["image"] == pictures.crc([bytes(64 * 64 * 3)]), got[13]
        harness.eventually(lambda: sum(feed["feed_counters"]["refused_images"] for feed in feedd.statistics()["feeds"]) == 1)


# ---- GPUs with an engine and without -----------------------------------------------------------------------


@harness.host_memory
def test_a_shared_feed_that_loaders_decode_survives_a_restart():
    """The consumer whose GPU has no engine came first, so loaders decode for both. After a restart, it returns last."""
    encoded = pictures.some(40, seed=31, least=200, kinds=KINDS)
    options = {"seed": 5, "epochs": 4, "share": "job", "wait_for": 2, "prefetch": 1, "reconnect_timeout": 20000}
    faults = {devices.FAULTS: "no_engine_on=1"}
    with serve(encoded, environment=faults, simulated_gpus=2) as feedd:
        with consumer.Consumer(feedd, "pictures", 7, device=OTHER, sleep_us=harness.slowly(80000), **options) as without:
            without.attached()
            with consumer.Consumer(feedd, "pictures", 7, device=SIMULATED, sleep_us=harness.slowly(80000), **options) as having:
                having.attached()
                for _ in range(3):
                    time.sleep(0.3)
                    os.kill(without.pid, signal.SIGSTOP)
                    feedd.process.kill()
                    feedd.process.wait()
                    feedd.start(environment=faults)
                    harness.eventually(lambda: len(devices.clients(feedd)) == 1)
                    (feed,) = feedd.status()["feed_images"]
                    assert feed["images"] == "they did so before the daemon was restarted", feed
                    os.kill(without.pid, signal.SIGCONT)
                    harness.eventually(lambda: len(devices.clients(feedd)) == 2)
                check(feedd, encoded, having.finish(60), 7, epochs=4)
            check(feedd, encoded, without.finish(60), 7, epochs=4)


def restart_beneath(feedd, reader, environment=None):
    """The reader does not notice before SIGCONT that the daemon is another one."""
    os.kill(reader.pid, signal.SIGSTOP)
    feedd.process.kill()
    feedd.process.wait()
    feedd.start(environment=environment)


@harness.host_memory
def test_a_consumer_returns_to_a_feed_that_an_engine_decodes_by_now():
    """Loaders decoded for it before the restart. Then a newcomer comes first, and both are on a GPU with an engine."""
    encoded = pictures.some(40, seed=34, least=200, kinds=ALIKE)
    options = {"seed": 5, "epochs": 4, "share": "job", "prefetch": 1, "reconnect_timeout": 20000, "device": SIMULATED,
               "sleep_us": harness.slowly(80000)}  # fmt: skip
    with serve(encoded, environment={devices.FAULTS: "no_engine"}, device_linger=30) as feedd:
        with consumer.Consumer(feedd, "pictures", 7, **options) as returning:
            returning.attached()
            first = returning.expect("batch")
            restart_beneath(feedd, returning)
            with consumer.Consumer(feedd, "pictures", 7, **options) as newcomer:
                newcomer.attached()
                os.kill(returning.pid, signal.SIGCONT)
                harness.eventually(lambda: len(devices.clients(feedd)) == 2 or returning.process.poll() is not None)
                assert [feed["images"] for feed in feedd.status()["feed_images"]] == ["engine"]
                check(feedd, encoded, [first, *returning.finish(60)], 7, epochs=4)
                check(feedd, encoded, newcomer.finish(60), 7, epochs=4)


@harness.host_memory
def test_a_consumer_without_an_engine_does_not_return_to_a_feed_that_one_decodes():
    encoded = pictures.some(40, seed=35, least=200, kinds=ALIKE)
    options = {"seed": 5, "epochs": 4, "share": "job", "prefetch": 1, "reconnect_timeout": 20000,
               "sleep_us": harness.slowly(80000)}  # fmt: skip
    faults = {devices.FAULTS: "no_engine_on=1"}
    with serve(encoded, environment=faults, simulated_gpus=2, device_linger=30) as feedd:
        with consumer.Consumer(feedd, "pictures", 7, device=OTHER, **options) as returning:
            returning.attached()
            returning.expect("batch")
            restart_beneath(feedd, returning, faults)
            with consumer.Consumer(feedd, "pictures", 7, device=SIMULATED, **options) as newcomer:
                newcomer.attached()
                os.kill(returning.pid, signal.SIGCONT)
                returning.fail("EEXIST", "a GPU decodes the images of feed", "use another name")


@harness.host_memory
def test_what_a_client_accepts_is_not_what_it_asks_for():
    """It gets decoded images only where others already do, and only on a GPU."""
    encoded = pictures.some(12, seed=36, least=200, kinds=ALIKE)
    accepts = {"seed": 5, "accepts_images": True}
    with serve(encoded, device_linger=30) as feedd:
        for share in ("", "job", "another"):
            with feedd.client() as client:
                assert not client.attach("pictures", 7, device=devices.SIMULATED_UUID, share=share, **accepts)["images"]
        with consumer.Consumer(feedd, "pictures", 7, device=SIMULATED, seed=5, share="job", step=True) as reader:
            reader.attached()
            for share, found in (("", 0), ("another", 0), ("job", 1)):
                with feedd.client() as client:
                    attached = client.attach("pictures", 7, device=devices.SIMULATED_UUID, share=share, **accepts)
                    assert len(attached["images"]) == found, (share, attached)
            with feedd.client() as client:
                client.hello()
                client.send("attach", dataset="pictures", batch_size=7, share="job", **accepts)
                assert client.expect("error")["code"] == errno.EEXIST


# ---- An engine that is asked for late ----------------------------------------------------------------------


@harness.host_memory
def test_an_engine_is_there_for_a_dataset_that_came_later():
    """A transfer process that nobody uses is replaced by one with an engine; one that is in use says why it has none."""
    encoded = pictures.some(20, seed=32, least=200, kinds=ALIKE)
    instance = harness.Instance(loaders=2, ring="1M", device_linger=60, linger=0)
    add(instance, encoded, "resize 72, center_crop 64", name="plain")
    with instance.start() as feedd:
        options = {"seed": 5, "device": SIMULATED}
        consumer.read(feedd, "plain", 7, **options)
        add(feedd, encoded, STEPS)
        feedd.write_config()
        assert feedd.ctl("reload").returncode == 0
        with consumer.Consumer(feedd, "plain", 7, step=True, **options) as other:
            other.attached()
            (first,) = devices.transfers(feedd)
            check(feedd, encoded, consumer.read(feedd, "pictures", 7, **options), 7)
            (gpu,) = feedd.status()["gpus"]
            assert "before" in gpu["images"] and "decode gpu" in gpu["images"], gpu
            assert devices.transfers(feedd) == [first]
        harness.eventually(lambda: feedd.status()["gpus"][0]["pools"] == 0)
        check(feedd, encoded, consumer.read(feedd, "pictures", 7, **options), 7)
        assert [gpu["images"] for gpu in feedd.status()["gpus"]] == ["engine"]
        assert first not in devices.transfers(feedd)


# ---- Whatever can die --------------------------------------------------------------------------------------


def kill_something(feedd, transfers, reader, chance):
    """A loader, the transfer process, or the consumer itself."""
    what = chance.choice(("loader", "transfer", "consumer"))
    if what == "consumer":
        reader.kill()
    elif what == "transfer":
        transfers.kill()
    elif alive := feedd.children_called(what):
        harness.kill(chance.choice(alive))
    return what


@harness.limit(180)
@harness.host_memory
def test_twenty_rounds_of_deaths_in_mid_work():
    """The engine refuses some images. A consumer that has died begins again; what it gets is what loaders make, bit for bit."""
    encoded = pictures.some(60, seed=33, least=64)
    chance, killed = random.Random(33), {"loader": 0, "transfer": 0, "consumer": 0}
    with serve(encoded, environment={devices.FAULTS: "refuse_image=7,copy_us=300"}, loaders=3) as feedd:
        wanted = [batch["crc"] for batch in consumer.read(feedd, "pictures", 7, seed=5, epochs=2, shuffle=True, device=CPU)]
        options = {"seed": 5, "epochs": 2, "shuffle": True, "device": SIMULATED, "sleep_us": harness.slowly(15000)}
        transfers = devices.Kills(feedd)
        for _ in range(20):
            with consumer.Consumer(feedd, "pictures", 7, **options) as reader:
                reader.attached()
                died = False
                while not died and reader.process.poll() is None:
                    time.sleep(chance.uniform(0.01, 0.2))
                    what = kill_something(feedd, transfers, reader, chance)
                    killed[what] += 1
                    died = what == "consumer"
                events = reader.events(60)
                got = [event["crc"] for event in events if event["event"] == "batch"]
                assert got == wanted[: len(got)]
                assert died or (events[-1]["event"] == "end" and got == wanted), events[-1]
        assert min(killed.values()) >= 5, killed
