"""feedctl pack: what shards hold, against what was packed; and shards that are wrong."""

import json
import os
import random
import re
import struct

import consumer
import data
import expected
import harness
import mixes
import packed
import test_folder
import test_megatron
import test_ragged
import test_storage
import test_tar
import test_weights


def pack(feedd, name, *options, file="made", **keywords):
    return feedd.ctl("pack", name, feedd.directory / file, *options, **keywords)


def serve_packed(feedd, file="made", name="again", **options):
    """Serves what was packed, too."""
    feedd.add_dataset(name, format="packed", path=feedd.directory / f"{file}-?????.feed", **options)
    feedd.write_config()
    done = feedd.check()
    assert done.returncode == 0, done
    feedd.ctl("reload")
    return done.stdout


def same(found, content):
    """Every byte of every field of every sample."""
    assert list(found) == list(content)
    for field, samples in content.items():
        assert isinstance(found[field], expected.Ragged) == isinstance(samples, expected.Ragged), field
        assert list(found[field]) == list(samples), field


def check(feedd, name, content, *options, batch_size=16):
    """Packs it, reads the shards without feedd, and has feedd deliver them, in order and shuffled."""
    done = pack(feedd, name, *options)
    found = packed.shards(feedd.directory, "made")
    same(packed.content(found), content)
    assert f"{len(next(iter(content.values())))} samples in {len(found)} shard" in done.stdout, done
    assert f"[dataset {name}-packed]\nformat = packed\npath = {feedd.directory}/made-?????.feed\n" in done.stdout, done
    serve_packed(feedd)
    for shuffle in (False, True):
        batches = consumer.read(feedd, "again", batch_size, shuffle=shuffle, seed=5)
        expected.check_run(content, batches, batch_size, shuffle=shuffle, seed=5)
    return found


# ---- What is written -----------------------------------------------------------------------------------------


def test_images_and_numbers():
    """A ragged field, and a number, which goes into the table."""
    with harness.Instance() as feedd:
        content = test_ragged.add(feedd, test_tar.three_shards())
        feedd.start()
        found = check(feedd, "wds", content, "--shard-size=32K")
        assert len(found) > 2 and found[0].alignment == 1, (len(found), found[0].alignment)
        text = feedd.ctl("show", "again", "3", "--json").stdout
        fields = {field["name"]: field["values"] for field in json.loads(text)["fields"]}
        assert bytes(fields["jpg"]) == content["jpg"][3] and fields["cls"] == [-17], fields
        done = feedd.ctl("read", "again", "--shuffle", "--epochs=2", "--verify")
        assert "verified 202 samples of 2 whole epochs" in done.stdout and "all bytes equal" in done.stdout, done
        # Nothing is left but shards and the manifest, and to pack again changes nothing.
        assert sorted(path.name for path in feedd.directory.glob("made*")) == [
            *(f"made-{number:05}.feed" for number in range(len(found))), "made.pack.json",
        ]  # fmt: skip
        again = pack(feedd, "wds")
        assert "complete already" in again.stdout, again


def test_sets_whose_names_begin_alike():
    """The section that is printed has the shards of its own set alone."""
    with harness.Instance() as feedd:
        content = test_ragged.add(feedd, test_tar.three_shards())
        feedd.start()
        pack(feedd, "wds", file="made-more")
        check(feedd, "wds", content)


def test_folder_of_files():
    """Names of samples are fields, too, and samples without bytes have a place."""
    with harness.Instance() as feedd:
        files = {**test_folder.some(120), "cat/empty.jpg": b""}
        add = {"field_path": "bytes @ name", "field_size": "length @ file", "pad_image": None}
        test_folder.add(feedd, files, **add)
        del feedd.datasets["pictures"]["pad.image"]
        feedd.start()
        root = feedd.directory / "pictures"
        paths = [path for _, _, path in test_folder.in_order(root)]
        images = [test_folder.read(root, path) for path in paths]
        content = {
            "image": expected.Ragged(images),
            "label": [struct.pack("<q", number) for number, _, _ in test_folder.in_order(root)],
            "path": expected.Ragged(paths),
            "size": [struct.pack("<q", len(image)) for image in images],
        }
        check(feedd, "pictures", content, "--shard-size=64K")


