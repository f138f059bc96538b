"""Mixes: samples of several datasets and views by weight."""

import json
import random
import struct

import consumer
import data
import expected
import harness
import mixes
import test_tar
import test_weights


# ---- What is delivered -------------------------------------------------------------------------------------


def test_each_source_keeps_its_own_epochs():
    with mixes.serve().start() as feedd:
        mixes.check(feedd, epochs=3, seed=7)
        mixes.check(feedd, epochs=3, shuffle=False)
        mixes.check(feedd, epochs=2, batch_size=150, drop_last=True)
        shares = {"first": 0, "part": 0, "few": 0}
        for position in range(mixes.EPOCH):
            shares[feedd.names[feedd.mixed.at(0, position)[0]]] += 1
        assert shares == {"first": 250, "part": 167, "few": 83}, shares  # 3 : 2 : 1 of 500, within one sample
        said = feedd.check().stdout
        assert "both: mix of 3 sources, epochs of 500 samples of 24 bytes" in said, said
        assert "weight 3: first, 210 samples" in said and "weight 1: few, 7 samples" in said, said


def test_every_reader():
    for io in ("uring", "mapped", "pread", "auto"):
        with mixes.serve() as feedd:
            feedd.mixes["both"]["io"] = io
            feedd.start()
            mixes.check(feedd, epochs=2, seed=1)
            mixes.check(feedd, epochs=1, shuffle=False, batch_size=64)
            if io != "auto":
                assert json.loads(feedd.ctl("datasets", "--json").stdout)[-1]["io"] == io


def test_weights_that_are_no_whole_numbers():
    with mixes.serve() as feedd:
        feedd.add_mix("both", {"first": "0.25", "part": ".5", "few": "75e-2"}, mixes.EPOCH)
        feedd.mixed = expected.Mixed(feedd.mixed.sources, (1, 2, 3), mixes.EPOCH)
        feedd.start()
        mixes.check(feedd, epochs=2)
        shown = json.loads(feedd.ctl("datasets", "--json").stdout)[-1]
        sources = [(source["name"], source["weight"], source["samples"]) for source in shown["sources"]]
        assert (shown["name"], shown["format"]) == ("both", "mix"), shown
        assert sources == [("first", 1, 210), ("part", 2, 320), ("few", 3, 7)], shown
        assert "mix of 3" in feedd.ctl("datasets").stdout


def test_one_source_and_a_source_of_one_sample():
    with mixes.serve() as feedd:
        one = mixes.add_source(feedd, "one", 1, 3)
        feedd.add_mix("alone", {"first": 5}, 300)
        feedd.add_mix("repeated", {"one": 1, "first": 1}, 10)
        feedd.start()
        first = feedd.mixed.sources[0]
        mixes.check(feedd, name="alone", mixed=expected.Mixed([first], [1], 300), epochs=3)
        repeated = expected.Mixed([expected.Source(one), first], [1, 1], 10)
        mixes.check(feedd, name="repeated", mixed=repeated, epochs=30, batch_size=4)


def test_draws_by_weight_as_a_source():
    with mixes.serve() as feedd:
        weights = test_weights.some(count=400)
        test_weights.write_weights(feedd.directory / "weights.npy", weights)
        feedd.add_view("drawn", "second", weights="weights.npy", epoch_samples=90)
        feedd.add_mix("both", {"drawn": 2, "first": 1}, mixes.EPOCH)
        second = {"x": expected.read_records([feedd.directory / "second.bin"], mixes.SIZE, {"x": (0, mixes.SIZE)}, 5)["x"]}
        sources = [expected.Source(second, weights, 90), feedd.mixed.sources[0]]
        feedd.mixed = expected.Mixed(sources, (2, 1), mixes.EPOCH)
        feedd.start()
        mixes.check(feedd, epochs=2, seed=3)
        for shuffle in (True, False):  # draws are in random order anyway, and depend on the seed
            batches = consumer.read(feedd, "both", 50, shuffle=shuffle, seed=4)
            feedd.mixed.check(batches, shuffle, 4)
        token = mixes.resume_after(feedd, 3, seed=4, shuffle=False)
        consumer.refused(feedd, "ESTALE", "seed 4, not 5", dataset="both", resume=token, seed=5)


