"""Files that change, shrink or go while they are served: an error with file, offset and reason, or skipped and counted,
as on_error says; never a wrong byte, never a dead loader."""

import os
import re
import time

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 1000, 64
READERS = ("uring", "mapped", "pread")


def test_ring_holds_what_direct_reads_may_have_in_flight():
    for settings, direct, least, most in (
        ({"ring_memory": "1G"}, "yes", 64, 80), ({"ring_memory": "1G"}, "no", 8, 40),
        ({"ring_memory": "64M"}, "yes", 8, 40), ({"ring_memory": "1G", "user_ring_memory": "64M"}, "yes", 8, 40),
    ):  # fmt: skip
        with harness.Instance(ring="0", loaders=1, queue_depth=64, io="uring", **settings) as feedd:
            path = feedd.directory / "large.bin"
            path.write_bytes(bytes(8 << 20))
            feedd.add_dataset("large", format="records", path=path, record_bytes=1 << 20, field_x=f"u8[{1 << 20}] @ 0",
                              io_direct=direct)  # fmt: skip
            feedd.start()
            with consumer.Consumer(feedd, "large", 1, step=True) as reader:
                reader.attached()
                (feed,) = feedd.statistics()["feeds"]
                assert least << 20 <= feed["ring_bytes"] <= most << 20, (settings, direct, feed["ring_bytes"])


def serve(io, on_error, **options):
    """Two datasets: one that the test breaks, and one beside it."""
    instance = harness.Instance(**{"ring": "64K", "loader_timeout": 5, **options.pop("settings", {})})
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE, io=io, on_error=on_error, **options)
    data.add_records(instance, "others", samples=100, size=SIZE, io=io)
    instance.content = expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})
    return instance.start()


def counters(instance, dataset="numbers"):
    (feed,) = [feed for feed in instance.statistics()["feeds"] if feed["dataset"] == dataset]
    return {**feed["loader_counters"], "replaced": feed["feed_counters"]["children_replaced"]}


# ---- on_error = fail ---------------------------------------------------------------------------------------


def check_failure(io, samples_left, extra_bytes=0, **options):
    """The file ends early: readers get EIO and are told where; the other dataset continues."""
    with serve(io, "fail", **options) as feedd:
        with consumer.Consumer(feedd, "others", 10, step=True) as bystander:
            bystander.attached()
            os.truncate(feedd.path, samples_left * SIZE + extra_bytes)
            reader = consumer.Consumer(feedd, "numbers", 10)
            batches = reader.fail("EIO", "dataset numbers", f"{feedd.path}, offset ", "it has shrunk",
                                  "; on_error = skip in feedd.conf leaves such samples out")  # fmt: skip
            # Many are read at a time, so it need not be the first one that is missing.
            sample, offset = re.search(r"sample (\d+) .*, offset (\d+):", reader.last["text"]).groups()
            assert samples_left <= int(sample) < SAMPLES and int(offset) == int(sample) * SIZE, reader.last
            expected.check_bytes(feedd.content, batches)
            assert len(batches) <= samples_left // 10, f"{len(batches)} batches from {samples_left} samples"
            bystander.take(20)
        errors = feedd.status()["last_errors"]
        assert any(str(feedd.path) in line for line in errors), errors


def test_file_that_ends_early_fails_the_feed():
    for io in READERS:
        check_failure(io, 500)


def test_file_that_ends_within_a_sample_fails_the_feed():
    """Not at a page's end: a map shows zeros after it, which must not pass for data."""
    for io in READERS:
        check_failure(io, 517, 13)


def test_file_that_is_emptied_fails_the_feed():
    for io in READERS:
        check_failure(io, 0)


def test_file_read_past_the_page_cache_that_ends_early_fails_the_feed():
    check_failure("uring", 512, 13, io_direct="yes")
    check_failure("pread", 500, 13, io_direct="yes")


