"""The figures: sums that agree with what consumers got, readable when the daemon hangs or is dead."""

import json
import os
import signal
import struct
import subprocess
import time

import consumer
import data
import harness


def serve(**settings):
    instance = harness.Instance(**{"ring": "64K", **settings})
    data.add_records(instance, samples=1000, size=64)
    return instance.start()


def feeds(instance):
    return {feed["name"]: feed for feed in instance.statistics()["feeds"]}


def reads(feed):
    return feed["loader_counters"]["reads"]


def stored(feed):
    return feed["loader_counters"]["storage_bytes"]


def test_sums_are_what_consumers_got():
    with serve() as feedd:
        got = {}
        for name, ranks, sharers in (("one", 1, 1), ("two", 1, 2), ("four", 4, 1)):
            readers = [
                consumer.Consumer(
                    feedd, "numbers", 7, share=name, rank=rank, world_size=ranks, wait_for=ranks * sharers, epochs=2, quiet=True
                )
                for rank in range(ranks) for _ in range(sharers)
            ]  # fmt: skip
            for reader in readers:
                reader.finish()
            got[name] = {key: sum(reader.last[key] for reader in readers) for key in ("batches", "samples", "bytes")}
        # Reads are counted with the loaders' heartbeat.
        harness.eventually(lambda: all(stored(feed) >= 2000 * 64 for feed in feeds(feedd).values()), 2, "reads are counted")
        for name, feed in feeds(feedd).items():
            assert {key: feed["feed_counters"][key] for key in got[name]} == got[name], (name, feed, got)
            assert feed["loader_counters"]["samples"] == 2000, feed
            assert feed["loader_counters"]["bytes"] == 2000 * 64, feed
            assert 0 < feed["loader_counters"]["reads"] <= 2000, feed
            assert feed["loader_counters"]["read_errors"] == feed["loader_counters"]["skipped"] == 0
            assert feed["feed_counters"]["children_replaced"] == feed["feed_counters"]["consumers_detached"] == 0


def test_direct_reads_count_their_padding():
    with harness.Instance(io="uring") as feedd:
        data.add_records(feedd, samples=100, size=10_000, io_direct="yes")
        feedd.start()
        consumer.read(feedd, "numbers", 10, shuffle=True)
        harness.eventually(lambda: reads(feeds(feedd)[""]) == 100, 2, "reads are counted")
        counters = feeds(feedd)[""]["loader_counters"]
        assert counters["bytes"] == 1_000_000, counters
        assert counters["storage_bytes"] > 1_000_000 and counters["storage_bytes"] % 512 == 0, counters


@harness.host_memory
def test_gauges():
    with serve(loaders=3) as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="job", prefetch=3) as reader:
            attached = reader.attached()
            reader.next(), reader.next()
            harness.eventually(lambda: feeds(feedd)["job"]["slots_ready"] == attached["slots"], 5, "a full ring")
            feed = feeds(feedd)["job"]
            assert (feed["consumers"], feed["loaders"], feed["slots"]) == (1, 3, attached["slots"]), feed
            assert (feed["batch_size"], feed["world_size"], feed["dataset"]) == (10, 1, "numbers"), feed
            assert feed["ring_bytes"] == attached["ring_bytes"], feed
            harness.eventually(lambda: feedd.statistics()["ring_bytes"] == feed["ring_bytes"], 2, "its memory is counted")
            statistics = feedd.statistics()
            assert statistics["ring_memory"] == 256 << 20
            assert statistics["pid"] == feedd.process.pid
            (client,) = [row for row in json.loads(feedd.ctl("clients", "--json").stdout) if row["feed"]]
            assert (client["held"], client["prefetch"], client["pid"], client["batches"]) == (3, 3, reader.pid, 3), client
        harness.eventually(lambda: feeds(feedd)["job"]["consumers"] == 0, 5, "no consumer")


@harness.host_memory
def test_host_memory_needs_no_gpu():
    """Without a GPU in use none is mentioned, and consumers say that their batches are in host memory."""
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="job") as reader:
            reader.attached()
            assert feedd.statistics()["gpus"] == [], feedd.statistics()
            status = feedd.status()
            assert status["gpus"] == [] and isinstance(status["gpu_support"], str), status
            for command in ("stats", "--once"), ("status",):
                text = feedd.ctl(*command).stdout
                assert "UUID" not in text and "COPIES" not in text, text
            devices = {client["feed"] != 0: client["device"] for client in json.loads(feedd.ctl("clients", "--json").stdout)}
            assert devices == {True: "cpu", False: ""}, devices
            assert " cpu " in feedd.ctl("clients").stdout


