"""Tar samples that are incomplete: listed, counted, and left out or replaced, as on_error says."""

import os
import struct
import tarfile

import consumer
import expected
import harness
import test_errors
import test_ragged_errors
import test_tar

COUNT = 120
SPOILED = {
    3: ({"jpg": b"only"}, 'found sample "000003" without a member for field cls, wanted one with extension cls; it has jpg'),
    4: ({"cls": b"4"}, 'found sample "000004" without a member for field jpg, wanted one with extension jpg|jpeg; it has cls'),
    50: ({"jpg": b"x", "cls": b"cat"}, 'found "cat" in 000050.cls, wanted a number of type i32'),
    51: ({"jpg": b"x", "cls": b""}, 'found "" in 000051.cls, wanted a number of type i32'),
    52: ({"jpg": b"x", "cls": b"9" * 300}, 'found "..." in 000052.cls, wanted a number of type i32'),
    80: ({"jpg": b"x", "jpeg": b"y", "cls": b"1"}, 'found a second member for field jpg in sample "000080": 000080.jpeg'),
    119: ({"jpg": b"x", "cls": b"1.5"}, 'found "1.5" in 000119.cls, wanted a number of type i32'),
}
BAD = set(SPOILED)
READERS = [(reader, True) for reader in test_tar.READERS] + [("auto", False)]  # ... and whether images are ragged
RAGGED = {"pad_jpg": None}


def spoiled():
    samples = test_tar.some(COUNT)
    for number, (members, _) in SPOILED.items():
        samples[number] = (samples[number][0], members)
    return samples


def content_of(samples, ragged):
    """With anything in the places of incomplete ones."""
    whole = [{"jpg": b"", "cls": b"0"} if number in BAD else members for number, (_, members) in enumerate(samples)]
    images = [members["jpg"] for members in whole]
    return {
        "jpg": expected.Ragged(images) if ragged else [test_tar.padded(image) for image in images],
        "cls": [struct.pack("<i", int(members["cls"])) for members in whole],
    }


