"""feedctl errors: samples that could not be read, with file and reason, for those who may see them."""

import json
import os
import time

import consumer
import harness
import test_storage
import users

SIZE = test_storage.SIZE


def errors(feedd, dataset="numbers", **identity):
    return json.loads(feedd.ctl("errors", dataset, "--json", **identity).stdout)


def counted(feedd, what, count, dataset="numbers"):
    """Samples read ahead for batches that nobody has taken yet may still follow."""
    harness.eventually(lambda: errors(feedd, dataset)[what] >= count, 3, f"{count} {what}: {errors(feedd, dataset)}")
    return errors(feedd, dataset)


def read(feedd, dataset="numbers", **options):
    with consumer.Consumer(feedd, dataset, 50, epochs=1, **options) as reader:
        return reader.finish()


def test_none():
    with test_storage.serve("auto", "skip") as feedd:
        read(feedd)
        assert errors(feedd) == {"fatal": 0, "skipped": 0, "replaced": 0, "incomplete": 0, "not_shown": 0, "samples": []}
        assert feedd.ctl("errors", "numbers").stdout == "none since the daemon started\n"
        done = feedd.ctl("errors", "number", check=False)
        assert done.returncode == 1 and 'perhaps you mean "numbers"' in done.stderr, done


def test_skipped_samples_are_listed():
    for io in test_storage.READERS:
        with test_storage.serve(io, "skip") as feedd:
            os.truncate(feedd.path, 990 * SIZE)
            before = time.time()
            batches = read(feedd)
            assert sum(batch["skipped"] for batch in batches) == 10
            found = counted(feedd, "skipped", 10)
            assert (found["skipped"], found["replaced"], found["fatal"]) == (10, 0, 0), found
            assert {row["sample"] for row in found["samples"]} == set(range(990, 1000)) and len(found["samples"]) == 10
            for row in found["samples"]:
                assert row["what"] == "skipped" and row["file"] == str(feedd.path), row
                assert row["offset"] == row["sample"] * SIZE and row["reason"] == "the file ends there", row
                assert before - 1 < row["time"] < time.time() + 1, row
            text = feedd.ctl("errors", "numbers").stdout
            assert text.startswith("since the daemon started: 10 skipped, 0 replaced, 0 fatal\n"), text
            assert "the file ends there" in text and str(feedd.path) in text
            narrow = feedd.ctl("errors", "numbers", environment={"COLUMNS": "40"}).stdout  # nothing is cut
            assert narrow.count(str(feedd.path)) == 10, narrow
            assert " ".join(narrow.split()).count(": the file ends there sample ") == 9, narrow
            assert errors(feedd, "others")["samples"] == []


def test_known_as_soon_as_batches_arrive():
    """The daemon collects the reports when it is asked, and need not be waited for."""
    for on_error in ("skip", "replace"):
        with test_storage.serve("auto", on_error) as feedd:
            os.truncate(feedd.path, 990 * SIZE)
            what = {"skip": "skipped", "replace": "replaced"}[on_error]
            for run in range(1, 6):
                with consumer.Consumer(feedd, "numbers", 50, epochs=1, step=True) as reader:
                    reader.attached()
                    reader.take(20)
                    found = errors(feedd)
                    assert found[what] >= 10 * run and len(found["samples"]) >= 10, (run, found)


def test_the_last_ones_are_kept():
    """As many as have room; all are counted, also those that come faster than the daemon looks."""
    with test_storage.serve("pread", "skip") as feedd:
        os.truncate(feedd.path, 0)
        read(feedd)
        found = counted(feedd, "skipped", 1000)
        assert found["skipped"] == 1000 and 0 < len(found["samples"]) <= 64, found
        read(feedd)
        assert counted(feedd, "skipped", 2000)["skipped"] == 2000
        assert 32 <= len(errors(feedd)["samples"]) <= 64


def test_a_sample_that_ends_a_feed():
    with test_storage.serve("uring", "fail") as feedd:
        os.truncate(feedd.path, 990 * SIZE)
        with consumer.Consumer(feedd, "numbers", 10, epochs=1) as reader:
            reader.fail("EIO")
        found = counted(feedd, "fatal", 1)
        assert found["skipped"] == 0 and found["samples"][0]["what"] == "fatal", found


def test_views_and_reloads():
    """A view has its own list, in the numbers of its dataset. Lists survive a reload, and go with their dataset."""
    with test_storage.serve("auto", "skip") as feedd:
        feedd.add_view("last", "numbers", samples="98%..")
        feedd.write_config()
        feedd.ctl("reload")
        os.truncate(feedd.path, 999 * SIZE)
        with consumer.Consumer(feedd, "last", 10, epochs=1) as reader:
            reader.finish()
        found = counted(feedd, "skipped", 1, "last")
        assert [row["sample"] for row in found["samples"]] == [999] and errors(feedd)["samples"] == []
        feedd.add_view("first", "numbers", samples="..10%")
        feedd.write_config()
        feedd.ctl("reload")
        assert errors(feedd, "last")["skipped"] == 1
        del feedd.views["last"]
        feedd.write_config()
        feedd.ctl("reload")
        assert feedd.ctl("errors", "last", check=False).returncode == 1
        feedd.add_view("last", "numbers", samples="98%..")
        feedd.write_config()
        feedd.ctl("reload")
        assert errors(feedd, "last")["skipped"] == 0


def test_loaders_that_are_killed_have_told():
    with test_storage.serve("pread", "skip", settings={"loaders": 1}) as feedd:
        os.truncate(feedd.path, 900 * SIZE)
        with consumer.Consumer(feedd, "numbers", 50, epochs=1, step=True) as reader:
            reader.attached()
            reader.take(18)
            for pid in feedd.children_called("loader"):
                harness.kill(pid)
            reader.take(2)
        assert counted(feedd, "skipped", 100)["skipped"] >= 100


def test_other_users_are_only_counted():
    with users.serve({"on_error": "skip", "allow_users": f"{users.NOBODY} {users.DAEMON}"}) as feedd:
        os.truncate(feedd.path, 990 * SIZE)
        with consumer.Consumer(feedd, "numbers", 10, epochs=1, user=users.NOBODY) as reader:
            reader.finish()
        bad = counted(feedd, "skipped", 10)
        assert len(bad["samples"]) == 10 and bad["not_shown"] == 0  # root sees all
        daemon = {"user": users.DAEMON, "group": users.DAEMON, "extra_groups": []}
        assert errors(feedd, **users.AS_NOBODY) == bad
        assert errors(feedd, **daemon) == {**bad, "samples": [], "not_shown": 10}
        assert "not shown: 10 of feeds of other users" in feedd.ctl("errors", "numbers", **daemon).stdout
        done = feedd.ctl("errors", "numbers", check=False, user=4711, group=4711, extra_groups=[])
        assert done.returncode == 1 and "you may not use dataset numbers" in done.stderr, done