def test_file_is_truncated_while_it_is_read():
    """The consumer has everything up to some batch, then EIO; what it got is right."""
    for io in READERS:
        with serve(io, "fail") as feedd:
            with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
                reader.attached()
                batches = reader.take(20)
                os.truncate(feedd.path, 400 * SIZE + 5)
                while len(batches) < 100:
                    reader.command("next", 20000)
                    if (event := reader.event())["event"] == "error":
                        break
                    reader.release(event)
                    batches.append(event)
                assert event["event"] == "error" and event["code"] == "EIO", event
                assert str(feedd.path) in event["text"] and "shrunk" in event["text"], event
                expected.check_bytes(feedd.content, batches)
                assert [batch["index"] for batch in batches] == list(range(len(batches)))
                # Those at the end were never in the ring, which holds 16 batches.
                assert len(batches) <= 40 + 16


def test_failed_feed_can_be_had_again_when_its_file_is_whole():
    for io in READERS:
        with serve(io, "fail") as feedd:
            whole = feedd.path.read_bytes()
            os.truncate(feedd.path, 300 * SIZE)
            consumer.Consumer(feedd, "numbers", 10, share="job").fail("EIO")
            feedd.path.write_bytes(whole)  # in place: the daemon has this very file open
            batches = consumer.read(feedd, "numbers", 10, share="job")
            expected.check_run(feedd.content, batches, 10)


def test_all_who_share_a_failed_feed_are_told():
    with serve("uring", "fail") as feedd:
        os.truncate(feedd.path, 300 * SIZE)
        readers = [consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=3) for _ in range(3)]
        for reader in readers:
            reader.fail("EIO", feedd.path)


# ---- on_error = skip ---------------------------------------------------------------------------------------


def check_skipped(feedd, batches, whole_samples, epochs, **shape):
    """Exactly the samples that are whole, each once an epoch; the batches are the usual ones with holes."""
    right = expected.run_batches(SAMPLES, 10, epochs=epochs, **shape)
    assert len(batches) == len(right)
    for found, wanted in zip(batches, right):
        left = [sample for sample in wanted["samples"] if sample < whole_samples]
        assert (found["epoch"], found["index"]) == (wanted["epoch"], wanted["index"])
        assert found["count"] == len(left) and found["skipped"] == wanted["count"] - len(left), found
        assert sorted(found["samples"]) == sorted(left), f"{found}, wanted {left}"
    expected.check_bytes(feedd.content, batches)
    skipped = epochs * (SAMPLES - whole_samples)
    found = counters(feedd)
    assert found["skipped"] == skipped, found
    assert found["read_errors"] >= skipped, found
    assert found["samples"] == epochs * whole_samples, found
    assert found["replaced"] == 0, found


def test_samples_beyond_the_end_are_skipped():
    for io in READERS:
        with serve(io, "skip") as feedd:
            os.truncate(feedd.path, 700 * SIZE + 30)
            batches = consumer.read(feedd, "numbers", 10, epochs=2, shuffle=True, seed=3)
            check_skipped(feedd, batches, 700, 2, shuffle=True, seed=3)


def test_skipping_in_file_order():
    """The last batches are empty, but they are there."""
    for io in READERS:
        with serve(io, "skip") as feedd:
            os.truncate(feedd.path, 705 * SIZE)
            batches = consumer.read(feedd, "numbers", 10, epochs=2)
            check_skipped(feedd, batches, 705, 2)
            assert [batch["count"] for batch in batches[69:73]] == [10, 5, 0, 0]


def test_nothing_is_left_to_read():
    for io in READERS:
        with serve(io, "skip") as feedd:
            os.truncate(feedd.path, 0)
            batches = consumer.read(feedd, "numbers", 10, shuffle=True)
            check_skipped(feedd, batches, 0, 1, shuffle=True)


def test_skipped_samples_of_a_large_batch():
    """Holes are closed over many chunks."""
    for io in READERS:
        with serve(io, "skip") as feedd:
            os.truncate(feedd.path, 333 * SIZE)
            (batch,) = consumer.read(feedd, "numbers", 1000, shuffle=True, seed=8)
            assert (batch["count"], batch["skipped"]) == (333, 667)
            assert sorted(batch["samples"]) == list(range(333))
            expected.check_bytes(feedd.content, [batch])