def add(instance, on_error, ragged=False, **options):
    samples = spoiled()
    shards = [samples[:50], samples[50:51], samples[51:]]
    declared = {**test_tar.FIELDS, **(RAGGED if ragged else {}), "on_error": on_error, **options}
    for number, shard in enumerate(shards):
        formats = (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
        test_tar.write(instance.directory / f"wds-{number}.tar", shard, formats[number])
    declared = {key: value for key, value in declared.items() if value is not None}
    instance.add_dataset("wds", format="tar", path=instance.directory / "wds-*.tar", **declared)
    return content_of(samples, ragged)


def test_left_out():
    for reader, ragged in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add(feedd, "skip", ragged)
            feedd.add_view("part", "wds", samples="..50%")
            feedd.start()
            for device in (None, "host:0"):
                run = {"shuffle": True, "epochs": 2}
                batches = consumer.read(feedd, "wds", 7, device=device, **run)
                test_ragged_errors.check_skipped(content, BAD, batches, 7, **run)
            part = expected.view(content, 0, 60)
            test_ragged_errors.check_skipped(part, BAD, consumer.read(feedd, "part", 7), 7)


def test_replaced():
    for reader, ragged in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add(feedd, "replace", ragged)
            feedd.start()
            for device in (None, "host:0"):
                run = {"shuffle": True, "seed": 5, "epochs": 2}
                batches = consumer.read(feedd, "wds", 7, device=device, **run)
                assert expected.check_replaced(content, BAD, batches, 7, **run) == 2 * len(BAD)


def test_with_transforms():
    with harness.Instance() as feedd:
        content = add(feedd, "replace", transform_jpg="cast f32")
        feedd.start()
        content["jpg"] = [b"".join(struct.pack("<f", byte) for byte in image) for image in content["jpg"]]
        batches = consumer.read(feedd, "wds", 10, shuffle=True, seed=2)
        expected.check_replaced(content, BAD, batches, 10, shuffle=True, seed=2)


def test_numbers_alone():
    """Without a single read."""
    with harness.Instance() as feedd:
        content = add(feedd, "replace", field_jpg=None, pad_jpg=None)
        bad = BAD - {4, 80}
        content["cls"][80], content["cls"][4] = struct.pack("<i", 1), struct.pack("<i", 4)
        feedd.start()
        batches = consumer.read(feedd, "wds", 10, epochs=2)
        expected.check_replaced({"cls": content["cls"]}, bad, batches, 10, epochs=2)


def test_loaders_and_daemon_die():
    """The index says the same after a restart, from which on the same samples stand in the same places."""
    with harness.Instance(ring="64K") as feedd:
        content = add(feedd, "replace", ragged=True)
        feedd.start()
        batches = consumer.read_through_kills(feedd, "wds", 5, 48, shuffle=True, epochs=2)
        expected.check_replaced(content, BAD, batches, 5, shuffle=True, epochs=2)


def test_in_a_mix():
    with harness.Instance() as feedd:
        content = add(feedd, "skip")
        feedd.add_mix("both", {"wds": 1}, COUNT, on_error="skip")
        feedd.start()
        batches = consumer.read(feedd, "both", 7, epochs=2, shuffle=False)
        assert sum(batch["skipped"] for batch in batches) == 2 * len(BAD)
        expected.check_bytes(content, batches)
        feedd.add_mix("both", {"wds": 1}, COUNT)
        feedd.write_config()
        done = feedd.check()
        assert done.returncode == 1 and "found 7 incomplete samples, which on_error = fail does not allow" in done.stderr, done


# ---- What is said of them ----------------------------------------------------------------------------------


def check_listed(feedd):
    found = test_errors.errors(feedd, "wds")
    assert (found["incomplete"], found["skipped"], found["replaced"], found["fatal"]) == (len(BAD), 0, 0, 0), found
    rows = [(row["sample"], row["reason"]) for row in found["samples"]]
    assert rows == [(number, reason) for number, (_, reason) in SPOILED.items()], rows
    paths = {row["sample"]: row["file"] for row in found["samples"]}
    assert {paths[number][-5] for number in (3, 4)} == {"0"} and paths[50][-5] == "1" and paths[119][-5] == "2", paths
    assert {(row["what"], row["time"]) for row in found["samples"]} == {("incomplete", 0)}, found
    text = feedd.ctl("errors", "wds").stdout
    assert text.startswith("none since the daemon started\n7 samples are incomplete, as the index says\n"), text
    assert SPOILED[50][1] in text and "wds-1.tar" in text, text


def test_listed_and_kept():
    """A kept index remembers them; without on_error it is not used, and the first one is named."""
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        content = add(feedd, "skip")
        made, kept = feedd.check().stdout, feedd.check().stdout
        assert "index of" in made and ", made in" in made and ", read in" in kept, (made, kept)
        for text in (made, kept):
            line = f"    7 samples are incomplete, and left out (on_error); the first one: {SPOILED[3][1]}\n"
            assert line in text, text
        feedd.start().indexed()
        check_listed(feedd)
        test_ragged_errors.check_skipped(content, BAD, consumer.read(feedd, "wds", 7), 7)
        check_listed(feedd)
        feedd.datasets["wds"]["on_error"] = "replace"
        feedd.write_config()
        feedd.ctl("reload")
        check_listed(feedd)
        assert "7 samples are incomplete, and replaced (on_error)" in feedd.check().stdout
        feedd.datasets["wds"]["on_error"] = "fail"
        feedd.write_config()
        done = feedd.check()
        assert done.returncode == 1 and f"wds-0.tar: {SPOILED[3][1]}; 7 samples are incomplete, which" in done.stderr, done


def test_more_than_are_listed():
    with harness.Instance() as feedd:
        samples = [(f"{i:04}", {"cls": b"1"} if i % 2 else {"jpg": b"1", "cls": b"1"}) for i in range(300)]
        test_tar.write(feedd.directory / "a.tar", samples[:100])
        test_tar.write(feedd.directory / "b.tar", samples[100:])
        fields = {"field_jpg": "bytes", "field_cls": "i8"}
        feedd.add_dataset("wds", format="tar", path=feedd.directory / "*.tar", on_error="skip", **fields)
        feedd.start().indexed()
        found = test_errors.errors(feedd, "wds")
        assert found["incomplete"] == 150 and [row["sample"] for row in found["samples"]] == list(range(1, 129, 2)), found
        done = feedd.ctl("read", "wds", "--epochs=2", "--verify")
        assert "300" in done.stdout, done


def test_complete_ones_that_cannot_be_read_are_listed_before():
    with harness.Instance() as feedd:
        add(feedd, "skip")
        feedd.start().indexed()
        os.truncate(feedd.directory / "wds-1.tar", 0)
        os.truncate(feedd.directory / "wds-2.tar", 100)
        consumer.read(feedd, "wds", 30)
        found = test_errors.counted(feedd, "skipped", 60, "wds")
        fates = [row["what"] for row in found["samples"]]
        assert fates == ["skipped"] * (len(fates) - 7) + ["incomplete"] * 7 and len(fates) > 30, fates


def test_feedctl_verifies_them():
    for on_error in ("skip", "replace"):
        for ragged in (False, True):
            with harness.Instance() as feedd:
                add(feedd, on_error, ragged)
                feedd.start()
                done = feedd.ctl("read", "wds", "--epochs=2", "--verify", "--shuffle", "--seed=4")
                wanted = "14 samples were replaced by others" if on_error == "replace" else "14 samples were skipped"
                assert wanted in done.stdout, done


def test_none_is_complete():
    with harness.Instance() as feedd:
        test_tar.write(feedd.directory / "a.tar", [(f"{i}", {"jpg": b"1", "cls": b"x"}) for i in range(5)])
        feedd.add_dataset("wds", format="tar", path="a.tar", on_error="skip", field_jpg="bytes", field_cls="i8")
        done = feedd.check()
        assert done.returncode == 1, done
        assert 'a.tar: found no complete sample; of the first one: found "x" in 0.cls' in done.stderr, done


def test_nearly_none_is_complete():
    """Replacements are drawn from all samples; after 16 that are incomplete, the feed fails."""
    samples = [(f"{i:04}", {"jpg": b"1", "cls": b"1" if i == 700 else b"x"}) for i in range(1000)]
    for pad in ({}, {"pad_jpg": 5}):
        with harness.Instance() as feedd:
            test_tar.write(feedd.directory / "a.tar", samples)
            feedd.add_dataset("wds", format="tar", path="a.tar", on_error="replace", field_jpg="bytes", field_cls="i8", **pad)
            feedd.start()
            with consumer.Consumer(feedd, "wds", 10) as reader:
                reader.fail("EIO", "cannot be read: ", "a.tar, offset ", "it is incomplete", "(on_error)")