def test_records():
    """All fields are fixed: records, which need no table, and may be of one byte or of many pages."""
    for sizes in ((1,), (3, 30000), (5, 4096, 4000)):
        with harness.Instance() as feedd:
            path, record = feedd.directory / "x.bin", sum(sizes) + 7
            data.write_records(path, 60, record)
            fields, at = {}, 7
            for number, size in enumerate(sizes):
                fields[f"f{number}"] = (at, size)
                at += size
            declared = {f"field_{name}": f"u8[{size}] @ {offset}" for name, (offset, size) in fields.items()}
            feedd.add_dataset("numbers", format="records", path=path, record_bytes=record, **declared)
            feedd.start()
            content = expected.read_records([path], record, fields)
            found = check(feedd, "numbers", content, "--shard-size=100K")
            assert found[0].alignment == (512 if sum(sizes) >= 16384 else 1), found[0].alignment
            assert all(shard.table == (feedd.directory / f"made-{shard.number:05}.feed").stat().st_size for shard in found)
            done = feedd.ctl("read", "again", "--shuffle", "--verify")
            assert "verified 60 samples" in done.stdout, done


def test_several_ragged_fields_and_types():
    """Sizes in bytes, large fixed fields beside them, and the index that feedd makes of them, by every reader."""
    dice = random.Random(3)
    samples = [
        (f"{i:04}", {"jpg": dice.randbytes(dice.randrange(900)), "txt": b"t" * (i * 11 % 70), "fix": dice.randbytes(40)})
        for i in range(300)
    ]
    for reader in test_tar.READERS:
        with harness.Instance(io=reader) as feedd:
            test_tar.write(feedd.directory / "wds.tar", samples)
            fields = {"field_jpg": "bytes", "field_txt": "bytes", "field_fix": "bytes", "pad_fix": "40"}
            feedd.add_dataset("wds", format="tar", path="wds.tar", **fields)
            feedd.start()
            content = {name: [members[name] for _, members in samples] for name in ("jpg", "txt", "fix")}
            content = {name: expected.Ragged(content[name]) if name != "fix" else content[name] for name in content}
            check(feedd, "wds", content, "--shard-size=100K")
            if reader == "auto":
                serve_packed(feedd, name="cut", pad_jpg="500 3", io_direct="yes")
                cut = {**content, "jpg": [test_tar.padded(image, 500, 3) for image in content["jpg"]]}
                batches = consumer.read(feedd, "cut", 16, shuffle=True)
                expected.check_run(cut, batches, 16, shuffle=True)


def test_documents_and_windows():
    pairs = [test_megatron.some(80), test_megatron.some(50, 2, 300)]
    with test_megatron.serve(pairs, 64, cu_seqlens="yes") as feedd:
        feedd.add_dataset("documents", format="megatron", path="text-*.idx")
        feedd.start()
        check(feedd, "text", test_megatron.boundaries(pairs, 64))
        tokens = [struct.pack(f"<{len(document)}H", *document) for pair in pairs for document in pair]
        check(feedd, "documents", {"tokens": expected.Ragged(tokens, 2)}, "--force")


def test_views_and_transforms():
    """As consumers get them."""
    with harness.Instance() as feedd:
        path = data.add_records(feedd)
        feedd.add_view("part", "numbers", samples="10%..60%", split_seed=4)
        feedd.add_view("half", "numbers", samples="..20", transform_x="scale 0.5")
        weights = [float(i % 5) for i in range(1000)]
        test_weights.write_weights(feedd.directory / "w.npy", weights)
        feedd.add_view("drawn", "numbers", weights="w.npy", epoch_samples=300)
        feedd.start()
        whole = expected.read_records([path], 64, {"x": (0, 64)})
        check(feedd, "part", expected.view(whole, 100, 600, 4))
        half = {"x": [struct.pack("<64f", *(value / 2 for value in sample)) for sample in whole["x"][:20]]}
        check(feedd, "half", half, "--force")
        draws = expected.Draws(weights)
        drawn = {"x": [whole["x"][draws.sample(9, 0, position)] for position in range(300)]}
        check(feedd, "drawn", drawn, "--force", "--seed=9")


def test_mixes():
    with mixes.serve(epoch_samples=400) as feedd:
        feedd.start()
        places = [feedd.mixed.at(0, position) for position in range(400)]
        sources = [(feedd.mixed.sources[source], number) for source, number in places]
        check(feedd, "both", {"x": [source.content["x"][source.sample(number, False, 0)] for source, number in sources]})