def test_skipped_samples_in_several_fields():
    """A sample of which one field cannot be read is skipped as a whole, and fields stay side by side."""
    for io in READERS:
        with harness.Instance(io=io) as feedd:
            content, fields = {}, {}
            for name, size in (("x", 24), ("y", 4)):
                path = feedd.directory / f"{name}.npy"
                body = b"".join(data.sample_bytes(index, size, salt=size) for index in range(500))
                data.write_npy(path, "|u1", (500, size), body)
                fields[f"field_{name}"] = path
                content[name] = expected.read_npy(path)
            feedd.add_dataset("pairs", format="npy", on_error="skip", **fields)
            feedd.start()
            os.truncate(fields["field_y"], os.path.getsize(fields["field_y"]) - 4 * 100 - 1)
            batches = consumer.read(feedd, "pairs", 32, epochs=2, shuffle=True)
            delivered = [sample for batch in batches for sample in batch["samples"]]
            assert sorted(delivered) == sorted(2 * list(range(399)))
            expected.check_bytes(content, batches)


def test_skipping_with_ranks_and_sharing():
    with serve("mapped", "skip") as feedd:
        os.truncate(feedd.path, 640 * SIZE)
        options = {"share": "job", "wait_for": 4, "world_size": 2, "shuffle": True, "epochs": 2}
        readers = [consumer.Consumer(feedd, "numbers", 16, rank=rank, **options) for rank in (0, 0, 1, 1)]
        runs = [reader.finish() for reader in readers]
        assert [batch["samples"] for batch in runs[0]] == [batch["samples"] for batch in runs[1]]
        delivered = [sample for run in (runs[0], runs[2]) for batch in run for sample in batch["samples"]]
        assert sorted(delivered) == sorted(2 * list(range(640)))
        assert len({len(run) for run in runs}) == 1
        for run in runs:
            expected.check_bytes(feedd.content, run)


def test_skipping_survives_resuming():
    with serve("uring", "skip") as feedd:
        os.truncate(feedd.path, 640 * SIZE)
        with consumer.Consumer(feedd, "numbers", 10, step=True, shuffle=True) as reader:
            reader.attached()
            before = reader.take(41)
            token = reader.token()
        after = consumer.read(feedd, "numbers", 30, shuffle=True, resume=token)
        delivered = [sample for batch in before + after for sample in batch["samples"]]
        assert sorted(delivered) == list(range(640))


def test_many_unreadable_samples_do_not_flood_the_log():
    with serve("uring", "skip", settings={"loaders": 2}) as feedd:
        os.truncate(feedd.path, 0)
        begun = time.monotonic()
        consumer.read(feedd, "numbers", 10, epochs=20, shuffle=True)
        lasted = time.monotonic() - begun
        lines = [line for line in feedd.read_log().splitlines() if "cannot be read" in line]
        most = 2 * 5 * (lasted + 2)  # five per second from each loader
        assert 1 <= len(lines) <= most, f"{len(lines)} lines for 20 thousand samples in {lasted:.1f} s, at most {most:.0f}"
        assert all("file 0" in line and "offset" in line for line in lines)


# ---- Files that are replaced -------------------------------------------------------------------------------


def test_file_that_is_removed_is_served_on():
    """The daemon has it open: what is being trained on does not go away under a job."""
    for io in READERS:
        with serve(io, "fail") as feedd:
            feedd.path.unlink()
            expected.check_run(feedd.content, consumer.read(feedd, "numbers", 10, epochs=2), 10, epochs=2)


def test_file_that_is_replaced_is_another_one():
    with serve("auto", "fail") as feedd:
        new = feedd.directory / "new"
        new.write_bytes(bytes(SAMPLES * SIZE))
        new.rename(feedd.path)
        expected.check_run(feedd.content, consumer.read(feedd, "numbers", 10), 10)
