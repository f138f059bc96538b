"""Mixes with sources of format folder, whose files loaders open one by one."""

import errno
import json
import os
import struct

import consumer
import data
import expected
import harness
import mixes
import test_confine
import test_errors
import test_folder
import test_tar

EPOCH = 210


def class_of(sample):
    return struct.pack("<q", int(sample["cls"]))


def add_tar(instance, name, samples, padded=None):
    """Declared as test_folder declares pictures."""
    test_tar.add_shards(instance, [samples], name=name, field_jpg=None, field_cls=None, pad_jpg=None,
                        field_image="bytes @ jpg", field_label="i64 @ cls",
                        pad_image=f"{padded} {test_folder.PAD}" if padded else None)  # fmt: skip
    images = [members["jpg"] for _, members in samples]
    images = [test_folder.padded(image, padded) for image in images] if padded else expected.Ragged(images)
    return {"image": images, "label": [class_of(members) for _, members in samples]}


def add_folder(instance, name, padded=None, root=None, **options):
    root = root or instance.directory / name
    instance.add_dataset(name, format="folder", path=root, field_image="bytes @ file", field_label="i64 @ class",
                         **({"pad_image": f"{padded} {test_folder.PAD}"} if padded else {}), **options)  # fmt: skip
    content = test_folder.content_of(root, padded or 1 << 20)
    samples = [test_folder.read(root, path) for _, _, path in test_folder.in_order(root)]
    return content if padded else {**content, "image": expected.Ragged(samples)}


def serve(padded=None, **settings):
    """A mix "both" of two folders, of which one has a link to a third, a split of one of them, and a tar."""
    instance = harness.Instance(**settings)
    for name, count, seed in (("pictures", 60, 1), ("photos", 25, 2), ("elsewhere", 10, 3)):
        test_folder.write(instance.directory / name, test_folder.some(count, seed=seed))
    os.symlink(instance.directory / "elsewhere", instance.directory / "photos" / "linked")
    pictures = add_folder(instance, "pictures", padded)
    shard = add_tar(instance, "shard", test_tar.some(45, 7), padded)
    photos = add_folder(instance, "photos", padded, links=instance.directory / "elsewhere")
    instance.add_view("part", "pictures", samples="10..50", split_seed=6)
    contents = pictures, shard, photos, expected.view(pictures, 10, 50, 6)
    instance.names, weights = ("pictures", "shard", "photos", "part"), (3, 2, 1, 1)
    instance.add_mix("both", dict(zip(instance.names, weights)), EPOCH)
    instance.mixed = expected.Mixed([expected.Source(content) for content in contents], weights, EPOCH)
    return instance


def test_every_reader():
    for reader, padded in zip(test_folder.READERS, (None, 1000, 1000, None)):
        with serve(padded, io=reader).start() as feedd:
            mixes.check(feedd, epochs=2, seed=7)
            mixes.check(feedd, epochs=1, shuffle=False, batch_size=64)
            assert "in 1 file and 4 folders" in feedd.check().stdout


def test_a_mix_of_folders_alone():
    with serve().start() as feedd:
        feedd.add_mix("folders", {"photos": 1, "part": 1}, 100)
        feedd.write_config()
        feedd.ctl("reload")
        sources = [feedd.mixed.sources[2], feedd.mixed.sources[3]]
        mixes.check(feedd, name="folders", mixed=expected.Mixed(sources, [1, 1], 100), epochs=2)


def test_feedctl_verifies_and_shows():
    with serve().start() as feedd:
        said = feedd.ctl("read", "both", "--epochs=2", "--batch-size=50", "--verify", "--shuffle").stdout
        assert "verified 420 samples" in said and "equal to the files'" in said, said
        shown = json.loads(feedd.ctl("show", "both", "2", "--json").stdout)
        at, number = feedd.mixed.at(0, 2)
        image = feedd.mixed.sources[at].content["image"][feedd.mixed.sources[at].sample(number, False, 0)]
        assert str(len(image)) in json.dumps(shown), shown


