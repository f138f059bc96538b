"""Mixes of sources with ragged fields, whose samples differ in length between the sources, too."""

import contextlib
import json

import consumer
import expected
import harness
import mixes
import test_megatron
import test_ragged
import test_ragged_tokens
import test_tar
import test_weights

EPOCH = 240


def serve(weights=(3, 1, 2, 1), **settings):
    """A mix "both" of small samples, of one as large as a thousand of them, of a split and of draws by weight."""
    instance = harness.Instance(**settings)
    small = test_ragged.add(instance, [test_tar.some(70, 0, most=300), test_tar.some(31, 70, most=300)], name="small")
    large = test_ragged.add(instance, [test_tar.some(40, 500, most=9000)], name="large")
    instance.add_view("part", "large", samples="4..24", split_seed=5)
    dice = test_weights.some(count=101)
    test_weights.write_weights(instance.directory / "weights.npy", dice)
    instance.add_view("drawn", "small", weights="weights.npy", epoch_samples=60)
    instance.names = ("small", "large", "part", "drawn")
    instance.add_mix("both", dict(zip(instance.names, weights)), EPOCH)
    sources = [expected.Source(content) for content in (small, large, expected.view(large, 4, 24, 5))]
    instance.mixed = expected.Mixed([*sources, expected.Source(small, dice, 60)], weights, EPOCH)
    return instance


def test_every_reader():
    for reader in test_tar.READERS:
        with serve(io=reader).start() as feedd:
            mixes.check(feedd, epochs=3, seed=7)
            mixes.check(feedd, epochs=1, shuffle=False, batch_size=64)


def test_what_is_said_of_it():
    with serve().start() as feedd:
        said = feedd.check().stdout
        small, large = (sum(map(len, source.content["jpg"])) / source.samples for source in feedd.mixed.sources[:2])
        mean = 4 + (3 * small + large + 2 * large + small) / 7
        assert f"both: mix of 4 sources, epochs of 240 samples of {mean / 1024:.1f} KiB on average" in said, said
        shown = json.loads(feedd.ctl("datasets", "--json").stdout)[-1]
        longest = max(map(len, feedd.mixed.sources[1].content["jpg"]))
        [jpg] = [field for field in shown["fields"] if field["name"] == "jpg"]
        assert jpg["largest_bytes"] == longest and jpg["shape"] is None, shown
        for more in ([], ["--shuffle", "--seed=7"]):
            said = feedd.ctl("read", "both", "--epochs=2", "--batch-size=99", "--verify", *more).stdout
            assert "verified 480 samples" in said and "equal to the files'" in said, said


# ---- Room --------------------------------------------------------------------------------------------------


def test_one_source_has_much_larger_samples():
    """Slots have room for what most batches need; every batch fits, also the one with all that is large."""
    small = [(f"{i:04}", {"jpg": b"s" * (i % 50), "cls": b"1"}) for i in range(300)]
    large = [(f"{i:04}", {"jpg": bytes([i + 1]) * 1_000_000, "cls": b"2"}) for i in range(3)]
    for device in (None, "host:0"):
        with harness.Instance() as feedd:
            contents = [test_ragged.add(feedd, [samples], name=name) for name, samples in (("s", small), ("l", large))]
            feedd.add_mix("both", {"s": 29, "l": 1}, 300)
            feedd.mixed = expected.Mixed([expected.Source(content) for content in contents], (29, 1), 300)
            feedd.start()
            with consumer.Consumer(feedd, "both", 5, step=True, epochs=1, ring_bytes=1, device=device) as reader:
                reader.attached()
                batches = reader.take(60)
                [feed] = json.loads(feedd.ctl("feeds", "--json").stdout)
                reader.next_ends()
            feedd.mixed.check(batches)
            # A batch of 5 has at most two of the large samples, where five might have been planned for.
            assert 1_000_000 < feed["ring_bytes"] < feed["slots"] * 2_100_000, feed


def test_weights_that_change_what_a_batch_needs():
    """A run that continues with other weights has room for these."""
    order = {"epochs": 2, "seed": 6, "shuffle": True}
    with serve(weights=(50, 1, 1, 50)).start() as feedd:
        token = mixes.resume_after(feedd, 13, **order)
        mixes.weigh_again(feedd, (1, 60, 1, 1))
        changed = feedd.mixed.changed((1, 60, 1, 1), 0, 130)
        changed.check(consumer.read(feedd, "both", 40, resume=token, **order), True, 6)


