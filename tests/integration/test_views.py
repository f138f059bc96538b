"""Views: named parts of datasets, which clients open like datasets."""

import json
import os

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 1000, 24
SHUFFLED = {"shuffle": True, "seed": 5}


def serve(**settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    instance.add_view("train", "numbers", samples="0%..90%", split_seed=3)
    instance.add_view("val", "numbers", samples="90%..", split_seed=3)
    instance.add_view("head", "numbers", samples="10..110")
    return instance


def content(instance, begin=0, end=SAMPLES, seed=None):
    whole = expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})
    return expected.view(whole, begin, end, seed)


def check_view(feedd, name, right, batch_size=7, **options):
    expected.check_run(right, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


def test_a_split_has_its_samples():
    with serve().start() as feedd:
        check_view(feedd, "train", content(feedd, 0, 900, 3), epochs=2, **SHUFFLED)
        check_view(feedd, "val", content(feedd, 900, 1000, 3), epochs=2, **SHUFFLED)
        check_view(feedd, "val", content(feedd, 900, 1000, 3))


def test_splits_divide_the_dataset():
    with serve().start() as feedd:
        parts = [content(feedd, *bounds, 3)["x"] for bounds in ((0, 900), (900, 1000))]
        assert len(parts[0]) == 900 and len(parts[1]) == 100
        assert sorted(parts[0] + parts[1]) == sorted(content(feedd)["x"])


def test_a_range_is_in_order():
    with serve().start() as feedd:
        check_view(feedd, "head", content(feedd, 10, 110))
        check_view(feedd, "head", content(feedd, 10, 110), epochs=3, **SHUFFLED)


def test_of_several_files_and_every_reader():
    for io in ("uring", "mapped", "pread"):
        with harness.Instance(io=io) as feedd:
            for number in range(3):
                data.write_records(feedd.directory / f"part{number}.bin", 100, SIZE, first=100 * number)
            paths = sorted(feedd.directory.glob("part*.bin"))
            feedd.add_dataset(
                "parts", format="records", path=feedd.directory / "part*.bin", record_bytes=SIZE, field_x=f"u8[{SIZE}] @ 0"
            )
            feedd.add_view("middle", "parts", samples="25%..75%")
            feedd.add_view("some", "parts", samples="..50%", split_seed=0)
            feedd.start()
            whole = expected.read_records(paths, SIZE, {"x": (0, SIZE)})
            check_view(feedd, "middle", expected.view(whole, 75, 225), **SHUFFLED)
            check_view(feedd, "some", expected.view(whole, 0, 150, 0), **SHUFFLED)


def test_ranks_and_resume_with_another_world_size():
    with serve().start() as feedd:
        order = {"epochs": 2, **SHUFFLED}
        with consumer.Consumer(feedd, "train", 10, step=True, **order) as reader:
            reader.attached()
            together = reader.take(31)
            token = reader.token()
        for rank in range(3):
            together += consumer.read(
                feedd, "train", 10, rank=rank, world_size=3, local_world_size=1, resume=token, **order
            )
        expected.check_bytes(content(feedd, 0, 900, 3), together)
        assert expected.check_exactly_once(900, together) == 2


def test_a_view_has_transforms_of_its_own():
    with harness.Instance() as feedd:
        data.write_records(feedd.directory / "pairs.bin", 100, 16)
        feedd.add_dataset(
            "pairs", format="records", path=feedd.directory / "pairs.bin", record_bytes=16, field_x="u8[4] @ 0",
            field_y="u8[4] @ 8", transform_x="scale 2", transform_y="scale 3",
        )  # fmt: skip
        feedd.add_view("other", "pairs", samples="..10", transform_y="cast f16")
        feedd.start()
        said = feedd.ctl("datasets").stdout
        rows = {line.split()[0]: line for line in said.splitlines()}
        assert "f32" in rows["pairs"] and "f16" not in rows["pairs"], said
        assert "f32" in rows["other"] and "f16" in rows["other"], said


def test_a_token_is_of_one_view():
    """Also when the view of that name has become another one."""
    with serve().start() as feedd:
        with consumer.Consumer(feedd, "train", 10, step=True) as reader:
            reader.attached()
            reader.take(3)
            token = reader.token()
        for name in ("val", "numbers"):
            consumer.refused(feedd, "ESTALE", dataset=name, batch_size=10, resume=token)
        feedd.add_view("train", "numbers", samples="0%..90%", split_seed=4)
        feedd.write_config()
        said = feedd.ctl("reload").stdout
        assert "view train: changed (split_seed); feeds in use keep the old version" in said, said
        consumer.refused(feedd, "ESTALE", dataset="train", batch_size=10, resume=token)
        check_view(feedd, "train", content(feedd, 0, 900, 4))


def test_a_reload_adds_and_removes_views():
    with serve().start() as feedd:
        del feedd.views["head"]
        feedd.add_view("tail", "numbers", samples="500..")
        feedd.write_config()
        said = feedd.ctl("reload").stdout
        assert "view tail: added" in said and "view head: removed; feeds in use continue" in said, said
        check_view(feedd, "tail", content(feedd, 500, 1000))
        consumer.refused(feedd, "ENOENT", "head", dataset="head")


def test_a_sample_that_cannot_be_read_is_named_as_that_of_the_dataset():
    with serve(io="uring").start() as feedd:
        os.truncate(feedd.path, 500 * SIZE)
        with consumer.Consumer(feedd, "val", 100, step=True) as reader:
            reader.attached()
            reader.next_fails("EIO", "dataset numbers: sample ", "cannot be read")


def test_the_users_of_a_view_are_those_of_its_dataset():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=10, size=8, allow_users="nobody")
        feedd.add_view("part", "numbers", samples="..5")
        feedd.start()
        rows = feedd.ctl("datasets").stdout
        assert "part" in rows, rows
        configured = feedd.check()
        assert configured.returncode == 0 and "part: view of numbers, " in configured.stdout, configured


