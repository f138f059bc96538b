"""shuffle_window: an epoch goes through the files of a dataset a few at a time, and is shuffled within them."""

import os
import random
import time

import consumer
import data
import devices
import expected
import harness
import test_ragged
import test_tar

FILES, SIZE = (70, 3, 200, 41, 1, 150, 90, 45), 24
SAMPLES = sum(FILES)
SHUFFLED = {"shuffle": True, "seed": 5}
TWO = expected.Shuffled(2, FILES)


def write_files(instance, sizes=FILES):
    first = 0
    for number, samples in enumerate(sizes):
        data.write_records(instance.directory / f"part{number}.bin", samples, SIZE, first)
        first += samples


def serve(shuffle_window=2, dataset=None, **settings):
    instance = harness.Instance(**settings)
    write_files(instance)
    instance.add_dataset(
        "numbers", format="records", path=instance.directory / "part*.bin", record_bytes=SIZE,
        field_x=f"u8[{SIZE}] @ 0", shuffle_window=shuffle_window, **(dataset or {}),
    )  # fmt: skip
    return instance


def content(first=0, samples=SAMPLES):
    return {"x": [data.sample_bytes(first + sample, SIZE) for sample in range(samples)]}


def check(feedd, name="numbers", right=None, batch_size=7, given=None, windows=TWO, **options):
    given = {**SHUFFLED, "epochs": 2, **options, **(given or {})}
    batches = consumer.read(feedd, name, batch_size, **given)
    right = right or content()
    expected.check_run(right, batches, batch_size, windows=windows, **{**SHUFFLED, "epochs": 2, **options})
    if given["epochs"] == 2:
        assert expected.check_exactly_once(len(right["x"]), batches) == 2


def change(feedd, **options):
    feedd.datasets["numbers"].update(options)
    feedd.write_config()
    return feedd.ctl("reload").stdout


def test_the_order_is_that_of_the_reference():
    with serve().start() as feedd:
        check(feedd)
        check(feedd, batch_size=1, epochs=1)
        check(feedd, shuffle=False, seed=0)
        for window in (1, 3, len(FILES), 131072):
            said = change(feedd, shuffle_window=window)
            assert "shuffle_window" in said, said
            check(feedd, windows=expected.Shuffled(window, FILES))
        change(feedd, shuffle_window=0)
        check(feedd, windows=None)


def test_with_verify():
    with serve().start() as feedd:
        feedd.add_view("part", "numbers", samples="80..400")
        feedd.write_config()
        feedd.ctl("reload")
        for name in ("numbers", "part"):
            said = feedd.ctl("read", name, "--batch-size", "16", "--shuffle", "--epochs", "2", "--verify").stdout
            assert "each in its place, none twice, all bytes equal to the files'" in said, said


def test_views():
    """A range has what it has of each group; other views have no groups."""
    with serve() as feedd:
        feedd.add_view("range", "numbers", samples="100..450")
        feedd.add_view("inner", "numbers", samples="80..90")
        feedd.add_view("wider", "numbers", samples="100..450", shuffle_window=4)
        feedd.add_view("whole", "numbers", shuffle_window=0)
        feedd.add_view("split", "numbers", samples="..50%", split_seed=3)
        feedd.start()
        check(feedd, "range", content(100, 350), windows=expected.Shuffled(2, FILES, 100, 350))
        check(feedd, "inner", content(80, 10), windows=expected.Shuffled(2, FILES, 80, 10))
        check(feedd, "wider", content(100, 350), windows=expected.Shuffled(4, FILES, 100, 350))
        check(feedd, "whole", windows=None)
        check(feedd, "split", expected.view(content(), 0, 300, 3), windows=None)


def test_views_that_clients_bring():
    with serve().start() as feedd:
        part = expected.Shuffled(2, FILES, 150, 300)
        check(feedd, right=content(150, 300), windows=part, given={"view": "range:250000:750000"})
        check(feedd, windows=TWO, given={"view": "range:0:1000000"})
        half = expected.view(content(), 0, 300, 3)
        check(feedd, right=half, windows=None, given={"view": "split:0:500000:3"})