GPU_RECORDS = 4096 * (2 + 64 + 2 * 512)  # after header, owners, feeds and loaders; shm/layout.c asserts what is where in one


@harness.host_memory
def test_figures_of_a_gpu():
    """A record written by hand, as the supervisor would: feedctl shows it, on its own and as the daemon's answer."""
    uuid = "GPU-5a3c1b2f-1111-2222-3333-444455556666"
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10, share="job")
        with open(feedd.stats, "r+b", buffering=0) as file:
            file.seek(GPU_RECORDS + 4096 * 3)
            file.write(struct.pack("<IIQ64s64sQII", 2, 0, 1, uuid.encode(), b"Some GPU", 4711, 1, 6))
        (gpu,) = feedd.statistics()["gpus"]
        assert (gpu["uuid"], gpu["name"], gpu["pid"], gpu["state"], gpu["pools"]) == (uuid, "Some GPU", 4711, "running", 6), gpu
        assert 0 < gpu["interval"]["seconds"] < 30 and gpu["interval"] == gpu["since_start"], gpu
        lines = feedd.ctl("stats", "0.2", "--count", "3").stdout.splitlines()
        # Whichever table comes after the other has its header.
        titles = [line.split()[0] for line in lines if "MB/S" in line]
        assert titles == ["FEED", "GPU"] * 3, lines
        below = [lines[at + 1].split()[0] for at, line in enumerate(lines) if "MB/S" in line]
        assert below == ["1", "GPU-5a3c1b2f"] * 3, lines
        rows = [line.split() for line in lines if line.startswith("GPU-5a3c1b2f ")]
        assert rows[0][3] == "start" and all(0.2 <= float(row[3]) <= 0.3 * harness.SLOWNESS for row in rows[1:]), rows
        assert not any("GPU-" in line for line in feedd.ctl("stats", "--once", "job").stdout.splitlines())
        (gpu,) = feedd.status()["gpus"]
        assert (gpu["uuid"], gpu["pid"], gpu["state"], gpu["bus_bytes_per_s"]) == (uuid, 4711, "running", 0), gpu
        assert uuid in feedd.ctl("status").stdout.splitlines()[-1]


def waits(instance):
    feeds = instance.statistics()["feeds"]
    return {feed["dataset"]: {**feed["feed_counters"], **feed["loader_counters"]} for feed in feeds}


def test_who_waits_for_whom():
    """A slow consumer shows as loaders without room, slow storage as consumers without data."""
    with harness.Instance(ring="64K", io="uring", loaders=1, queue_depth=4) as feedd:
        data.add_records(feedd, "fast", samples=1000, size=64)
        data.add_records(feedd, "slow", samples=1000, size=64, io_delay_us=10_000)
        feedd.start()
        with consumer.Consumer(feedd, "fast", 10, batches=30, sleep_us=20_000) as one:
            with consumer.Consumer(feedd, "slow", 10, batches=20) as two:
                for reader in (one, two):
                    reader.attached()
                    reader.expect("batch")
                begun = waits(feedd)
                one.finish(), two.finish()
        counters = waits(feedd)
        assert counters["fast"]["room_wait_ns"] > 300_000_000, counters["fast"]
        # It may have waited for a loader to start before its first batch.
        assert counters["fast"]["consumer_wait_ns"] - begun["fast"]["consumer_wait_ns"] < 100_000_000, (begun, counters["fast"])
        assert counters["slow"]["consumer_wait_ns"] > 200_000_000, counters["slow"]
        assert counters["slow"]["io_wait_ns"] > 200_000_000, counters["slow"]
        texts = feedd.ctl("stats", "--once").stdout
        assert "fast" in texts and "slow" in texts


def test_figures_of_a_daemon_that_hangs():
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10, share="job")
        os.kill(feedd.process.pid, signal.SIGSTOP)
        time.sleep(1.5)
        statistics = feedd.statistics()
        assert 1.2 < statistics["heartbeat_age_s"] < 10, statistics
        harness.eventually(lambda: feedd.statistics()["state"] == "wedged", 10, "it is seen to hang")
        assert statistics["feeds"][0]["feed_counters"]["samples"] == 1000
        text = feedd.ctl("stats", "--once").stdout
        assert "heartbeat" in text.splitlines()[0], text
        os.kill(feedd.process.pid, signal.SIGCONT)
        harness.eventually(lambda: feedd.statistics()["heartbeat_age_s"] < 1, 5, "a heart that beats")
        assert feedd.statistics()["state"] == "alive"