def test_feedctl_knows_views():
    with serve().start() as feedd:
        said = feedd.ctl("datasets").stdout
        assert "view of numbers" in said, said
        rows = {row["name"]: row for row in json.loads(feedd.ctl("datasets", "--json").stdout)}
        assert rows["val"]["of"] == "numbers" and rows["numbers"]["of"] is None, rows
        for name in ("train", "head", "numbers"):
            said = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--batch-size=8", "--verify").stdout
            assert "verified" in said, said


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(*parts, status=os.EX_CONFIG, **options):
    with harness.Instance() as instance:
        data.add_records(instance, samples=10, size=8)
        instance.add_view("other", "numbers")
        instance.views["part"] = options
        done = instance.check()
        assert done.returncode == status and len(done.stderr.splitlines()) == 1, done
        for part in ("[view part]", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_views_that_cannot_be():
    refuse("of: found nothing", samples="..5")
    refuse('of: there is no dataset named "nubmers"; perhaps you mean "numbers"', of="nubmers")
    refuse("of: there is no dataset named \"xyz\"", of="xyz")
    refuse("which is a view", of="other")
    refuse("samples: found \"half\", wanted BEGIN..END", of="numbers", samples="half")
    refuse("samples: found \"0%..90\", wanted a percentage after one, such as 0%..90%", of="numbers", samples="0%..90")
    refuse("split_seed", "whole number", of="numbers", split_seed="-1")
    refuse("found in this section, wanted in [dataset NAME]", of="numbers", record_bytes="8")
    wanted = 'samples: found "5..11", wanted a part of the 10 samples of dataset numbers'
    refuse(wanted, status=1, of="numbers", samples="5..11")
    refuse("which is empty", status=1, of="numbers", samples="5..5")
    wanted = "pad.x: found no field of that name with samples of different lengths"
    refuse(wanted, of="numbers", **{"pad.x": "5"})
    refuse("transform.y", "no field of that name", of="numbers", **{"transform.y": "scale 2"})


def test_a_view_and_a_dataset_of_one_name():
    with harness.Instance() as instance:
        data.add_records(instance, samples=10, size=8)
        instance.add_view("numbers", "numbers")
        done = instance.check()
        assert done.returncode == os.EX_CONFIG and "[view numbers]: found a second dataset, view or mix" in done.stderr, done
