#!/usr/bin/env python3
"""Has Debian's Prometheus scrape feedd-exporter, and its promtool check the text: make check-prometheus.

The package, some 19 MB, is downloaded and unpacked into the build directory; nothing is installed, and no service is started.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: feedd
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def say(text):
    print(f"check-prometheus: {text}", flush=True)


def unpack(folder):
    """The folder with promtool and prometheus, which are downloaded at first."""
    programs = folder / "usr/bin"
    if not (programs / "promtool").exists():
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=folder, check=True)
        (package,) = folder.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", package, folder], check=True)
        size, took = package.stat().st_size / 1e6, time.monotonic() - began
        say(f"downloaded and unpacked {package.name} ({size:.0f} MB) in {took:.0f} s")
        package.unlink()
    return programs


def ask(port, expression):
    """The result of an instant query."""
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=10) as answer:
        result = json.load(answer)
    assert result["status"] == "success", (expression, result)
    return result["data"]["result"]


def alive(port):
    try:
        return bool(ask(port, "feedd_up == 1"))
    except OSError:
        return False


def check_expressions(port):
    """Every expression of the dashboard has an answer, for the feed and the GPU that there are."""
    board = json.loads((ROOT / "systemd/feedd-dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "5s")
            # A simulated GPU has no bus.
            assert ask(port, expression) or "bus_bytes" in expression, (panel["title"], expression)
    say(f"{sum(len(panel['targets']) for panel in board['panels'])} expressions of the dashboard have answers")


@contextlib.contextmanager
def prometheus(programs, server, folder):
    """Runs one that scrapes an exporter, and has done so; its port. Shows its log if the block fails."""
    import exporter
    import harness

    port = exporter.free_port()
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(port=server.port))
    subprocess.run([programs / "promtool", "check", "config", config], check=True)
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log, preexec_fn=harness.die_with_parent,
        )  # fmt: skip
    try:
        harness.eventually(lambda: alive(port), 60, "Prometheus has scraped the exporter")
        yield port
    except BaseException:
        print((folder / "prometheus.log").read_text(), file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(30)


def check_scraped(port, feedd, harness):
    # Two scrapes, for rates.
    harness.eventually(lambda: ask(port, "rate(feedd_feed_samples_total[5s]) > 0"), 20, "samples per second")
    # Of no reads, it would be NaN, which is not more than 0.
    median = "histogram_quantile(0.5, rate(feedd_loader_read_latency_seconds_bucket[5s])) > 0"
    harness.eventually(lambda: ask(port, median), 20, "a median of reads")
    scraped = {row["metric"]["__name__"] for row in ask(port, '{job="feedd",__name__=~"feedd_.*"}')}
    written = {line.split("{")[0].split()[0] for line in feedd.ctl("metrics").stdout.splitlines() if line[0] != "#"}
    assert scraped == written, scraped ^ written
    say(f"Prometheus has scraped {len(scraped)} metrics")
    check_expressions(port)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options = parser.parse_args()
    os.environ["FEEDD_TEST_BUILD"] = str(options.build.resolve())
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import consumer
    import data
    import exporter
    import harness

    programs = unpack(options.build.resolve() / "prometheus")
    with tempfile.TemporaryDirectory() as folder, harness.Instance(ring="64K") as feedd:
        data.add_records(feedd, samples=1000, size=64)
        feedd.start()
        endless = {"share": "job", "epochs": 0, "sleep_us": 1000, "quiet": True}
        with exporter.Exporter(feedd) as server, consumer.Consumer(feedd, "numbers", 10, device="host:0", **endless) as reader:
            harness.eventually(lambda: feedd.statistics()["gpus"], 20, "a GPU in use")
            text = server.get()[2]
            check = [programs / "promtool", "check", "metrics"]
            done = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
            say("promtool check metrics: no findings")
            with prometheus(programs, server, pathlib.Path(folder)) as port:
                check_scraped(port, feedd, harness)
            reader.kill()
    say("passed")


if __name__ == "__main__":
    main()
