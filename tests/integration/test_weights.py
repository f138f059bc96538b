"""Views that draw their samples by weights from a file."""

import array
import json
import os
import random
import struct

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 1000, 24
CODES = {"|i1": "b", "|u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q",
         "<f2": "e", "<f4": "f", "<f8": "d"}  # fmt: skip


def write_weights(path, weights, descr="<f8"):
    data.write_npy(path, descr, (len(weights),), struct.pack(f"<{len(weights)}{CODES[descr]}", *weights))


def some(seed=1, count=SAMPLES):
    """Random weights, every fourth of which is 0."""
    dice = random.Random(seed)
    return [dice.random() if number % 4 else 0.0 for number in range(count)]


def serve(weights, descr="<f8", view=None, **settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    instance.weights = instance.directory / "weights.npy"
    write_weights(instance.weights, weights, descr)
    instance.add_view("drawn", "numbers", weights="weights.npy", **(view or {}))
    return instance


def content(instance):
    return expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})


def check(feedd, weights, batch_size=7, count=SAMPLES, name="drawn", seed=0, shuffle=False, **options):
    batches = consumer.read(feedd, name, batch_size, seed=seed, shuffle=shuffle, **options)
    expected.check_places(count, batches, batch_size, **options)
    expected.check_drawn(content(feedd), weights, batches, seed)
    return batches


# ---- What is drawn -----------------------------------------------------------------------------------------


def test_samples_are_drawn_by_weight():
    weights = some()
    with serve(weights).start() as feedd:
        whole = content(feedd)["x"]
        assert len(set(whole)) == SAMPLES
        check(feedd, weights, epochs=3, seed=9)
        said = feedd.ctl("datasets").stdout
        assert "view of numbers" in said and "1000" in said, said
        said = feedd.check().stdout
        assert "drawn: view of numbers, drawn by weight, format records, 1000 samples of 24 bytes" in said, said


def test_shuffle_makes_no_difference():
    weights = some()
    with serve(weights).start() as feedd:
        order = {"epochs": 2, "seed": 5}
        with consumer.Consumer(feedd, "drawn", 10, step=True, share="one", shuffle=True, **order) as reader:
            reader.attached()
            batches = reader.take(5)
            with consumer.Consumer(feedd, "drawn", 10, step=True, share="one", shuffle=False, **order) as other:
                other.attached()
            batches += reader.take(195)
            reader.next_ends()
            expected.check_drawn(content(feedd), weights, batches, 5)
            consumer.refused(feedd, "EEXIST", "seed", dataset="drawn", share="one", seed=6)
            shown = json.loads(feedd.ctl("feeds", "--json").stdout)
            assert [(feed["shuffle"], feed["seed"]) for feed in shown] == [(True, "5")], shown
            assert "seed 5" in feedd.ctl("feeds").stdout
        token = resume_after(feedd, 3, shuffle=True, **order)
        rest = consumer.read(feedd, "drawn", 10, resume=token, shuffle=False, **order)
        assert rest[0]["first"] == 30 and len(rest) == 197
        expected.check_drawn(content(feedd), weights, rest, 5)


def test_seeds_and_epochs_draw_differently():
    weights = [1.0] * SAMPLES
    with serve(weights).start() as feedd:
        first = check(feedd, weights, batch_size=SAMPLES, epochs=2, seed=1)
        other = check(feedd, weights, batch_size=SAMPLES, epochs=2, seed=2)
        assert len({batch["crc"]["x"] for batch in first + other}) == 4


