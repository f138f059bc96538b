"""What a feed is bound by: each test makes one bottleneck and expects that very answer of feedctl stats."""

import contextlib
import json
import os
import struct
import subprocess
import time
import zlib

import consumer
import data
import devices
import harness
from test_gpu_streams import Late

WARM_UP_S = 0.5
RECORD = os.environ.get("FEEDD_VERDICTS")  # a file to which each verdict is added
KEYS = {
    "bound", "hint", "data_wait", "wait_loaders", "wait_copy", "wait_pool", "wait_rank", "wait_others", "ready",
    "room_wait", "io_wait", "decode", "fill", "cpu", "copying", "release_wait",
}  # fmt: skip
LATENCIES = {"read", "decode", "fill", "room", "data", "lease"}


def look(feedd, interval=1):
    """The only feed, over an interval in the middle of the work."""
    time.sleep(WARM_UP_S)
    lines = feedd.ctl("stats", str(interval), "--count", "2", "--json").stdout.splitlines()
    (feed,) = json.loads(lines[1])["feeds"]
    return feed


def expect(feedd, word, looks=8):
    """Twice in a row, for a verdict that keeps changing is none. Other tests may keep a consumer from its processor for a
    while; then it does not wait for data."""
    looks = int(looks * harness.SLOWNESS)
    harness.eventually(lambda: feedd.statistics()["feeds"], 20, "a feed")
    said = []
    while said[-2:] != [word, word] and len(said) < looks:
        feed = look(feedd)
        said.append(feed["interval"]["verdict"]["bound"])
    assert said[-2:] == [word, word], said
    verdict = feed["interval"]["verdict"]
    assert verdict["bound"] == feed["interval"]["bottleneck"] == word, feed["interval"]
    assert set(verdict) == KEYS and set(feed["latency"]) == LATENCIES, feed
    assert all(0 <= verdict[key] <= 1 for key in KEYS - {"bound", "hint"}), verdict
    waits = sum(verdict[key] for key in verdict if key.startswith("wait_"))
    assert abs(waits - verdict["data_wait"]) < 0.02, verdict
    if RECORD:  # for bench/README.md
        with open(RECORD, "a", encoding="ascii") as file:
            print(json.dumps(verdict), file=file)
    return feed


@contextlib.contextmanager
def reading(feedd, dataset="numbers", *options, batch=256):
    """feedctl as a consumer that only takes and releases."""
    process = subprocess.Popen(
        [harness.PROGRAMS / "feedctl", "read", dataset, "-b", str(batch), "--epochs", "0", "--quiet", *options],
        env=feedd.environment(), preexec_fn=harness.die_with_parent,
    )  # fmt: skip
    try:
        yield process
        assert process.poll() is None, f"feedctl read has ended with status {process.returncode}"
    finally:
        process.kill()
        process.wait()


