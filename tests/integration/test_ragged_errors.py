"""Samples of ragged fields that cannot be read: left out or replaced, in memory and on a GPU, whoever dies meanwhile."""

import contextlib
import itertools
import os
import struct

import consumer
import expected
import harness
import test_errors
import test_folder
import test_megatron
import test_ragged_tokens
import test_tar

COUNT = 300
BAD = {1, 7, 8, 9, 150, 151, 298, 299, *range(200, 230, 3)}
FIELDS = {"field_image": "bytes @ file", "field_size": "length @ file", "field_label": "i64 @ class"}


def serve(on_error, bad=BAD, files=None, views=(), io_delay_us=0, **settings):
    """A folder, of which `bad` files are gone since it was indexed. Odd numbers have a second folder on their way."""
    instance = harness.Instance(**{"ring": "64K", "loader_timeout": 5, **settings})
    files = files or {f"c{i % 3}/{i:04}": bytes([i % 256]) * (i * 89 % 3000) for i in range(COUNT)}
    root = instance.directory / "pictures"
    test_folder.write(root, files)
    instance.add_dataset("pictures", format="folder", path=root, on_error=on_error, io_delay_us=io_delay_us, **FIELDS)
    samples = test_folder.in_order(root)
    images = [test_folder.read(root, path) for _, _, path in samples]
    instance.content = {
        "image": expected.Ragged(images),
        "size": [struct.pack("<q", len(image)) for image in images],
        "label": [struct.pack("<q", number) for number, _, _ in samples],
    }
    for name, options in views:
        instance.add_view(name, "pictures", **options)
    instance.start().indexed()
    for number in bad:
        os.unlink(os.path.join(os.fsencode(root), samples[number][2]))
    return instance


def check_skipped(content, bad, batches, batch_size, **options):
    """The samples of each batch that are left are all but `bad`. With ragged fields they keep their order."""
    ragged = any(isinstance(values, expected.Ragged) for values in content.values())
    wanted = expected.run_batches(len(next(iter(content.values()))), batch_size, **options)
    assert len(batches) == len(wanted)
    for batch, whole in zip(batches, wanted):
        left = [sample for sample in whole["samples"] if sample not in bad]
        assert (batch["samples"] if ragged else sorted(batch["samples"])) == (left if ragged else sorted(left)), (batch, whole)
        assert batch["skipped"] == len(set(whole["samples"]) & bad) and batch["first"] == whole["first"], (batch, whole)
    expected.check_bytes(content, batches)


# ---- Skipped -----------------------------------------------------------------------------------------------


def test_skipped_samples_leave_no_holes():
    for reader in test_tar.READERS:
        with serve("skip", io=reader) as feedd:
            for batch_size, options in ((7, {}), (64, {"shuffle": True, "seed": 3, "epochs": 2})):
                batches = consumer.read(feedd, "pictures", batch_size, **options)
                check_skipped(feedd.content, BAD, batches, batch_size, **options)
            found = test_errors.counted(feedd, "skipped", 3 * len(BAD), "pictures")
            assert (found["replaced"], found["fatal"]) == (0, 0), found
            assert "gone" in found["samples"][0]["reason"], found


def test_batches_of_which_nothing_is_left():
    bad = set(range(20, 45))
    with serve("skip", bad=bad) as feedd:
        for device in (None, "host:0"):
            batches = consumer.read(feedd, "pictures", 10, device=device)
            check_skipped(feedd.content, bad, batches, 10)
            assert batches[3]["count"] == 0 and batches[3]["skipped"] == 10


def test_both_on_a_gpu():
    for on_error in ("skip", "replace"):
        with serve(on_error) as feedd:
            run = {"shuffle": True, "epochs": 2, "share": "all", "wait_for": 3}
            with contextlib.ExitStack() as stack:
                readers = [
                    stack.enter_context(consumer.Consumer(feedd, "pictures", 9, device=device, **run))
                    for device in ("host:0", "host:0", None)
                ]
                for reader in readers:
                    if on_error == "skip":
                        check_skipped(feedd.content, BAD, reader.finish(), 9, shuffle=True, epochs=2)
                    else:
                        expected.check_replaced(feedd.content, BAD, reader.finish(), 9, shuffle=True, epochs=2)