def test_every_type_of_number():
    for descr, code in CODES.items():
        most = 60000.0 if code in "efd" else (1 << (8 * array.array(code).itemsize - code.islower())) - 1
        weights = [0, most, 1, 0] + [most // 3 + 1] * (SAMPLES - 4)
        if code == "e":
            weights[4:] = [2.0**-24] * (SAMPLES - 4)
        with serve(weights, descr).start() as feedd:
            check(feedd, weights)


def test_one_sample_has_all_the_weight():
    weights = [0] * SAMPLES
    weights[617] = 1
    with serve(weights, "|u1").start() as feedd:
        batches = check(feedd, weights, batch_size=100)
        right = expected.crc(content(feedd), [617] * 100)
        assert all(batch["crc"] == right for batch in batches)


def test_an_epoch_of_another_length():
    weights = some()
    for count in (1, 10, 12345):
        with serve(weights, view={"epoch_samples": count}).start() as feedd:
            check(feedd, weights, count=count, epochs=2, seed=3)
            check(feedd, weights, batch_size=10, count=count, epochs=2, seed=3, drop_last=count >= 10)


def test_each_reader_and_a_transform():
    weights = some()
    for io in ("uring", "mapped", "pread"):
        with serve(weights, io=io) as feedd:
            feedd.add_view("floats", "numbers", weights=str(feedd.weights), transform_x="cast f32")
            feedd.start()
            check(feedd, weights, epochs=2)
            floats = {"x": [struct.pack(f"<{SIZE}f", *sample) for sample in content(feedd)["x"]]}
            expected.check_drawn(floats, weights, consumer.read(feedd, "floats", 10))


def test_feedctl_verifies_draws():
    """More weights than a page has."""
    weights = some(count=10000)
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=10000, size=16)
        write_weights(feedd.directory / "weights.npy", weights)
        feedd.add_view("drawn", "numbers", weights="weights.npy", epoch_samples=5000)
        feedd.start()
        for more in ([], ["--shuffle"], ["--seed=7"], ["--seed=7", "--shuffle", "--drop-last"]):
            said = feedd.ctl("read", "drawn", "--epochs=2", "--batch-size=99", "--verify", *more).stdout
            assert "verified" in said and "equal to the files'" in said, said


# ---- Ranks and places --------------------------------------------------------------------------------------


def resume_after(feedd, batches, **options):
    with consumer.Consumer(feedd, "drawn", 10, step=True, **options) as reader:
        reader.attached()
        reader.take(batches)
        return reader.token()


def test_ranks_and_resume_with_another_world_size():
    weights, order = some(), {"epochs": 2, "seed": 11}
    with serve(weights).start() as feedd:
        with consumer.Consumer(feedd, "drawn", 10, step=True, **order) as reader:
            reader.attached()
            together = reader.take(31)
            token = reader.token()
        for rank in range(3):
            ranks = {"rank": rank, "world_size": 3, "local_world_size": 1}
            together += consumer.read(feedd, "drawn", 10, resume=token, **ranks, **order)
        expected.check_drawn(content(feedd), weights, together, 11)
        assert expected.check_exactly_once(SAMPLES, together) == 2  # every draw once
        consumer.refused(feedd, "ESTALE", "seed 11, not 12", dataset="drawn", resume=token, epochs=2, seed=12)
        consumer.refused(feedd, "ESTALE", "other data", resume=token)


def test_all_that_serves_a_view_dies():
    weights = some()
    with serve(weights).start() as feedd:
        batches = consumer.read_through_kills(feedd, "drawn", 10, 100, epochs=1, seed=4)
        expected.check_places(SAMPLES, batches, 10)
        expected.check_drawn(content(feedd), weights, batches, 4)


# ---- Weights that change -----------------------------------------------------------------------------------


def test_a_run_continues_with_other_weights():
    first, second, order = some(), some(seed=2), {"epochs": 2, "seed": 6}
    with serve(first).start() as feedd:
        with consumer.Consumer(feedd, "drawn", 10, step=True, share="old", **order) as reader:
            reader.attached()
            batches = reader.take(13)
            token = reader.token()
            write_weights(feedd.weights, second, "<f8")
            feedd.ctl("reload")
            consumer.refused(feedd, "EEXIST", "before its files changed", dataset="drawn", share="old", **order)
            batches += reader.take(187)
            reader.next_ends()
            expected.check_drawn(content(feedd), first, batches, 6)  # a feed in use keeps its weights
        rest = consumer.read(feedd, "drawn", 10, resume=token, **order)
        assert rest[0]["first"] == 130 and len(rest) == 187
        expected.check_drawn(content(feedd), second, rest, 6)
        assert rest[0]["crc"] != batches[13]["crc"]


def test_a_restarted_daemon_draws_with_its_weights():
    first, second = some(), some(seed=2)
    with serve(first).start() as feedd:
        order = {"epochs": 1, "reconnect_timeout": 20000, "prefetch": 2}
        with consumer.Consumer(feedd, "drawn", 10, step=True, **order) as reader:
            reader.attached()
            before = reader.take(10)
            feedd.process.kill()
            feedd.process.wait()
            write_weights(feedd.weights, second)
            feedd.start()
            after = reader.take(90)
            reader.next_ends()
            expected.check_places(SAMPLES, before + after, 10)
            expected.check_drawn(content(feedd), first, before)
            expected.check_drawn(content(feedd), second, after[2:])  # two may have been on their way


