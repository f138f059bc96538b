"""The statistics for Prometheus: read with the parser of its own client, they are those of feedctl stats --json."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import consumer
import data
import exporter
import harness
import users
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families

SECONDS = {"ns": 1e-9}
DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "systemd/feedd-dashboard.json"


def values(families):
    """{(name of the sample, feed or GPU): value}, with the bound as well if it is a bucket; every family must have a text."""
    found = {}
    for family in families:
        assert family.documentation, family
        for sample in family.samples:
            key = (sample.name, sample.labels.get("feed") or sample.labels.get("gpu") or sample.labels.get("feedd_state", ""))
            if "le" in sample.labels:
                key += (float(sample.labels["le"]),)
            assert key not in found, key
            found[key] = sample.value
    return found


def read_open(text):
    return values(open_parser.text_string_to_metric_families(text))


def wanted_counters(statistics):
    for kind, rows, label in (("feed", "feeds", "id"), ("loader", "feeds", "id"), ("gpu", "gpus", "uuid")):
        for row in statistics[rows]:
            for name, value in row[f"{kind}_counters"].items():
                if name.endswith("_ns"):
                    yield (f"feedd_{kind}_{name[:-3]}_seconds_total", str(row[label])), value / 1e9
                else:
                    yield (f"feedd_{kind}_{name}_total", str(row[label])), value


LOADER = ("read", "decode", "fill", "room")
SEEN = {f"feedd_{kind}_latency_seconds" for kind in ("loader_read", "loader_fill", "feed_lease", "gpu_copy")}
OF_FEEDS = {kind: "loader" if kind in LOADER else "feed" for kind in (*LOADER, "data", "lease")}


def latencies(statistics):
    """Of each latency: its metric, the feed or GPU, and what stats --json says of it."""
    for rows, label, owner in (("feeds", "id", OF_FEEDS.get), ("gpus", "uuid", lambda kind: "gpu")):
        for row in statistics[rows]:
            for kind, latency in row["latency"].items():
                yield f"feedd_{owner(kind)}_{kind}_latency_seconds", str(row[label]), latency


def check_histogram(found, name, label, wanted):
    buckets = {key[2]: value for key, value in found.items() if key[:2] == (f"{name}_bucket", label)}
    bounds, values = list(buckets), list(buckets.values())
    assert len(bounds) == 21 and bounds == sorted(bounds) and values == sorted(values), buckets
    count, total = found[f"{name}_count", label], found[f"{name}_sum", label]
    assert count == buckets[float("inf")] == wanted["count"], (name, label, wanted, buckets)
    # The longest is at most a third shorter than the end of its bucket, except in the first one.
    least = wanted["max_s"] / 1.5 if wanted["max_s"] > 4e-7 else 0
    assert least <= total <= count * wanted["max_s"], (name, label, wanted, total)
    for share, key in ((0.5, "p50_s"), (0.9, "p90_s"), (0.99, "p99_s")):
        for bound, value in buckets.items():
            assert not count or (value >= share * count) == (wanted[key] <= bound), (name, label, wanted, buckets)


def serve():
    instance = harness.Instance(ring="64K")
    data.add_records(instance, samples=1000, size=64)
    return instance.start()


def test_everything_that_stats_has():
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10, share="job")
        consumer.read(feedd, "numbers", 10, share="other", device="host:0")
        harness.eventually(lambda: len(feedd.statistics()["feeds"]) == 2 and feedd.statistics()["gpus"], 5, "two feeds, a GPU")
        for pid in feedd.children():  # each of which counts something with every heartbeat
            os.kill(pid, signal.SIGSTOP)
        harness.eventually(lambda: quiet(feedd), 10, "nobody counts any more")
        for pid in feedd.children():
            harness.kill(pid, signal.SIGCONT)


def counted(statistics):
    return dict(wanted_counters(statistics)), list(latencies(statistics))


def quiet(feedd):
    """The metrics of a moment at which no counter changed, if this is one."""
    before = feedd.statistics()
    found = read_open(feedd.ctl("metrics").stdout)
    plain = values(text_string_to_metric_families(feedd.ctl("metrics", "--prometheus").stdout))
    if counted(feedd.statistics()) != counted(before):
        return False
    wanted = dict(wanted_counters(before))
    assert len(wanted) >= 40, wanted
    for key, value in wanted.items():
        assert abs(found[key] - value) < 1e-6 and abs(plain[key] - value) < 1e-6, (key, value, found[key], plain[key])
    counters = {key for key in found if key[0].endswith("_total")}
    assert counters == wanted.keys(), counters ^ wanted.keys()
    histograms = list(latencies(before))
    assert {key[:2] for key in found if len(key) == 3} == {(f"{name}_bucket", label) for name, label, _ in histograms}
    assert {name for name, _, latency in histograms if latency["count"]} >= SEEN, histograms
    for name, label, latency in histograms:
        check_histogram(found, name, label, latency)
        check_histogram(plain, name, label, latency)
    assert found["feedd_up", ""] == found["feedd_state", "alive"] == 1, found
    for feed in before["feeds"]:
        assert found["feedd_feed_slots", str(feed["id"])] == feed["slots"], feed
        assert found["feedd_feed_ring_bytes", str(feed["id"])] == feed["ring_bytes"], feed
    for gpu in before["gpus"]:
        assert found["feedd_gpu_pool_bytes", gpu["uuid"]] == gpu["pool_bytes"], gpu
    return True


def test_the_dashboard_knows_the_metrics():
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10, device="host:0")
        harness.eventually(lambda: feedd.statistics()["gpus"], 5, "a GPU")
        names = {key[0] for key in read_open(feedd.ctl("metrics").stdout)}
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = set(re.findall(r"feedd_\w+", " ".join(expressions)))
    assert len(used) > 15 and used <= names, used - names


def test_http():
    with serve() as feedd, exporter.Exporter(feedd) as server:
        consumer.read(feedd, "numbers", 10, share="job")
        status, kind, text = server.get(accept=f"{exporter.OPEN},text/plain;version=0.0.4;q=0.5")
        assert (status, kind) == (200, f"{exporter.OPEN}; charset=utf-8"), (status, kind)
        assert read_open(text)["feedd_feed_samples_total", "1"] == 1000, text
        status, kind, text = server.get()
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), (status, kind)
        assert values(text_string_to_metric_families(text))["feedd_feed_samples_total", "1"] == 1000, text
        assert server.get(method="HEAD")[::2] == (200, "")
        assert server.get("/other")[0] == 404 and server.get("/../../etc/passwd")[0] == 404
        assert server.get(method="POST")[0] == 405
        for _ in range(50):  # no descriptor stays
            server.get()
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 20


def up(server):
    _, _, text = server.get(accept=exporter.OPEN)
    found = read_open(text)
    return {"up": found["feedd_up", ""], **{key[1]: value for key, value in found.items() if key[0] == "feedd_state" and value}}


def test_follows_the_daemon():
    """Statistics of one that was killed are still there; a new daemon has a new file; one that has stopped has none."""
    with serve() as feedd, exporter.Exporter(feedd) as server:
        assert up(server) == {"up": 1, "alive": 1}
        feedd.kill()
        assert up(server) == {"up": 0, "gone": 1}
        feedd.start()
        harness.eventually(lambda: up(server) == {"up": 1, "alive": 1}, 5, "the new daemon is seen")
        feedd.process.send_signal(signal.SIGSTOP)
        harness.eventually(lambda: up(server) == {"up": 0, "wedged": 1}, 10, "its heartbeat has stopped")
        feedd.process.send_signal(signal.SIGCONT)
        feedd.stop()
        assert up(server) == {"up": 0}


def test_is_confined():
    """It has no privileges to gain, its system calls are filtered, and no thread."""
    with serve() as feedd, exporter.Exporter(feedd) as server:
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        if harness.sanitized():
            harness.skip("a sanitizer needs what a confined process gives up")
        if "warning: system calls" in server.log.read_text():
            harness.skip("this machine has no seccomp")
        for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "Threads:\t1"):
            assert line in status, (line, status)
        assert read_open(server.get(accept=exporter.OPEN)[2])["feedd_up", ""] == 1


def test_unit_is_hardened():
    """And allows it the system calls with which it confines itself."""
    template = (harness.ROOT / "systemd/feedd-exporter.service.in").read_text(encoding="ascii")
    assert all(f" {call}" in template for call in ("landlock_restrict_self", "seccomp")), template
    if not shutil.which("systemd-analyze"):
        harness.skip("there is no systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder) / "feedd-exporter.service"
        for name, value in {"BINDIR": str(harness.PROGRAMS), "UNIT": "feedd", "FOLDER": "feedd", "OF_INSTANCE": ""}.items():
            template = template.replace(f"@{name}@", value)
        unit.write_text(template, encoding="ascii")
        verified, rated = (
            subprocess.run(["systemd-analyze", *words, unit], capture_output=True, text=True, check=False)
            for words in (("verify", "--man=no"), ("security", "--offline=true", "--threshold=20", "--no-pager"))
        )
    if "unrecognized option" in rated.stderr or "Overall exposure" not in rated.stdout:
        harness.skip("systemd-analyze cannot look at a file")
    assert rated.returncode == 0, rated.stdout
    assert "feedd-exporter.service" not in verified.stderr, verified.stderr


def test_refuses_what_it_cannot_do():
    with serve() as feedd, exporter.Exporter(feedd) as server:
        def fails(wanted, *arguments, status=1):
            done = feedd.program(harness.PROGRAMS / "feedd-exporter", *arguments, check=False)
            assert done.returncode == status and wanted in done.stderr, (arguments, done)

        fails("Address already in use", f"--listen=127.0.0.1:{server.port}")
        fails("an address and a port", "--listen=9743")
        fails("an address and a port", "--listen=localhost:9743")
        for port in ("75279", "65536", "0", "-1", "+9743", " 9743", "9743x", "http", "", "18446744073709561359"):
            fails(f'found port "{port}", wanted a number from 1 to 65535', f"--listen=127.0.0.1:{port}")
        fails("the folder of the daemon's socket, /nonexistent", "--socket=/nonexistent/no.such", "--listen=127.0.0.1:1")
        fails("too many arguments", "more", status=2)


def test_no_daemon_is_an_answer():
    """So that a file for node_exporter does not keep saying that the daemon is alive."""
    with serve() as feedd:
        assert "\nfeedd_up 1\n" in feedd.ctl("metrics", "--prometheus").stdout
        feedd.stop()
        readers = {("--prometheus",): text_string_to_metric_families, (): open_parser.text_string_to_metric_families}
        for words, read in readers.items():
            done = feedd.ctl("metrics", *words)
            assert values(read(done.stdout)) == {("feedd_up", ""): 0}, done
            assert done.stderr.startswith("feedctl: no feedd is running on "), done
        feedd.start()
        assert read_open(feedd.ctl("metrics").stdout)["feedd_up", ""] == 1


def labels_of_feeds(feedd):
    endless = {"epochs": 0, "quiet": True, "samples": False}
    with exporter.Exporter(feedd) as server, consumer.Consumer(feedd, "numbers", 10, share="job", **endless):
        harness.eventually(lambda: feedd.statistics()["feeds"], 5, "a feed")
        families = list(open_parser.text_string_to_metric_families(server.get(accept=exporter.OPEN)[2]))
        assert '{feed="1",name="job",dataset="numbers"}' in feedd.ctl("metrics").stdout, "feedctl asks the daemon, as root"
    prefixes = ("feedd_feed_", "feedd_loader_")
    samples = [sample for family in families for sample in family.samples if sample.name.startswith(prefixes)]
    assert len(samples) > 30, samples
    # le is that of histograms.
    return {tuple(sorted(item for item in sample.labels.items() if item[0] != "le")) for sample in samples}


def test_names_of_feeds():
    """As packaged, everybody who may attach can read the statistics, which then name no feed unless show_others is set."""
    with users.serve() as feedd:
        assert labels_of_feeds(feedd) == {(("feed", "1"),)}
    with users.serve(show_others="yes") as feedd:
        assert labels_of_feeds(feedd) == {(("dataset", "numbers"), ("feed", "1"), ("name", "job"))}