def test_sources_of_different_formats():
    """A tar, idx files and NumPy arrays, whose fields are the same after padding and transforms."""
    room = 40
    with harness.Instance() as feedd:
        shards = [test_tar.some(60, 0, most=60), test_tar.some(50, 60, most=60)]
        tar = test_tar.add_shards(feedd, shards, pad_jpg=f"{room} 9", transform_cls="cast f32")
        dice = random.Random(1)
        images = [dice.randbytes(room) for _ in range(130)]
        labels = [number - 50 for number in range(130)]
        data.write_idx(feedd.directory / "x.idx", (130, room), b"".join(images))
        data.write_idx(feedd.directory / "y.idx", (130,), struct.pack("130b", *labels), 0x09)
        feedd.add_dataset("idx", format="idx", field_jpg=feedd.directory / "x.idx", field_cls=feedd.directory / "y.idx",
                          transform_cls="cast f32")  # fmt: skip
        data.write_npy(feedd.directory / "x.npy", "|u1", (77, room), b"".join(images[:77]))
        data.write_npy(feedd.directory / "y.npy", "<f4", (77,), struct.pack("<77f", *labels[:77]))
        feedd.add_dataset("npy", format="npy", field_jpg=feedd.directory / "x.npy", field_cls=feedd.directory / "y.npy")
        feedd.add_mix("both", {"wds": 1, "idx": 1, "npy": 2}, mixes.EPOCH)
        # The tar stores i32, idx i8, npy the f32 themselves.
        contents = [
            {"jpg": [test_tar.padded(members["jpg"], room, 9) for shard in shards for _, members in shard],
             "cls": [struct.pack("<f", struct.unpack("<i", cls)[0]) for cls in tar["cls"]]},
            {"jpg": images, "cls": [struct.pack("<f", label) for label in labels]},
            {"jpg": images[:77], "cls": [struct.pack("<f", label) for label in labels[:77]]},
        ]  # fmt: skip
        feedd.mixed = expected.Mixed([expected.Source(content) for content in contents], (1, 1, 2), mixes.EPOCH)
        feedd.start()
        mixes.check(feedd, epochs=2, seed=2)
        mixes.check(feedd, epochs=1, shuffle=False, batch_size=100)


def test_transforms_that_differ():
    """One source is expanded by a transform, one shrinks, and one is delivered as it is stored."""
    with harness.Instance() as feedd:
        dice = random.Random(5)
        bytes_, floats, doubles = [], [], []
        for _ in range(90):
            values = [dice.randrange(256) for _ in range(10)]
            bytes_.append(bytes(values))
            floats.append(struct.pack("<10f", *values))
            doubles.append(struct.pack("<10d", *values))
        for name, descr, content in (("u8", "|u1", bytes_), ("f32", "<f4", floats), ("f64", "<f8", doubles)):
            data.write_npy(feedd.directory / f"{name}.npy", descr, (90, 10), b"".join(content))
            cast = {} if name == "f32" else {"transform_x": "cast f32"}
            feedd.add_dataset(name, format="npy", field_x=feedd.directory / f"{name}.npy", **cast)
        feedd.add_mix("both", {"u8": 3, "f32": 2, "f64": 2}, mixes.EPOCH)
        source = expected.Source({"x": floats})
        feedd.mixed = expected.Mixed([source] * 3, (3, 2, 2), mixes.EPOCH)
        feedd.start()
        for shuffle in (True, False):
            for batch_size in (1, 33, 250):
                mixes.check(feedd, epochs=2, shuffle=shuffle, batch_size=batch_size, seed=6)