# ---- Samples that cannot be read -----------------------------------------------------------------------------


def test_samples_that_cannot_be_read():
    for on_error in ("fail", "skip", "replace"):
        with test_storage.serve("auto", on_error) as feedd:
            os.truncate(feedd.path, 900 * test_storage.SIZE)
            done = pack(feedd, "numbers", check=False)
            found = packed.shards(feedd.directory, "made")
            if on_error == "fail":
                assert done.returncode == 1 and "it has shrunk" in done.stderr and not found, (done, found)
                continue
            assert done.returncode == 0, done
            right = feedd.content["x"][:900]
            if on_error == "skip":
                assert "900 samples in 1 shard" in done.stdout and "100 could not be read and were skipped" in done.stdout, done
                assert (found[0].samples, found[0].end) == (900, 1000)
            else:
                # Some were to take the place of others, and could not be read either.
                times = re.search(r"^(\d+) times a sample could not be read, and another took its place", done.stdout, re.M)
                assert times and int(times[1]) >= 100, done
                bad = set(range(900, 1000))
                batch = {"samples": range(1000), "epoch": 0, "first": 0}
                right = [feedd.content["x"][expected.replaced(1000, bad, batch, i)] for i in range(1000)]
            same(packed.content(found), {"x": right})


# ---- Shards that are wrong -----------------------------------------------------------------------------------


def test_shards_that_are_wrong():
    with harness.Instance() as feedd:
        test_ragged.add(feedd, test_tar.three_shards())
        data.add_records(feedd)
        feedd.start()
        pack(feedd, "wds", "--shard-size=32K")
        pack(feedd, "numbers", file="others")
        shards = sorted(feedd.directory.glob("made-*.feed"))
        assert len(shards) > 2
        feedd.add_dataset("broken", format="packed", path=feedd.directory / "broken" / "*")
        feedd.write_config()
        whole = [path.read_bytes() for path in shards]
        other = (feedd.directory / "others-00000.feed").read_bytes()
        last = len(whole) - 1

        def change(number, at, to):
            changed = [*whole]
            changed[number] = whole[number][:at] + to + whole[number][at + len(to) :]
            return changed

        for files, said in (
            (whole, None),
            (whole + whole, None),
            ([other, whole[0]], "00001: found fields that differ from those of the files before it"),
            (whole[1:], "00000: found shard 1, wanted shard 0"),
            (whole[:-1], f"found shard {last - 1}, which is not the last of its set, and none after it"),
            ([whole[0], *whole[2:]], "00001: found shard 2 of the set, wanted shard 1"),
            ([whole[0], other], "00001: found shard 0 of another set, wanted shard 1"),
            ([whole[0][:-1]], "the file has been cut, or something was added to it"),
            ([whole[0] + b"x"], "the file has been cut, or something was added to it"),
            ([whole[0][:4000]], "00000: found the end of the file at byte 4000, wanted the header of a packed shard"),
            ([b"not a shard" * 1000], "found another kind of file, wanted a shard made by feedctl pack"),
            (change(0, 8, b"\2"), "found version 2 of packed shards, wanted 1"),
            (change(0, 48, b"\2"), "found a damaged header"),
            (change(last, len(whole[last]) - 9, b"xyz"), "found a damaged table"),
        ):
            folder = feedd.directory / "broken"
            folder.mkdir()
            for number, content in enumerate(files):
                (folder / f"{number:05}").write_bytes(content)
            done = feedd.check()
            assert (done.returncode == 0) == (said is None), (said, done)
            assert said is None or (said in done.stderr and "[dataset broken]" in done.stderr), (said, done.stderr)
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def test_settings_that_do_not_fit():
    with harness.Instance() as feedd:
        test_ragged.add(feedd, test_tar.three_shards())
        feedd.start()
        pack(feedd, "wds")
        for options, said in (
            ({"field_x": "u8 @ 0"}, "found in a dataset of format packed"),
            ({"pad_cls": "3"}, "found no field of that name with samples of different lengths"),
            ({"pad_jpg": "x"}, "wanted a LENGTH from 1 to"),
        ):
            feedd.add_dataset("again", format="packed", path=feedd.directory / "made-*.feed", **options)
            feedd.write_config()
            done = feedd.check()
            assert done.returncode and said in done.stderr, (options, done)