def test_all_that_serves_a_mix_dies():
    with serve().start() as feedd:
        batches = consumer.read_through_kills(feedd, "both", 10, 42, epochs=2, seed=4, shuffle=True)
        expected.check_places(EPOCH, batches, 10, epochs=2)
        feedd.mixed.check(batches, True, 4)


@harness.host_memory
def test_loaders_are_confined():
    """They open files beneath the folders of the sources, and nothing else."""
    test_confine.require()
    for io in ("uring", "pread"):
        with harness.Instance(loaders=1, io=io) as feedd:
            test_confine.add_folder(feedd)
            data.write_records(feedd.directory / "numbers.bin", 1000, 64)
            feedd.add_dataset("numbers", format="records", path="numbers.bin", record_bytes=64, field_file="u8[64] @ 0")
            feedd.add_mix("both", {"numbers": 1, "pictures": 1}, 100)
            inside, outside = feedd.directory / "pictures/0/0", feedd.directory / "other/file"
            paths = {"ATTEMPTS_INSIDE": str(inside), "ATTEMPTS_OUTSIDE": str(outside)}
            feedd.start(environment={**test_confine.preload("loader"), **paths})
            assert expected.check_exactly_once(100, consumer.read(feedd, "both", 32)) == 1
            met = test_confine.attempts(feedd)
            row = test_confine.confinement(feedd, "loader")
            assert row["active"] == test_confine.LOADER + ["io_uring"] * (io == "uring") and not row["missing"], row
            assert met["open beneath"] == ({errno.EPERM} if io == "uring" else {0}), met
            for name in met.keys() - {"open beneath", "limit of descriptors"}:
                assert 0 not in met[name], (name, met)


def remove(feedd, numbers):
    """Files of the pictures, once these have been indexed. Returns their paths."""
    feedd.ctl("index", "pictures")
    feedd.ctl("index", "part")
    order = test_folder.in_order(feedd.directory / "pictures")
    paths = {number: os.path.join(os.fsencode(feedd.directory / "pictures"), order[number][2]) for number in numbers}
    for path in paths.values():
        os.unlink(path)
    return {number: os.fsdecode(path) for number, path in paths.items()}


def test_files_that_are_gone_are_replaced():
    """By others of their source, and listed with its dataset."""
    with serve(1000) as feedd:
        feedd.mixes["both"]["on_error"] = "replace"
        feedd.start()
        gone = remove(feedd, {3, 11, 12, 40})
        chosen = expected.selected(60, 10, 40, 6)
        bad = [gone, (), (), {place for place, sample in enumerate(chosen) if sample in gone}]
        batches = consumer.read(feedd, "both", 30, epochs=2, shuffle=True, seed=2)
        expected.check_places(EPOCH, batches, 30, epochs=2, shuffle=False)
        count = feedd.mixed.check(batches, True, 2, bad)
        assert count > 10, count
        found = test_errors.counted(feedd, "replaced", count, "both")
        for row in found["samples"]:
            assert (row["dataset"], row["reason"]) == ("pictures", "the file is gone"), row
            assert row["file"] == gone[row["sample"]], row
        assert gone[3] in feedd.ctl("errors", "both").stdout


def test_files_that_are_gone_are_left_out():
    with serve(1000) as feedd:
        feedd.mixes["both"]["on_error"] = "skip"
        feedd.start()
        gone = remove(feedd, {5, 20})
        batches = consumer.read(feedd, "both", 30, epochs=1)
        lost = [feedd.mixed.at(0, position) for position in range(EPOCH)]
        chosen = expected.selected(60, 10, 40, 6)
        samples = {0: lambda number: number % 60, 3: lambda number: chosen[number % 40]}
        lost = sum(at in samples and samples[at](number) in gone for at, number in lost)
        assert sum(batch["skipped"] for batch in batches) == lost > 2
        feedd.mixed.check(batches)


def test_a_file_that_ends_a_feed():
    """The message has the dataset of the source, the number of the sample there, and the path."""
    with serve(1000) as feedd:
        feedd.start()
        [(number, path)] = remove(feedd, {7}).items()
        with consumer.Consumer(feedd, "both", 10, epochs=1) as reader:
            reader.attached()
            reader.fail("EIO", f"dataset pictures: sample {number} cannot be read: {path}, offset 0: the file is gone")
