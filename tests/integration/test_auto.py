"""io = auto: data in the page cache is copied from there, other data is read with io_uring, and a change is
noticed."""

import ctypes
import errno
import os
import time

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 2000, 4096
CACHESTAT = 451


def evict(path):
    """Takes the file out of the page cache, if that can be done here."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident_pages(path):
    """How much of it is there, from fincore."""
    done = os.popen(f"fincore --bytes --noheadings --output RES {path}").read().split()
    return int(done[0]) if done else None


def may_be_asked(path):
    """Whether feedd can learn here what the page cache holds: cachestat is often forbidden in containers, and reads that do
    not wait are unknown to some file systems."""
    with open(path, "rb") as file:
        span, pages = (ctypes.c_uint64 * 2)(0, SIZE), (ctypes.c_uint64 * 5)()
        if ctypes.CDLL(None).syscall(CACHESTAT, file.fileno(), span, pages, 0) == 0:
            return True
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError as error:
            return error.errno == errno.EAGAIN
        return True


def serve(settings=None, **options):
    instance = harness.Instance(io="auto", ring="512K", loaders=2, **(settings or {}))
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE, **options)
    instance.content = expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})
    return instance.start()


def readers(instance):
    rows = [row for row in instance.status()["processes"] if row["role"] == "loader"]
    return {(row["reader"].split()[0], row["reason"]) for row in rows}


def test_warm_data_is_copied_from_the_page_cache():
    with serve() as feedd:
        if not may_be_asked(feedd.path):
            harness.skip("neither cachestat nor reads that do not wait work here")
        with consumer.Consumer(feedd, "numbers", 32, step=True, shuffle=True) as reader:
            reader.attached()
            reader.take(5)
            harness.eventually(
                lambda: readers(feedd) == {("mapped", "the data is in the page cache")}, 5, f"mapped: {readers(feedd)}"
            )


def test_large_dataset_is_not_mapped_however_warm():
    with serve({"mapped_limit": "4M"}) as feedd:
        with consumer.Consumer(feedd, "numbers", 32, step=True, shuffle=True) as reader:
            reader.attached()
            expected.check_bytes(feedd.content, reader.take(40))
            time.sleep(1.5)  # past the next look at what the page cache holds
            reader.take(1)
            for kind, reason in readers(feedd):
                assert kind != "mapped", (kind, reason)
                if kind == "uring" and "locked" not in reason:
                    assert reason == "the dataset is larger than mapped_limit", (kind, reason)


def page_tables(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmPTE"))


def test_mapped_reader_gives_page_tables_back():
    if harness.sanitized():
        harness.skip("a sanitizer's shadow memory has page tables too")
    records, stride = 8192, 2 << 20  # a page of page tables each
    with harness.Instance(io="mapped", mapped_limit="512M", loaders=1) as feedd:
        path = feedd.directory / "wide.bin"
        with open(path, "wb") as file:
            file.truncate(records * stride)
            for record in range(records):
                os.pwrite(file.fileno(), data.sample_bytes(record, 64), record * stride)
        feedd.add_dataset("wide", format="records", path=path, record_bytes=stride, field_x="u8[64] @ 0")
        feedd.start()
        feedd.ctl("read", "wide", "--shuffle", "--epochs", 2, "--verify")
        (loader,) = feedd.children()
        assert page_tables(loader) < 3 << 20, page_tables(loader)


def test_cold_data_begins_with_io_uring_and_warms_up():
    with serve() as feedd:
        evict(feedd.path)
        if resident_pages(feedd.path) is None:
            harness.skip("fincore is missing: nobody can say what the page cache holds")
        if resident_pages(feedd.path) > SAMPLES * SIZE // 10:
            harness.skip("this file system keeps the file in memory")
        with consumer.Consumer(feedd, "numbers", 32, step=True, shuffle=True, epochs=3) as reader:
            reader.attached()
            batches = reader.take(1)
            harness.eventually(lambda: {kind for kind, _ in readers(feedd)} == {"uring"}, 5, "cold data, read with io_uring")
            # The first epoch brings everything in.
            batches += reader.take(70)
            assert resident_pages(feedd.path) == SAMPLES * SIZE
            wait_until_all_are(feedd, reader, batches, "mapped")
            # It goes again.
            evict(feedd.path)
            rest = 3 * 63 - len(batches)
            batches += reader.take(rest)
            reader.next_ends()
            expected.check_run(feedd.content, batches, 32, epochs=3, shuffle=True)


def wait_until_all_are(instance, reader, batches, wanted):
    """The loaders look about once a second, and change between two chunks."""
    deadline = time.monotonic() + 8 * harness.SLOWNESS
    while {kind for kind, _ in readers(instance)} != {wanted}:
        assert time.monotonic() < deadline, f"still {readers(instance)}"
        time.sleep(0.3)
        if len(batches) < 150:
            batches += reader.take(2)


def test_direct_and_delayed_reads_are_not_looked_up():
    for options, reason in (
        ({"io_direct": "yes"}, "io_direct bypasses the page cache"), ({"io_delay_us": 1000}, "io_delay_us needs timers"),
    ):  # fmt: skip
        with serve(**options) as feedd:
            with consumer.Consumer(feedd, "numbers", 32, step=True, shuffle=True) as reader:
                reader.attached()
                reader.take(3)
                harness.eventually(lambda: readers(feedd) == {("uring", reason)}, 5, f"uring: {readers(feedd)}")