def test_text_that_ends_early():
    """Documents, and windows with the boundaries of documents, which come out of the index: samples of both are whole."""
    documents = test_megatron.some(200)
    with harness.Instance(ring="64K") as feedd:
        path = feedd.directory / "text.bin"
        test_ragged_tokens.write(path.with_suffix(""), documents)
        text = {"format": "tokens", "path": path, "offsets": path.with_suffix(".npy"), "dtype": "u16"}
        feedd.add_dataset("text", **text, on_error="skip")
        feedd.add_dataset("windows", **text, on_error="replace", pack=7, cu_seqlens="yes")
        feedd.start().indexed()
        windows, left = test_megatron.boundaries([documents], 7), 1000
        os.truncate(path, 2 * left)
        ends = list(itertools.accumulate(map(len, documents)))
        bad = {number for number, end in enumerate(ends) if end > left and documents[number]}
        content = test_ragged_tokens.content_of(documents)
        check_skipped(content, bad, consumer.read(feedd, "text", 16, shuffle=True), 16, shuffle=True)
        bad = {number for number in range(len(windows["tokens"])) if 7 * number + 8 > left}
        batches = consumer.read(feedd, "windows", 16, shuffle=True, epochs=2)
        assert expected.check_replaced(windows, bad, batches, 16, shuffle=True, epochs=2) == 2 * len(bad) > 0


# ---- Replaced ----------------------------------------------------------------------------------------------


def test_replaced_samples_have_their_own_sizes():
    for reader in test_tar.READERS:
        with serve("replace", io=reader) as feedd:
            for batch_size, options in ((7, {}), (64, {"shuffle": True, "seed": 3, "epochs": 8})):
                batches = consumer.read(feedd, "pictures", batch_size, **options)
                count = expected.check_replaced(feedd.content, BAD, batches, batch_size, **options)
                assert count == len(BAD) * options.get("epochs", 1)
            found = test_errors.counted(feedd, "replaced", 2 * len(BAD), "pictures")
            # What has been found out is known to the feed from then on, for all but the batches that are under way.
            assert found["replaced"] < 6 * len(BAD) and (found["skipped"], found["fatal"]) == (0, 0), found


def test_several_attempts_and_a_view():
    """Most replacements cannot be read either. A view takes its own samples."""
    bad = set(range(150, COUNT))
    with serve("replace", bad, views=[("part", {"samples": "25%..75%", "split_seed": 4})]) as feedd:
        batches = consumer.read(feedd, "pictures", 40, shuffle=True, seed=9)
        assert expected.check_replaced(feedd.content, bad, batches, 40, shuffle=True, seed=9) == 150
        chosen = expected.selected(COUNT, 75, 150, 4)
        batches = consumer.read(feedd, "part", 11)
        number = chosen.__getitem__
        expected.check_replaced(feedd.content, bad, batches, 11, samples=150, number=number)


def test_a_replacement_needs_more_memory_than_there_is_in_the_slot():
    """Every sample but a few large ones is gone, so the few take all places, and slots grow."""
    files = {f"c/{i:03}": bytes([i]) * (400_000 if i < 90 else 10) for i in range(100)}
    bad = set(range(5, 100, 2)) | set(range(90, 100))
    with serve("replace", bad, files) as feedd:
        batches = consumer.read(feedd, "pictures", 8, shuffle=True, seed=1, ring_bytes=1)
        expected.check_replaced(feedd.content, bad, batches, 8, shuffle=True, seed=1)


def test_the_feed_fails_when_nothing_can_be_read():
    files = {f"c/{i:02}": b"x" * i for i in range(1, 30)}
    with serve("replace", set(range(29)), files) as feedd:
        test_folder.fails(feedd, "is gone", "nor could the samples tried before it (on_error)")


# ---- Whoever dies ------------------------------------------------------------------------------------------


def test_loaders_that_are_killed():
    for on_error, check in (("skip", check_skipped), ("replace", expected.check_replaced)):
        with serve(on_error, loaders=3, io="uring", io_delay_us=100) as feedd:
            options = {"shuffle": True, "seed": 8, "epochs": 3}
            with consumer.Consumer(feedd, "pictures", 10, step=True, **options) as reader:
                reader.attached()
                batches = []
                for number in range(90):
                    if number % 9 == 3:
                        for pid in feedd.children_called("loader")[:2]:
                            harness.kill(pid)
                    batches += reader.take(1)
                reader.next_ends()
            check(feedd.content, BAD, batches, 10, **options)


def test_another_world_size_continues():
    """The same samples stand in for the same ones."""
    with serve("replace") as feedd:
        with consumer.Consumer(feedd, "pictures", 4, step=True, shuffle=True, epochs=1) as reader:
            reader.attached()
            together = reader.take(9)
            token = reader.token()
        for rank in range(2):
            ranks = {"rank": rank, "world_size": 2, "local_world_size": 1}
            together += consumer.read(feedd, "pictures", 4, resume=token, shuffle=True, epochs=1, **ranks)
        assert expected.check_exactly_once(COUNT, together) == 1
        for batch in together:
            stands = [expected.replaced(COUNT, BAD, batch, i) for i in range(batch["count"])]
            assert batch["crc"] == expected.crc(feedd.content, stands), batch
