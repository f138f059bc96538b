"""feedctl trace: a timeline of what the processes really do, on only while somebody records it."""

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import consumer
import data
import devices
import harness
import users
from test_gpu_streams import Late
from test_verdict import png, reading

LOADER_TIMES = {"fill", "decode", "wait for storage", "no room"}
OF_LOADERS = LOADER_TIMES | {"read", "chunk"}
OF_TRANSFERS = {"copy", "wait for release", "bus"}
OF_CONSUMERS = {"wait for a batch", "lease"}


@contextlib.contextmanager
def busy(**settings):
    with harness.Instance(ring="64K", **settings) as feedd:
        data.add_records(feedd, "numbers", samples=1000, size=64)
        data.add_records(feedd, "slow", samples=1000, size=64, io_delay_us=2000)
        feedd.start()
        endless = {"epochs": 0, "quiet": True, "samples": False}
        with contextlib.ExitStack() as stack:
            readers = {
                "held": consumer.Consumer(feedd, "numbers", 10, share="held", device="cpu", sleep_us=5000, **endless),
                "hungry": consumer.Consumer(feedd, "slow", 10, share="hungry", device="cpu", **endless),
                "gpu": consumer.Consumer(feedd, "numbers", 10, share="gpu", device="host:0", sleep_us=5000, **endless),
            }
            for reader in readers.values():
                stack.enter_context(reader)
            harness.eventually(lambda: len(feedd.statistics()["feeds"]) == 3 and feedd.statistics()["gpus"], 20, "all work")
            yield feedd, readers
            for reader in readers.values():
                reader.kill()


