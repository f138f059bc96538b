"""on_error = replace: another sample, which the order names, stands in the place of one that cannot be read."""

import os
import struct

import consumer
import data
import expected
import mixes
import test_errors
import test_storage
import test_weights
from draw_reference import Draws

SAMPLES, SIZE = test_storage.SAMPLES, test_storage.SIZE
BAD = set(range(900, SAMPLES))


def serve(io="auto", left=900, views=(), **options):
    instance = test_storage.serve(io, "replace", **options)
    for name, settings in views:
        instance.add_view(name, "numbers", **settings)
    if views:
        instance.write_config()
        instance.ctl("reload")
    os.truncate(instance.path, left * SIZE)
    return instance


def read(feedd, dataset="numbers", batch_size=50, **options):
    with consumer.Consumer(feedd, dataset, batch_size, **{"epochs": 1, **options}) as reader:
        return reader.finish()


def counters(feedd, dataset="numbers"):
    (feed,) = [feed for feed in feedd.statistics()["feeds"] if feed["dataset"] == dataset]
    return feed["loader_counters"]


def test_batches_stay_whole():
    for io in test_storage.READERS:
        for options in ({"epochs": 2}, {"epochs": 3, "shuffle": True, "seed": 5}):
            with serve(io) as feedd:
                batches = read(feedd, **options)
                count = expected.check_replaced(feedd.content, BAD, batches, 50, **options)
                assert count == 100 * options["epochs"]
                found = counters(feedd)
                assert (found["replaced"], found["skipped"], found["samples"]) == (count, 0, 1000 * options["epochs"]), found
                assert test_errors.counted(feedd, "replaced", count)["skipped"] == 0


def test_several_attempts():
    """Half of the samples cannot be read, so most replacements take more than one."""
    bad = set(range(500, SAMPLES))
    with serve(left=500, settings={"loaders": 3}) as feedd:
        batches = read(feedd, batch_size=70, shuffle=True, seed=9)
        assert expected.check_replaced(feedd.content, bad, batches, 70, shuffle=True, seed=9) == 500
        found = test_errors.counted(feedd, "replaced", 501)
        assert found["fatal"] == 0 and all(row["sample"] in bad for row in found["samples"])


def test_the_feed_fails_when_nothing_can_be_read():
    with serve(left=0) as feedd:
        with consumer.Consumer(feedd, "numbers", 10) as reader:
            reader.fail("EIO", "dataset numbers: sample ", "it has shrunk", "tried before it (on_error)")
        assert test_errors.counted(feedd, "fatal", 1)["replaced"] >= 16
        assert read(feedd, "others", 10)


def test_transforms():
    with serve("pread", transform_x="cast f32, scale 2") as feedd:
        batches = read(feedd, shuffle=True, seed=1)
        floats = [struct.pack(f"<{SIZE}f", *(2.0 * byte for byte in record)) for record in feedd.content["x"]]
        assert expected.check_replaced({"x": floats}, BAD, batches, 50, shuffle=True, seed=1) == 100


def test_ranks_and_resuming():
    """The same replacements, whoever reads them and from where."""
    options = {"shuffle": True, "seed": 3}
    with serve() as feedd:
        ranks = [consumer.Consumer(feedd, "numbers", 20, world_size=3, rank=rank, share="one", wait_for=3, epochs=1, **options)
                 for rank in range(3)]  # fmt: skip
        for rank, reader in enumerate(ranks):
            expected.check_replaced(feedd.content, BAD, reader.finish(), 20, world_size=3, rank=rank, **options)
        with consumer.Consumer(feedd, "numbers", 20, step=True, **options) as reader:
            reader.attached()
            reader.take(11)
            token = reader.token()
        rest = read(feedd, batch_size=20, resume=token, **options)
        whole = read(feedd, batch_size=20, **options)
        assert [batch["crc"] for batch in rest] == [batch["crc"] for batch in whole[11:]]


def test_loaders_that_are_killed():
    options = {"shuffle": True, "seed": 8, "epochs": 3}
    with serve("uring", settings={"loaders": 3}, io_delay_us=200) as feedd:
        with consumer.Consumer(feedd, "numbers", 50, step=True, **options) as reader:
            reader.attached()
            batches = []
            for number in range(60):
                if number % 7 == 3:
                    for pid in feedd.children_called("loader")[:2]:
                        harness.kill(pid)
                batches += reader.take(1)
            reader.next_ends()
        assert expected.check_replaced(feedd.content, BAD, batches, 50, **options) == 300


