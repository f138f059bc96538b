"""Storage that cannot be mapped, or that hangs: what can be read is delivered, and what hangs is noticed."""

import errno
import os
import signal
import struct
import time

import consumer
import data
import expected
import fuse
import harness
from test_auto import may_be_asked

MIB = 1 << 20
SAMPLES, SIZE = 600, 4096
LEFT_BY_MAPS = 16 * MIB  # SPARE_BYTES in daemon/loader/read/file_maps.c
UNMAPPED = "some files cannot be mapped; they are read with pread"


def add_dataset(instance, path, name="numbers", **options):
    instance.add_dataset(name, format="records", path=path, record_bytes=SIZE, field_x=f"u8[{SIZE}] @ 0", **options)


def fuse_instance(io, direct, **settings):
    """feedd, not started, with a dataset on a file system of the test's own."""
    records = [data.sample_bytes(index, SIZE) for index in range(SAMPLES)]
    storage = fuse.Fuse("numbers.bin", b"".join(records), direct)
    instance = harness.Instance(**{"io": io, "ring": "256K", **settings})
    instance.storage, instance.content = storage, {"x": records}
    add_dataset(instance, instance.storage.path, on_error="skip")
    return instance


def feed_counters(instance):
    (feed,) = instance.statistics()["feeds"]
    return {**feed["loader_counters"], **feed["feed_counters"]}


def wait_for_reason(instance):
    """All loaders say that some files cannot be mapped."""

    def reasons():
        rows = [row for row in instance.status()["processes"] if row["role"] == "loader"]
        return {(row["reader"], row["reason"]) for row in rows}

    harness.eventually(lambda: reasons() == {("mapped", UNMAPPED)}, 5, lambda: f"the reason is told: {reasons()}")


def check_nothing_is_lost(instance, batches, batch_size, **shape):
    expected.check_run(instance.content, batches, batch_size, **shape)
    found = feed_counters(instance)
    assert found["skipped"] == found["read_errors"] == 0, found


# ---- Files that cannot be mapped ---------------------------------------------------------------------------


def test_file_system_that_cannot_map():
    with fuse_instance("mapped", direct=True) as feedd:
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, epochs=2, shuffle=True, step=True) as reader:
            reader.attached()
            feedd.loaders(2)  # so that both of them get something to read
            batches = reader.take(120)
            reader.next_ends()
            check_nothing_is_lost(feedd, batches, 10, epochs=2, shuffle=True)
            wait_for_reason(feedd)
        lines = [line for line in feedd.read_log().splitlines() if "cannot be mapped" in line]
        assert len(lines) == feedd.settings["loaders"], lines  # one each
        assert all("file 0 of the dataset" in line and os.strerror(errno.ENODEV) in line for line in lines), lines


def address_space(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def check_little_address_space(io):
    """The loader maps the first of six files of 8 MiB, and is then left with room for one more."""
    if harness.sanitized():
        harness.skip("a sanitizer's shadow memory takes all the address space")
    files, per_file = 6, 2000
    with harness.Instance(io=io, ring="2M", loaders=1) as feedd:
        records = [struct.pack("<Q", index) * (SIZE // 8) for index in range(files * per_file)]
        feedd.content = {"x": records}
        for number in range(files):
            path = feedd.directory / f"part{number}.bin"
            path.write_bytes(b"".join(records[number * per_file : (number + 1) * per_file]))
        add_dataset(feedd, feedd.directory / "part*.bin", on_error="skip")
        if io == "auto" and not may_be_asked(path):
            harness.skip("neither cachestat nor reads that do not wait work here")
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 100, epochs=1, step=True) as reader:
            reader.attached()
            batches = reader.take(1)
            loader = feedd.only_loader()
            harness.prlimit(loader, "as", address_space(loader) + LEFT_BY_MAPS + 10 * MIB)
            batches += reader.take(files * per_file // 100 - 1)
            reader.next_ends()
            check_nothing_is_lost(feedd, batches, 100)
            wait_for_reason(feedd)
        assert "file 2 of the dataset cannot be mapped" in feedd.read_log()


def test_little_address_space_mapped():
    check_little_address_space("mapped")


def test_little_address_space_auto():
    check_little_address_space("auto")


# ---- Reads that hang ---------------------------------------------------------------------------------------


def check_hung_reads(io, direct):
    """Loaders whose reads do not come back are replaced, and what they were reading is read again."""
    with fuse_instance(io, direct, loaders=2, loader_timeout=2) as feedd:
        feedd.start()
        reader = consumer.Consumer(feedd, "numbers", 10, epochs=1, shuffle=True, sleep_us=20000)
        reader.attached()
        first = reader.expect("batch")
        feedd.storage.hang()
        harness.eventually(lambda: feed_counters(feedd)["children_replaced"] >= 2, 10, "both loaders are replaced")
        feedd.storage.go_on()
        check_nothing_is_lost(feedd, [first, *reader.finish()], 10, shuffle=True)
        assert any("has made no progress for 2 s" in line for line in feedd.status()["last_errors"]), feedd.read_log()


def test_reads_that_hang_with_io_uring():
    check_hung_reads("uring", True)


def test_reads_that_hang_with_threads():
    check_hung_reads("pread", True)


def test_page_faults_that_hang():
    check_hung_reads("mapped", False)


def test_reads_that_hang_for_want_of_a_map():
    check_hung_reads("mapped", True)


def test_slow_reads_are_not_taken_for_hung_ones():
    """Also when the wanted delay is longer than loader_timeout."""
    with harness.Instance(io="uring", loaders=1, ring="64K", loader_timeout=2) as feedd:
        path = data.add_records(feedd, samples=40, size=64, io_delay_us=3000000)
        feedd.start()
        begun = time.monotonic()
        batches = consumer.read(feedd, "numbers", 20)
        assert time.monotonic() - begun > 3
        expected.check_run(expected.read_records([path], 64, {"x": (0, 64)}), batches, 20)
        assert "has made no progress" not in feedd.read_log()


# ---- Reloads that hang -------------------------------------------------------------------------------------


def with_hanging_dataset(**settings):
    """feedd with a dataset on a disk, and a configuration with another one that cannot be opened for now."""
    storage = fuse.Fuse("others.bin", bytes(SIZE * 10), direct=True)
    instance = harness.Instance(loader_timeout=2, **settings)
    data.add_records(instance)
    instance.start()
    storage.hang()
    add_dataset(instance, storage.path, name="others")
    instance.write_config()
    instance.storage = storage
    return instance


def test_a_reload_that_hangs_is_given_up():
    with with_hanging_dataset() as feedd:
        failed = feedd.ctl("reload", check=False)
        assert failed.returncode and "opening a file of dataset others has taken more than 2 s" in failed.stderr, failed
        assert "an earlier reload still waits for its files" in feedd.ctl("reload", check=False).stderr
        assert len(consumer.read(feedd, "numbers", 10)) > 0
        feedd.storage.go_on()
        harness.eventually(lambda: "the abandoned reload has ended" in feedd.read_log(), 5, "it ends")
        assert "dataset others: added" in feedd.ctl("reload").stdout


def test_the_end_does_not_wait_for_a_reload():
    with with_hanging_dataset() as feedd:
        os.kill(feedd.process.pid, signal.SIGHUP)
        time.sleep(0.2)
        began = time.monotonic()
        feedd.stop()
        assert time.monotonic() - began < 2 * harness.SLOWNESS