def record(feedd, seconds):
    """The events, with those that begin and end at different places put together, by process."""
    began = time.monotonic_ns()
    trace = json.loads(feedd.ctl("trace", str(seconds), limit_s=60).stdout)
    assert began <= trace["monotonicNanoseconds"] <= time.monotonic_ns(), trace["monotonicNanoseconds"]
    assert abs(trace["baseTimeNanoseconds"] - trace["monotonicNanoseconds"] - (time.time_ns() - time.monotonic_ns())) < 1e9
    assert trace["lostEvents"] == 0, trace["lostEvents"]
    spans, names, open_ones = collections.defaultdict(list), {}, {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            spans[event["pid"]].append((event["name"], event["ts"], event["ts"] + event["dur"], event["args"]))
        elif event["ph"] == "b":
            open_ones[event["id2"]["local"]] = event
        else:
            begun = open_ones.pop(event["id2"]["local"])
            assert event["ph"] == "e" and event["pid"] == begun["pid"] and event["name"] == begun["name"], (event, begun)
            spans[event["pid"]].append((event["name"], begun["ts"], event["ts"], begun["args"]))
    assert not open_ones, open_ones
    for list_of in spans.values():
        assert all(0 <= begin <= end for _, begin, end, _ in list_of), list_of
    return spans, names


def share(spans, name, seconds):
    return sum(end - begin for what, begin, end, _ in spans if what == name) / 1e6 / seconds


@harness.limit(90)
def test_what_the_processes_do():
    with busy(loaders=1, queue_depth=4) as (feedd, readers):
        feeds = {feed["name"]: feed for feed in feedd.statistics()["feeds"]}
        ours = {reader.pid: name for name, reader in readers.items()}
        attempts = 3  # a busy machine may keep any of them from working for a while
        while attempts:
            before = feedd.statistics()
            spans, names = record(feedd, 2)
            after = feedd.statistics()
            by_feed = {name.split()[-1]: spans[pid] for pid, name in names.items() if name.startswith("feedd loader")}
            shares = {
                "no room": share(by_feed["held"], "no room", 2),
                "storage": share(by_feed["hungry"], "wait for storage", 2),
                "hungry": share(spans[readers["hungry"].pid], "wait for a batch", 2),
                "held": share(spans[readers["held"].pid], "wait for a batch", 2),
            }
            as_they_are = shares["no room"] > 0.7 and min(shares["storage"], shares["hungry"]) > 0.5 and shares["held"] < 0.3
            attempts = 0 if as_they_are else attempts - 1
        assert as_they_are, shares
        loaders = {pid: name for pid, name in names.items() if name.startswith("feedd loader")}
        assert set(loaders) == set(feedd.children_called("loader")), (names, feedd.children())
        (transfer,) = [pid for pid, name in names.items() if name == "feedd transfer to HOST-0"]
        assert spans.keys() == {*loaders, transfer, *ours}, spans.keys()
        for pid, name in loaders.items():
            times = sorted((begin, end) for what, begin, end, _ in spans[pid] if what in LOADER_TIMES)
            # One thing at a time.
            assert all(first[1] <= then[0] + 0.002 for first, then in zip(times, times[1:])), (name, times)
            assert {what for what, *_ in spans[pid]} <= OF_LOADERS, spans[pid]
        for name, reader in readers.items():
            leases = [row for row in spans[reader.pid] if row[0] == "lease"]
            assert all(row[3]["feed"] == feeds[name]["id"] for row in leases), leases
            # About as many as the statistics have counted meanwhile; they are looked at a little earlier and later.
            counted = [next(feed for feed in look["feeds"] if feed["name"] == name)["feed_counters"]["batches"]
                       for look in (before, after)]  # fmt: skip
            assert 0 < len(leases) <= counted[1] - counted[0] + 64, (name, len(leases), counted)
        copies = [row for row in spans[transfer] if row[0] == "copy"]
        assert 10 < len(copies) <= after["gpus"][0]["gpu_counters"]["copies"], len(copies)
        chunks = [row for pid in loaders for row in spans[pid] if row[0] == "chunk"]
        assert len(chunks) > 20 and all(end > begin for _, begin, end, _ in chunks), chunks


def add_pictures(feedd, **options):
    folder = feedd.directory / "pictures"
    folder.mkdir()
    for i in range(16):
        (folder / f"{i}.png").write_bytes(png(i))
    fields = {"field_image": "bytes @ file", "transform_image": "decode, resize 64 64"}
    feedd.add_dataset("pictures", format="folder", path=folder, **fields, **options)


@harness.host_memory
@harness.limit(90)
def test_each_event_is_recorded():
    """Images are read and decoded by one loader; another one's batches are kept by a stream that is slow."""
    with devices.serve(loaders=1, io="uring", queue_depth=2) as feedd:
        add_pictures(feedd, io_delay_us=10_000)  # longer than decoding takes on a busy machine
        feedd.write_config()
        feedd.ctl("reload")
        late = Late(feedd, slow_us=40_000, epochs=1000)
        try:
            with reading(feedd, "pictures", batch=8):
                harness.eventually(lambda: len(feedd.statistics()["feeds"]) == 2, 20, "both feeds")
                spans, names = record(feedd, 2)
        finally:
            late.kill()
    found = collections.defaultdict(collections.Counter)
    for pid, rows in spans.items():
        role = names[pid].split(" of ")[0].split(" to ")[0]
        found[role].update(what for what, *_ in rows)
    assert found["feedd loader"].keys() == OF_LOADERS, found
    assert found["feedd transfer"].keys() == OF_TRANSFERS, found
    assert found["consumer"].keys() == OF_CONSUMERS, found
    assert found.keys() == {"feedd loader", "feedd transfer", "consumer"}, found
    assert min(count for kinds in found.values() for count in kinds.values()) >= 5, found
    (decoder,) = [pid for pid, name in names.items() if name.startswith("feedd loader") and name.endswith("pictures")]
    assert share(spans[decoder], "decode", 2) > 0.02, spans[decoder]


def blocks(feedd):
    return feedd.stats.stat().st_blocks * 512


def is_on(feedd):
    """Whether any process is to record: the switches are the page after the records of GPUs."""
    with feedd.stats.open("rb") as file:
        file.seek(0x452000)
        return any(file.read(4096))


@harness.limit(60)
def test_it_is_on_only_while_somebody_records():
    with busy(loaders=1) as (feedd, _):
        assert not is_on(feedd)
        small = blocks(feedd)
        files = [feedd.directory / "first.json", feedd.directory / "second.json"]
        first, second = (
            subprocess.Popen([harness.PROGRAMS / "feedctl", "trace", "60"], stdout=file.open("wb"), env=feedd.environment(),
                             preexec_fn=harness.die_with_parent) for file in files
        )  # fmt: skip
        harness.eventually(lambda: is_on(feedd), 10, "it is on")
        harness.eventually(lambda: all(file.stat().st_size > 50_000 for file in files), 10, "both record")
        assert small < blocks(feedd) < small + (2 << 20), (small, blocks(feedd))
        # Killed, and asked to end sooner.
        first.kill()
        first.wait()
        time.sleep(0.5)
        assert is_on(feedd)
        second.send_signal(signal.SIGINT)
        assert second.wait(20) == 0
        assert len(json.loads(files[1].read_text())["traceEvents"]) > 100
        harness.eventually(lambda: not is_on(feedd), 5, "it is off again")


@harness.limit(60)
def test_processes_that_start_meanwhile_are_in_it():
    with busy(loaders=1) as (feedd, _):
        path = feedd.directory / "timeline.json"
        process = subprocess.Popen([harness.PROGRAMS / "feedctl", "trace", "60"], stdout=path.open("wb"),
                                   env=feedd.environment(), preexec_fn=harness.die_with_parent)  # fmt: skip
        harness.eventually(lambda: is_on(feedd), 10, "it is on")
        (old,) = [loader for loader in feedd.status()["processes"] if loader["role"] == "loader" and loader["feed"] == 1]
        os.kill(old["pid"], signal.SIGKILL)
        harness.eventually(lambda: old["pid"] not in feedd.children(), 10, "the loader is gone")
        loaders = feedd.loaders(3)

        def recorded():
            return {int(pid) for pid in re.findall(r'"cat": "[^"]*", "pid": (\d+),', path.read_text())}

        harness.eventually(lambda: set(loaders) <= recorded(), 10, lambda: f"all of {loaders} among {recorded()}")
        process.send_signal(signal.SIGINT)
        assert process.wait(20 * harness.SLOWNESS) == 0
        assert set(loaders) <= {event["pid"] for event in json.loads(path.read_text())["traceEvents"] if event["ph"] != "M"}


def test_only_administrators():
    with users.serve() as feedd:
        done = feedd.ctl("trace", "0.1", check=False, **users.AS_NOBODY)
        assert done.returncode == 1 and not done.stdout and "only root and the daemon's own user" in done.stderr, done
        assert "in a root shell" in done.stderr, done
        assert not is_on(feedd)
        with feedd.client() as client:
            client.hello()
            for wanted in ("done", "error"):
                client.send("command", kind=4)
                client.expect(wanted)
            assert is_on(feedd)
        harness.eventually(lambda: not is_on(feedd), 5, "it is off again")


def test_refuses_what_it_cannot_do():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        done = feedd.ctl("trace", "1", check=False)
        assert done.returncode == 1 and not done.stdout and "feedd" in done.stderr, done
        assert feedd.ctl("trace", "0", check=False).returncode == 2
        feedd.start()
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.PROGRAMS / "feedctl", "trace", "0.2"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, env=feedd.environment(), check=False)  # fmt: skip
        assert done.returncode == 1 and "cannot write the timeline" in done.stderr, done


def test_files_may_not_be_as_large_as_a_timeline():
    with harness.Instance(ring="64K") as feedd:
        data.add_records(feedd, "numbers", samples=1000, size=64)
        feedd.start(wrap=("prlimit", f"--fsize={6 << 20}:{6 << 20}", "--"))
        assert len(consumer.read(feedd, "numbers", 10)) == 100
        done = feedd.ctl("trace", "1", check=False)
        assert done.returncode == 1 and "there is no room for a timeline" in done.stderr, done
        assert feedd.statistics()["state"] == "alive"