def test_all_samples_are_empty():
    empty = [[(f"{i:04}", {"jpg": b"", "cls": b"1"}) for i in range(20)]]
    with harness.Instance() as feedd:
        content = test_ragged.add(feedd, empty)
        other = test_ragged.add(feedd, [test_tar.some(9)], name="other")
        feedd.add_mix("none", {"wds": 1}, 50)
        feedd.add_mix("both", {"wds": 1, "other": 1}, 50)
        feedd.start()
        mixes.check(feedd, name="none", mixed=expected.Mixed([expected.Source(content)], [1], 50), epochs=2)
        feedd.mixed = expected.Mixed([expected.Source(content), expected.Source(other)], [1, 1], 50)
        mixes.check(feedd, epochs=2, batch_size=3)


# ---- Formats -----------------------------------------------------------------------------------------------


def test_documents_of_different_formats():
    """Flat tokens, a pair of Megatron and records, all of two bytes."""
    with harness.Instance() as feedd:
        documents = [test_megatron.some(60), test_megatron.some(40, 2, 900), test_megatron.some(9, 3)]
        test_ragged_tokens.write(feedd.directory / "chats", documents[0], before=3)
        feedd.add_dataset("chats", format="tokens", path="chats.bin", offsets="chats.npy", dtype="u16")
        test_megatron.pair(feedd.directory / "pile", documents[1])
        feedd.add_dataset("pile", format="megatron", path="pile.idx")
        test_ragged_tokens.write(feedd.directory / "more", documents[2], header=6)
        feedd.add_dataset("more", format="records", path="more.bin", offsets="more.npy", field_tokens="u16", header_bytes=6)
        feedd.add_mix("both", {"chats": 3, "pile": 1, "more": 1}, 150)
        contents = [test_ragged_tokens.content_of(some) for some in documents]
        feedd.mixed = expected.Mixed([expected.Source(content) for content in contents], (3, 1, 1), 150)
        feedd.start()
        mixes.check(feedd, epochs=3, seed=1)


# ---- Ranks, places and kills -------------------------------------------------------------------------------


def test_ranks_and_resume_with_another_world_size():
    order = {"epochs": 2, "seed": 11, "shuffle": True}
    with serve().start() as feedd:
        with consumer.Consumer(feedd, "both", 10, step=True, **order) as reader:
            reader.attached()
            together = reader.take(17)
            token = reader.token()
        for rank in range(3):
            ranks = {"rank": rank, "world_size": 3, "local_world_size": 1}
            together += consumer.read(feedd, "both", 10, resume=token, **ranks, **order)
        feedd.mixed.check(together, True, 11)
        assert expected.check_exactly_once(EPOCH, together) == 2


def test_all_that_serves_a_mix_dies():
    with serve().start() as feedd:
        batches = consumer.read_through_kills(feedd, "both", 10, 48, epochs=2, seed=4, shuffle=True)
        expected.check_places(EPOCH, batches, 10, epochs=2)
        feedd.mixed.check(batches, True, 4)


def test_on_a_gpu():
    with serve().start() as feedd:
        run = {"shuffle": True, "epochs": 2, "seed": 2, "share": "all", "wait_for": 2}
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(consumer.Consumer(feedd, "both", 7, device=device, **run))
                       for device in ("host:0", None)]  # fmt: skip
            for reader in readers:
                feedd.mixed.check(reader.finish(), True, 2)


def test_a_hundred_sources():
    with harness.Instance() as feedd:
        weights = [1 + number * number % 17 for number in range(100)]
        contents = [test_ragged.add(feedd, [test_tar.some(5 + number, number, most=5 + 20 * number)], name=f"s{number}x")
                    for number in range(100)]  # fmt: skip
        feedd.add_mix("both", {f"s{number}x": weight for number, weight in enumerate(weights)}, 1000)
        feedd.mixed = expected.Mixed([expected.Source(content) for content in contents], weights, 1000)
        feedd.start()
        mixes.check(feedd, epochs=2, seed=9, batch_size=64)


def test_fields_that_differ():
    """One source with a ragged field and one whose samples are as long as each other do not mix."""
    with harness.Instance() as feedd:
        test_ragged.add(feedd, [test_tar.some(5)])
        test_tar.add_shards(feedd, [test_tar.some(5)], name="padded")
        feedd.add_mix("m", {"wds": 1, "padded": 1}, 10)
        done = feedd.check()
        wanted = "[mix m] source.padded: found field jpg of u8[2000], wanted u8[] as in source wds"
        assert done.returncode == 1 and wanted in done.stderr, done