@harness.quick_attach
def test_figures_of_a_daemon_that_is_dead():
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10, share="job")
        feedd.process.kill()
        feedd.process.wait()
        statistics = feedd.statistics()
        assert statistics["state"] == "gone", statistics
        assert statistics["feeds"][0]["feed_counters"]["samples"] == 1000
        feedd.start()
        feedd.status()
        assert feedd.statistics()["feeds"] == []


def test_no_figures_of_a_daemon_that_has_stopped():
    with serve() as feedd:
        feedd.stop()
        done = feedd.ctl("stats", "--once", check=False)
        assert done.returncode == 1 and f"no feedd is running on {feedd.socket}:" in done.stderr, done
        assert str(feedd.stats) in done.stderr, done


def test_statistics_file_that_is_none():
    with serve() as feedd:
        for content in (b"", b"x" * 100, b"\0" * (1 << 20), os.urandom(1 << 16)):
            other = feedd.directory / "other.sock"
            (feedd.directory / "other.sock.stats").write_bytes(content)
            done = feedd.ctl("--socket", other, "stats", "--once", check=False)
            assert done.returncode == 1 and len(done.stderr) > 20, done


def test_counters_survive_their_loaders():
    """Read again and again while loaders are killed, sums never go back and never count twice."""
    with serve(loaders=2) as feedd:
        reader = consumer.Consumer(feedd, "numbers", 10, share="job", epochs=5, sleep_us=harness.slowly(3000), quiet=True)
        reader.attached()
        last, kills = 0, 0
        while reader.process.poll() is None:
            samples = feeds(feedd)["job"]["loader_counters"]["samples"]
            assert last <= samples, f"{samples} samples after {last}"
            last = samples
            for pid in feedd.children_called("loader")[:1]:
                kills += harness.kill(pid)
            time.sleep(0.02)
        reader.finish()
        feed = feeds(feedd)["job"]
        assert feed["feed_counters"]["samples"] == 5000
        assert 5000 <= feed["loader_counters"]["samples"] <= 5000 + 10 * kills, feed
        assert kills > 5


def test_lines_and_intervals():
    """In a pipe: one header, then a line per feed and interval; JSON: an object per line."""
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, share="job", sleep_us=2000, quiet=True) as reader:
            reader.attached()
            done = feedd.ctl("stats", "0.2", "--count", "3", "--json")
            reports = [json.loads(line) for line in done.stdout.splitlines()]
            assert len(reports) == 3
            samples = [report["feeds"][0]["feed_counters"]["samples"] for report in reports]
            assert samples[0] < samples[1] < samples[2], samples
            interval = reports[2]["feeds"][0]["interval"]
            assert 0.15 < interval["seconds"] < 0.5 * harness.SLOWNESS, interval
            assert abs(interval["samples_per_s"] * interval["seconds"] - (samples[2] - samples[1])) < 1, interval
            lines = feedd.ctl("stats", "0.2", "--count", "3", "job").stdout.splitlines()
            assert sum("job" in line for line in lines) == 3 and sum("FEED" in line for line in lines) == 1, lines
            # Without an interval or a count a pipe gets one report, and its end.
            lines = feedd.ctl("stats").stdout.splitlines()
            assert sum("job" in line for line in lines) == 1, lines
            assert len(feedd.ctl("stats", "--json").stdout.splitlines()) == 1


def test_what_has_no_name():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=3) as reader:
            reader.attached()
            reader.next()
            rows = [line.split() for line in feedd.ctl("feeds").stdout.splitlines()]
            assert dict(zip(rows[0], rows[1], strict=False))["NAME"] == "-", rows
            title, *clients = feedd.ctl("clients").stdout.splitlines()
            assert "PREFETCHED" in title and any("3 of 3" in line for line in clients), clients
            assert all(len(line.split()) >= 12 for line in clients), clients


def test_watching_ends_with_its_reader():
    """feedctl stats in a pipe whose other end goes away."""
    with serve() as feedd:
        watcher = subprocess.Popen(
            [harness.BUILD / "feedctl", "stats", "0.1"], stdout=subprocess.PIPE, env=feedd.environment(),
            preexec_fn=harness.die_with_parent,
        )  # fmt: skip
        watcher.stdout.readline()
        watcher.stdout.close()
        with consumer.Consumer(feedd, "numbers", 10, quiet=True, sleep_us=1000) as reader:
            reader.attached()
            watcher.wait(10 * harness.SLOWNESS)