def png(seed, size=256):
    """A picture that compresses a little, and takes a decoder a while."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    noise = os.urandom(3 * size)
    rows = b"".join(b"\1" + bytes((noise[i] * (row + seed) >> 3) & 31 for i in range(3 * size)) for row in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


@harness.host_memory
def test_a_slow_consumer():
    with harness.Instance(ring="256K", loaders=2) as feedd:
        data.add_records(feedd, samples=4000, size=64)
        feedd.start()
        with reading(feedd, "numbers", "--work", "10", batch=32):
            feed = expect(feedd, "consumers")
            assert feed["interval"]["verdict"]["data_wait"] < 0.1 < feed["interval"]["verdict"]["room_wait"], feed

            def text():
                return feedd.ctl("stats", "--once").stdout

            # The first look is since the start, when it had to wait for the loaders to start.
            harness.eventually(lambda: "is bound by its consumers: consumers wait " in text(), 10, text)
            assert "BOTTLENECK" in text(), text()


@harness.host_memory
def test_loaders_that_need_the_processor():
    """One loader transforms values; the consumer does not look at them."""
    with harness.Instance(loaders=1, io="mapped") as feedd:
        data.add_records(feedd, samples=4000, size=4096, transform_x="scale 1/255, standardise, cast f32")
        feedd.start()
        with reading(feedd, "numbers", "--shuffle", batch=1000):  # so large that taking one is next to nothing
            feed = expect(feedd, "loaders")
            verdict = feed["interval"]["verdict"]
            assert verdict["wait_loaders"] > 0.5 * verdict["data_wait"] and verdict["cpu"] > 0, feed


@harness.host_memory
def test_images_to_decode():
    with harness.Instance(loaders=1) as feedd:
        folder = feedd.directory / "pictures"
        folder.mkdir()
        for i in range(32):
            (folder / f"{i}.png").write_bytes(png(i))
        fields = {"field_image": "bytes @ file", "transform_image": "decode, resize 64 64"}
        feedd.add_dataset("pictures", format="folder", path=folder, **fields)
        feedd.start()
        with reading(feedd, "pictures", batch=8):
            feed = expect(feedd, "decoding")
            assert feed["latency"]["decode"]["count"] > 0 and feed["latency"]["decode"]["p50_s"] > 0.0005, feed["latency"]


@harness.host_memory
def test_storage_that_is_slow():
    with harness.Instance(ring="64K", io="uring", loaders=1, queue_depth=4) as feedd:
        data.add_records(feedd, samples=1000, size=64, io_delay_us=5000)
        feedd.start()
        with reading(feedd, batch=10):
            feed = expect(feedd, "storage")
            assert feed["interval"]["verdict"]["io_wait"] > 0.8, feed
            assert 0.004 < feed["latency"]["read"]["p50_s"] < 0.1, feed["latency"]


@contextlib.contextmanager
def small_batches(ring):
    """Of 30 KiB, which eight loaders wait 2 ms for."""
    with harness.Instance(ring=ring, io="uring", loaders=8) as feedd:
        data.add_records(feedd, samples=4000, size=1024, io_delay_us=2000)
        feedd.start()
        with reading(feedd, batch=30):
            yield feedd


@harness.limit(60)
@harness.host_memory
def test_a_ring_that_is_too_small():
    """Two batches fit. Most loaders wait for room, and the consumer waits for the reads of the others, until there is a larger
    ring, as the hint says."""
    with small_batches("64K") as feedd:
        small = expect(feedd, "handover")
        verdict = small["interval"]["verdict"]
        assert verdict["room_wait"] > 0.5 and verdict["wait_loaders"] > 0.5 * verdict["data_wait"], verdict
        assert "a larger ring" in verdict["hint"], verdict
    with small_batches("1M") as feedd:
        harness.eventually(lambda: feedd.statistics()["feeds"], 20, "a feed")
        looks = []

        def is_faster():
            looks.append(look(feedd)["interval"]["samples_per_s"])
            return looks[-1] > 1.5 * small["interval"]["samples_per_s"]

        harness.eventually(is_faster, 5, lambda: f"1.5 times as fast, but {looks} after {small}")


@harness.host_memory
def test_copies_that_are_slow():
    with harness.Instance(ring="8M", device_pool="8M", device_linger=1) as feedd:
        data.add_records(feedd, samples=1000, size=16384)
        feedd.start(environment={devices.FAULTS: "copy_us=20000"})
        with reading(feedd, "numbers", "--device", devices.SIMULATED, batch=64):
            # The transfer process measures its bus first, by copies.
            def delivers():
                return any(feed["feed_counters"]["batches"] for feed in feedd.statistics()["feeds"])

            harness.eventually(delivers, 20, "the first batch")
            expect(feedd, "bus")
            harness.eventually(lambda: look(feedd)["interval"]["verdict"]["copying"] > 0.8, 8, "it copies nearly all the time")
            gpu = devices.gpu(feedd, devices.SIMULATED_UUID)
            assert gpu["latency"]["copy"]["p50_s"] > 0.015 and gpu["latency"]["copy"]["count"] > 10, gpu
            text = feedd.ctl("stats", "--once", "--latency").stdout
            assert devices.SIMULATED_UUID in text and " copy " in text and " lease " in text, text


@harness.host_memory
def test_a_pool_that_streams_keep():
    """The consumer releases on a stream that is slow, as when training keeps the GPU busy."""
    with devices.serve() as feedd:
        late = Late(feedd, slow_us=40_000, epochs=1000)
        try:
            feed = expect(feedd, "pool")
            assert feed["interval"]["verdict"]["release_wait"] > 0.5, feed
        finally:
            late.kill()


@harness.host_memory
def test_a_slow_rank():
    with harness.Instance(ring="64K", loaders=2) as feedd:
        data.add_records(feedd, samples=4000, size=64)
        feedd.start()
        with reading(feedd, "numbers", "--share", "job", "--wait-for", "2", batch=16):
            with reading(feedd, "numbers", "--share", "job", "--wait-for", "2", "--work", "20", batch=16):
                feed = expect(feedd, "rank")
                assert feed["interval"]["verdict"]["wait_rank"] > 0.25, feed


def test_nothing_yet():
    """The first consumer waits for the second one; then there is none."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100, size=64)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=2) as one:
            one.attached()
            feed = expect(feedd, "none")
            verdict = feed["interval"]["verdict"]
            assert verdict["wait_others"] > 0.9 and "wait_for" in verdict["hint"], verdict
        harness.eventually(lambda: devices.feed(feedd)["consumers"] == 0, 5, "the consumer is gone")
        expect(feedd, "idle")