def test_delivery_to_a_gpu():
    with mixes.serve().start() as feedd:
        batches = consumer.read(feedd, "both", 7, epochs=2, seed=5, shuffle=True, device="host:0")
        expected.check_places(mixes.EPOCH, batches, 7, epochs=2)
        feedd.mixed.check(batches, True, 5)
        token = mixes.resume_after(feedd, 7, device="host:0")
        feedd.mixed.check(consumer.read(feedd, "both", 10, resume=token, epochs=1))


def test_a_hundred_sources():
    with harness.Instance() as feedd:
        weights = [1 + number * number % 17 for number in range(100)]
        sources = {}
        for number in range(100):
            sources[f"s{number}"] = mixes.add_source(feedd, f"s{number}", 20 + number, number)
        feedd.add_mix("both", dict(zip(sources, weights)), 2000)
        feedd.mixed = expected.Mixed([expected.Source(content) for content in sources.values()], weights, 2000)
        feedd.start()
        mixes.check(feedd, epochs=2, seed=9, batch_size=64)
        said = feedd.ctl("read", "both", "--shuffle", "--epochs=2", "--batch-size=50", "--verify").stdout
        assert "verified 4000 samples" in said, said


def test_feedctl_verifies_and_shows():
    with mixes.serve().start() as feedd:
        for more in ([], ["--shuffle"], ["--shuffle", "--seed=7", "--drop-last"]):
            said = feedd.ctl("read", "both", "--epochs=3", "--batch-size=99", "--verify", *more).stdout
            assert "verified" in said and "equal to the files'" in said, said
        for position in (0, 3, 499):
            at, number = feedd.mixed.at(0, position)
            right = feedd.mixed.sources[at].content["x"][feedd.mixed.sources[at].sample(number, False, 0)]
            shown = json.loads(feedd.ctl("show", "both", str(position), "--json").stdout)
            assert str(right[0]) in json.dumps(shown), shown


# ---- Ranks, places and kills -------------------------------------------------------------------------------


def test_ranks_and_resume_with_another_world_size():
    order = {"epochs": 2, "seed": 11, "shuffle": True}
    with mixes.serve().start() as feedd:
        with consumer.Consumer(feedd, "both", 10, step=True, **order) as reader:
            reader.attached()
            together = reader.take(31)
            token = reader.token()
        for rank in range(3):
            ranks = {"rank": rank, "world_size": 3, "local_world_size": 1}
            together += consumer.read(feedd, "both", 10, resume=token, **ranks, **order)
        feedd.mixed.check(together, True, 11)
        assert expected.check_exactly_once(mixes.EPOCH, together) == 2  # every position once
        consumer.refused(feedd, "ESTALE", "seed 11, not 12", dataset="both", resume=token, seed=12, shuffle=True)
        consumer.refused(feedd, "ESTALE", "shuffled order", dataset="both", resume=token, seed=11)
        consumer.refused(feedd, "ESTALE", "other data", dataset="first", resume=token, seed=11, shuffle=True)


def test_four_ranks_share_a_feed():
    with mixes.serve().start() as feedd:
        options = {"epochs": 2, "seed": 3, "shuffle": True, "share": "job", "world_size": 4, "wait_for": 4}
        readers = [consumer.Consumer(feedd, "both", 16, rank=rank, **options) for rank in range(4)]
        together = []
        for reader in readers:
            with reader:
                reader.attached()
                together += reader.finish()
        feedd.mixed.check(together, True, 3)
        assert expected.check_exactly_once(mixes.EPOCH, together) == 2


def test_all_that_serves_a_mix_dies():
    with mixes.serve().start() as feedd:
        batches = consumer.read_through_kills(feedd, "both", 10, 100, epochs=2, seed=4, shuffle=True)
        expected.check_places(mixes.EPOCH, batches, 10, epochs=2)
        feedd.mixed.check(batches, True, 4)