def test_what_else_changes_makes_another_view():
    weights = some()
    with serve(weights).start() as feedd:
        token = resume_after(feedd, 3)
        feedd.add_view("drawn", "numbers", weights="weights.npy", epoch_samples=SAMPLES + 1)
        feedd.write_config()
        said = feedd.ctl("reload").stdout
        assert "view drawn: changed (epoch_samples); feeds in use keep the old version" in said, said
        consumer.refused(feedd, "ESTALE", dataset="drawn", resume=token)
        feedd.add_view("drawn", "numbers")
        feedd.write_config()
        feedd.ctl("reload")
        consumer.refused(feedd, "ESTALE", dataset="drawn", resume=token)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(write, *parts, status=1, key="weights", **options):
    with harness.Instance() as instance:
        data.add_records(instance, samples=4, size=8)
        path = instance.directory / "w.npy"
        write(path)
        chosen = {"weights": path, **options}
        instance.add_view("some", "numbers", **{name: value for name, value in chosen.items() if value is not None})
        done = instance.check()
        assert done.returncode == status and len(done.stderr.splitlines()) == 1, done
        for part in (f"[view some] {key}: ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def refuse_array(descr, shape, content, *parts):
    refuse(lambda path: data.write_npy(path, descr, shape, content), "w.npy: ", *parts)


def refuse_weights(weights, descr, *parts):
    refuse(lambda path: write_weights(path, weights, descr), "w.npy: ", *parts)


def test_weights_that_cannot_be():
    wanted = "wanted finite numbers that are not below 0"
    refuse_weights([1, 2, -0.5, 3], "<f8", f"found weight -0.5 at index 2, {wanted}")
    refuse_weights([1, -1.25, 2, 3], "<f4", f"found weight -1.25 at index 1, {wanted}")
    refuse_weights([1, 2, 3, -(2.0**-24)], "<f2", f"found weight -5.96046e-08 at index 3, {wanted}")
    refuse_weights([-128, 0, 0, 1], "|i1", f"found weight -128 at index 0, {wanted}")
    refuse_weights([1, 1, 1, -(1 << 63)], "<i8", f"found weight -{1 << 63} at index 3, {wanted}")
    for descr in ("<f2", "<f4", "<f8"):
        refuse_weights([1, float("nan"), 1, 1], descr, f"found weight nan at index 1, {wanted}")
        refuse_weights([1, 1, 1, float("inf")], descr, f"found weight inf at index 3, {wanted}")
        refuse_weights([float("-inf"), 1, 1, 1], descr, f"found weight -inf at index 0, {wanted}")
        refuse_weights([0.0, -0.0, 0.0, 0.0], descr, "found weights that are all 0, wanted at least one above 0")
    refuse_weights([0] * 4, "<i4", "found weights that are all 0, wanted at least one above 0")
    refuse_weights([1] * 5, "<f8", "found 5 weights, wanted 4, one for each sample of dataset numbers")
    refuse_weights([1] * 3, "|u1", "found 3 weights, wanted 4, one for each sample of dataset numbers")


def test_files_that_hold_no_weights():
    wanted = "wanted an array of integers or floats with one dimension"
    refuse_array("|b1", (4,), bytes(4), f"found bool[4], {wanted}")
    refuse_array("<c8", (4,), bytes(32), f"found c64[4], {wanted}")
    refuse_array("<f4", (4, 1), bytes(16), f"found f32[4,1], {wanted}")
    refuse_array("<f4", (), bytes(4), "dimensions")
    refuse_array("<f4", (0,), b"", "found 0 weights, wanted 4")
    refuse_array("<f4", (4,), bytes(15), "found 15 bytes of data, wanted 16")
    refuse_array("<f4", (4,), bytes(17), "found 17 bytes of data, wanted 16")
    refuse_array(">f4", (4,), bytes(16), "big-endian")
    refuse_array("|O", (4,), bytes(32), "Python objects")
    refuse(lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)), "found a zip or npz file, wanted npy")
    refuse(lambda path: path.write_text("3\n4\n" * 20), "found no npy header")
    refuse(lambda path: path.mkdir(), "w.npy")
    refuse(lambda path: None, "w.npy", "No such file")


def test_invalid_draws():
    def write(path):
        write_weights(path, [1] * 4)

    wrong = {"status": os.EX_CONFIG}
    refuse(write, "found without weights", key="epoch_samples", epoch_samples=5, weights=None, **wrong)
    refuse(write, "whole number", key="epoch_samples", epoch_samples=0, **wrong)
    refuse(write, "whole number", key="epoch_samples", epoch_samples=(1 << 40) + 1, **wrong)
