"""Views whose samples are listed in a file."""

import array
import random

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 1000, 24
CODES = {"|i1": "b", "|u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q"}


def write_indices(path, numbers, descr="<i8"):
    data.write_npy(path, descr, (len(numbers),), array.array(CODES[descr], numbers).tobytes())


def some(count, seed=1):
    """Random sample numbers, some of them more than once."""
    dice = random.Random(seed)
    return [dice.randrange(SAMPLES) for _ in range(count)]


def serve(indices, descr="<i8", **settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    instance.list = instance.directory / "subset.npy"
    write_indices(instance.list, indices, descr)
    instance.add_view("subset", "numbers", indices="subset.npy")
    return instance


def content(instance, indices):
    whole = expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})["x"]
    return {"x": [whole[number] for number in indices]}


def check(feedd, indices, name="subset", batch_size=7, **options):
    batches = consumer.read(feedd, name, batch_size, **options)
    expected.check_run(content(feedd, indices), batches, batch_size, **options)


def test_samples_come_in_the_order_of_the_list():
    indices = some(333)
    with serve(indices).start() as feedd:
        check(feedd, indices)
        check(feedd, indices, epochs=3, shuffle=True, seed=9)
        said = feedd.ctl("datasets").stdout
        assert "view of numbers" in said and "333" in said, said


def test_every_type_of_integer():
    for descr, code in CODES.items():
        most = min(SAMPLES, 1 << (8 * array.array(code).itemsize - code.islower())) - 1
        indices = [most, 0, 5, most - 1, 5]
        with serve(indices, descr).start() as feedd:
            check(feedd, indices)


def test_a_list_longer_than_the_dataset():
    """More than a page of it, and more than the daemon reads at once."""
    indices = some(20000)
    with serve(indices).start() as feedd:
        check(feedd, indices, batch_size=512, epochs=2, shuffle=True)
        said = feedd.ctl("read", "subset", "--epochs=1", "--shuffle", "--batch-size=100", "--verify").stdout
        assert "verified" in said, said


def test_each_reader_and_a_transform():
    indices = some(100)
    for io in ("uring", "mapped", "pread"):
        with serve(indices, io=io) as feedd:
            feedd.add_view("halves", "numbers", indices=str(feedd.list), transform_x="scale 0.5, cast f32")
            feedd.start()
            check(feedd, indices)
            batches = consumer.read(feedd, "halves", 10)
            assert [batch["samples"] for batch in batches] == [list(range(at, at + 10)) for at in range(0, 100, 10)]


def test_all_that_serves_a_view_dies():
    indices = some(500)
    with serve(indices).start() as feedd:
        batches = consumer.read_through_kills(feedd, "subset", 10, 50, shuffle=True, epochs=1)
        expected.check_run(content(feedd, indices), batches, 10, shuffle=True)


def test_a_list_that_has_changed_is_another_view():
    first, second = some(300), some(300, seed=2)
    with serve(first).start() as feedd:
        with consumer.Consumer(feedd, "subset", 10, step=True, epochs=2) as reader:
            reader.attached()
            batches = reader.take(3)
            token = reader.token()
            write_indices(feedd.list, second)
            feedd.ctl("reload")
            batches += reader.take(57)
            reader.next_ends()
            expected.check_run(content(feedd, first), batches, 10, epochs=2)
        consumer.refused(feedd, "ESTALE", dataset="subset", batch_size=10, resume=token)
        check(feedd, second)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(write, *parts, status=1, **options):
    with harness.Instance() as instance:
        data.add_records(instance, samples=10, size=8)
        path = instance.directory / "list.npy"
        write(path)
        instance.add_view("some", "numbers", indices=path, **options)
        done = instance.check()
        assert done.returncode == status and len(done.stderr.splitlines()) == 1, done
        for part in ("[view some] indices: ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def refuse_array(descr, shape, content, *parts):
    refuse(lambda path: data.write_npy(path, descr, shape, content), "list.npy: ", *parts)


def test_invalid_lists():
    wanted = "wanted numbers from 0 to 9"
    refuse(lambda path: write_indices(path, [3, 10]), f"found sample number 10 at index 1, {wanted}")
    refuse(lambda path: write_indices(path, [-1], "|i1"), f"found sample number -1 at index 0, {wanted}")
    refuse(lambda path: write_indices(path, [3, -(1 << 63)]), f"found sample number -{1 << 63} at index 1, {wanted}")
    refuse(lambda path: write_indices(path, [(1 << 64) - 1], "<u8"), f"found sample number {(1 << 64) - 1}", wanted)
    refuse_array("<f4", (2,), bytes(8), "found f32[2], wanted an array of integers with one dimension")
    refuse_array("<i4", (2, 3), bytes(24), "found i32[2,3], wanted an array of integers with one dimension")
    refuse_array("<i4", (), bytes(4), "dimensions")
    refuse_array("|b1", (10,), bytes(10), "found a mask, wanted sample numbers; save numpy.flatnonzero(mask)")
    refuse_array("<i8", (0,), b"", "at least one sample")
    refuse_array("<i8", (2,), bytes(15), "found 15 bytes of data, wanted 16")
    refuse_array("<i8", (1 << 28,), bytes(15), "found 268435456 sample numbers, wanted at most 134217728")
    refuse_array(">i8", (2,), bytes(16), "big-endian")
    refuse(lambda path: path.write_text("3\n4\n" * 20), "found no npy header")
    refuse(lambda path: path.mkdir(), "list.npy")
    refuse(lambda path: None, "list.npy", "No such file")


def test_what_is_wrong_with_the_dataset_is_not_blamed_on_the_list():
    with harness.Instance() as instance:
        path = instance.directory / "large.bin"
        with path.open("wb") as file:
            file.truncate(300 << 20)
        instance.add_dataset("large", format="records", path=path, record_bytes=300 << 20, field_x=f"u8[{300 << 20}] @ 0")
        write_indices(instance.directory / "list.npy", [0])
        instance.add_view("some", "large", indices="list.npy", transform_x="cast f32")
        done = instance.check()
        assert "[view some] path: found samples of 1258291200 bytes" in done.stderr, done