def test_ranks_and_resume_with_another_world_size():
    with serve().start() as feedd:
        order = {"epochs": 2, **SHUFFLED}
        with consumer.Consumer(feedd, "numbers", 10, step=True, **order) as reader:
            reader.attached()
            together = reader.take(31)
            token = reader.token()
        assert token.startswith("feedd1.2."), token
        wanted = expected.run_batches(SAMPLES, 10, windows=TWO, **order)
        assert [batch["samples"] for batch in together] == [batch["samples"] for batch in wanted[:31]]
        feedd.stop()
        feedd.start()
        for rank in range(3):
            rest = consumer.read(feedd, "numbers", 10, rank=rank, world_size=3, local_world_size=1, resume=token, **order)
            wanted = expected.run_batches(SAMPLES, 10, rank=rank, world_size=3, consumed=310, windows=TWO, **order)
            assert [batch["samples"] for batch in rest] == [batch["samples"] for batch in wanted]
            together += rest
        expected.check_bytes(content(), together)
        assert expected.check_exactly_once(SAMPLES, together) == 2


def test_tokens_of_another_window():
    with serve().start() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **SHUFFLED) as reader:
            reader.attached()
            reader.take(3)
            token = reader.token()
            # The feed in use keeps its window, and so does a consumer that comes back.
            change(feedd, shuffle_window=3)
            reader.take(3)
        consumer.refused(feedd, "ESTALE", "other data, or to another shuffle_window", resume=token, **SHUFFLED)
        change(feedd, shuffle_window=0)
        consumer.refused(feedd, "ESTALE", "another shuffle_window", resume=token, **SHUFFLED)
        change(feedd, shuffle_window=2)
        consumer.refused(feedd, "ESTALE", "shuffled order, but shuffle is off", resume=token)
        consumer.read(feedd, "numbers", 10, resume=token, **SHUFFLED)


def test_loaders_are_killed():
    with serve(ring="64K", loaders=2).start() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, epochs=40, **SHUFFLED) as reader:
            for _ in range(6):
                if alive := feedd.children_called("loader"):
                    harness.kill(random.choice(alive))
                time.sleep(0.05)
            batches = reader.finish()
        expected.check_run(content(), batches, 10, epochs=40, windows=TWO, **SHUFFLED)


def test_the_daemon_is_killed():
    with serve().start() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, reconnect_timeout=15000, epochs=2, **SHUFFLED) as reader:
            reader.attached()
            batches = reader.take(20)
            feedd.kill()
            feedd.start()
            batches += reader.take(100)
        expected.check_run(content(), batches, 10, epochs=2, windows=TWO, **SHUFFLED)


def test_samples_that_differ_in_size():
    """The daemon follows the order, too: it sums up the sizes of each batch."""
    with harness.Instance() as feedd:
        shards = [test_tar.some(count, first) for count, first in ((40, 0), (1, 40), (60, 41), (25, 101))]
        right = test_ragged.add(feedd, shards, shuffle_window=2)
        feedd.start()
        batches = consumer.read(feedd, "wds", 7, epochs=3, **SHUFFLED)
        expected.check_run(right, batches, 7, epochs=3, windows=expected.Shuffled(2, (40, 1, 60, 25)), **SHUFFLED)


def test_packed_shards():
    with serve().start() as feedd:
        feedd.ctl("pack", "numbers", feedd.directory / "made", "--shard-size=4K")
        shards = list(feedd.directory.glob("made-*.feed"))
        feedd.add_dataset("packed", format="packed", path=feedd.directory / "made-*.feed", shuffle_window=2)
        feedd.write_config()
        feedd.ctl("reload")
        assert len(shards) > 2 and f"shuffled 2 groups at a time, of {len(shards)}\n" in feedd.check().stdout
        said = feedd.ctl("read", "packed", "--batch-size", "16", "--shuffle", "--epochs", "2", "--verify").stdout
        assert "each in its place, none twice, all bytes equal to the files'" in said, said


def test_on_a_gpu():
    """Consumers there get one descriptor more than others."""
    with serve().start() as feedd:
        for device in devices.GPU, devices.CPU:
            check(feedd, given={"device": device, "share": "job"})


def test_replaced_samples():
    """Another sample of the dataset takes the place, as without a window."""
    with serve(dataset={"on_error": "replace"}).start() as feedd:
        os.truncate(feedd.directory / "part2.bin", 150 * SIZE)
        bad = set(range(70 + 3 + 150, 70 + 3 + 200))
        batches = consumer.read(feedd, "numbers", 10, epochs=2, **SHUFFLED)
        count = expected.check_replaced(content(), bad, batches, 10, epochs=2, windows=TWO, **SHUFFLED)
        assert count == 100, count