def test_views_replace_from_themselves():
    views = [("part", {"samples": "85%..95%"}), ("split", {"samples": "..30%", "split_seed": 4})]
    with serve(views=views) as feedd:
        batches = read(feedd, "part", 30, shuffle=True, seed=2)
        options = {"samples": 100, "number": lambda sample: 850 + sample, "shuffle": True, "seed": 2}
        assert expected.check_replaced(feedd.content, BAD, batches, 30, **options) == 50
        chosen = expected.selected(SAMPLES, 0, 300, 4)
        batches = read(feedd, "split", 30)
        found = expected.check_replaced(feedd.content, BAD, batches, 30, samples=300, number=lambda sample: chosen[sample])
        assert found == len(BAD & set(chosen)) > 0


def test_draws_are_replaced_by_draws():
    weights = [((number * 7919) % 101) / 8 for number in range(SAMPLES)]
    with test_storage.serve("auto", "replace") as feedd:
        path = feedd.directory / "weights.npy"
        data.write_npy(path, "<f8", (SAMPLES,), struct.pack(f"<{SAMPLES}d", *weights))
        feedd.add_view("drawn", "numbers", weights=path)
        feedd.write_config()
        feedd.ctl("reload")
        os.truncate(feedd.path, 900 * SIZE)
        draws, seed = Draws(weights), 6
        batches = read(feedd, "drawn", 50, seed=seed)
        count = 0
        for batch in batches:
            number = lambda position: draws.sample(seed, 0, position)  # noqa: E731
            stands = [expected.replaced(SAMPLES, BAD, batch, i, seed, number) for i in range(batch["count"])]
            count += sum(number(position) in BAD for position in batch["samples"])
            assert batch["crc"] == expected.crc(feedd.content, stands), batch
        assert count > 0


def test_a_mix_replaces_from_the_same_source():
    """As the source does by itself, whatever the others are: a dataset, a view of it and draws from it."""
    with mixes.serve() as feedd:
        weights = test_weights.some(count=400)
        test_weights.write_weights(feedd.directory / "weights.npy", weights)
        feedd.add_view("drawn", "second", weights="weights.npy", epoch_samples=90)
        feedd.add_mix("both", {"first": 1, "part": 2, "drawn": 1}, mixes.EPOCH, on_error="replace")
        first, part, _ = feedd.mixed.sources
        whole = {"x": expected.read_records([feedd.directory / "second.bin"], mixes.SIZE, {"x": (0, mixes.SIZE)}, 5)["x"]}
        drawn = expected.Source(whole, weights, 90)
        feedd.mixed = expected.Mixed([first, part, drawn], (1, 2, 1), mixes.EPOCH)
        feedd.start()
        for name, left, header in (("first", 170, 0), ("second", 300, 5)):
            os.truncate(feedd.directory / f"{name}.bin", header + left * mixes.SIZE)
        chosen = expected.selected(400, 40, 320, 8)
        bad = [range(170, 210), {place for place, sample in enumerate(chosen) if sample >= 300}, range(300, 400)]
        for options in ({"seed": 3, "shuffle": True}, {"seed": 4}):
            batches = read(feedd, "both", 50, epochs=2, **options)
            expected.check_places(mixes.EPOCH, batches, 50, epochs=2)
            count = feedd.mixed.check(batches, options.get("shuffle"), options["seed"], bad)
            assert count > 150, count
            shuffle = ["--shuffle"] * options.get("shuffle", False)
            done = feedd.ctl("read", "both", "--batch-size=50", "--epochs=2", "--verify", f"--seed={options['seed']}", *shuffle)
            assert f"{count} samples were replaced by others" in done.stdout, done.stdout
        found = test_errors.counted(feedd, "replaced", 1, "both")
        assert found["skipped"] == found["fatal"] == 0 and found["samples"], found


def test_feedctl_verifies_it():
    for options in ((), ("--shuffle", "--seed=5")):
        with serve() as feedd:
            done = feedd.ctl("read", "numbers", "--batch-size=64", "--epochs=2", "--verify", *options)
            assert "200 samples were replaced by others" in done.stdout, done.stdout
