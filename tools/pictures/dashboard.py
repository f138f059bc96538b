"""The dashboard of systemd/feedd-dashboard.json: its panels where it puts them, and in them what a Prometheus answers to its
expressions, which has scraped feedd-exporter for a while. Grafana is not involved; dashboard.html draws the panels.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import signal
import tempfile
import time
import urllib.parse
import urllib.request

import check_prometheus
import consumer
import exporter
import harness
import scene

HERE = pathlib.Path(__file__).resolve().parent
BOARD = harness.ROOT / "systemd/feedd-dashboard.json"
# Grafana's, for a Prometheus that scrapes every second.
VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "4s"}
SECONDS = 180


def query_range(port, expression, begin, end):
    """[labels and values each second] of an expression."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    query = urllib.parse.urlencode({"query": expression, "start": begin, "end": end, "step": 1})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query_range?{query}", timeout=30) as answer:
        return json.load(answer)["data"]["result"]


def named(legend, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), legend).strip()


def point(second, text):
    """JSON has no NaN, the quantile of no reads; None leaves a gap."""
    value = float(text)
    return [second, value if math.isfinite(value) else None]


def read_panel(panel, port, begin, end):
    series = [
        {"name": named(target["legendFormat"], row["metric"]), "points": [point(*pair) for pair in row["values"]]}
        for target in panel["targets"] for row in query_range(port, target["expr"], begin, end)
    ]  # fmt: skip
    how = panel["fieldConfig"]["defaults"]
    mappings = {value: text for one in how.get("mappings", []) for value, text in one["options"].items()}
    return {**{key: panel[key] for key in ("title", "type", "gridPos")}, "unit": how["unit"], "min": how.get("min"),
            "max": how.get("max"), "mappings": mappings, "series": series}  # fmt: skip


def run(feedd):
    """Three minutes of work: consumers come and leave, and a loader is killed."""
    began = time.monotonic()

    def until(second):
        time.sleep(max(began + second - time.monotonic(), 0))

    def start(dataset, batch_size, name, device="cpu", **options):
        options = {"share": name, "device": device, **scene.ENDLESS, **options}
        return stack.enter_context(consumer.Consumer(feedd, dataset, batch_size, **options))

    with contextlib.ExitStack() as stack:
        start("cifar100", 64, "resnet", sleep_us=4000)
        start("tokens", 32, "llm", device="host:0", sleep_us=8000)
        until(40)
        start("archive", 64, "cold")
        until(70)
        second = start("cifar100", 64, "resnet", sleep_us=4000)
        until(100)
        os.kill(feedd.children_called("loader")[0], signal.SIGKILL)
        until(125)
        second.kill()
        until(150)
        start("tokens", 32, "llm", device="host:0", sleep_us=4000)
        until(SECONDS)
        yield


def draw(browser, folder):
    programs = check_prometheus.unpack(harness.BUILD / "prometheus")
    # Otherwise there are only numbers of feeds, because the exporter may be asked by anybody.
    settings = {"ring": "2M", "loaders": 2, "ring_memory": "32M", "queue_depth": 8, "show_others": "yes"}
    with tempfile.TemporaryDirectory() as made, harness.Instance(**settings) as feedd:
        scene.start(feedd, archive_delay_us=1500)
        with exporter.Exporter(feedd) as server, check_prometheus.prometheus(programs, server, pathlib.Path(made)) as port:
            begin = time.time()
            for _ in run(feedd):
                board = json.loads(BOARD.read_text())
                panels = [read_panel(panel, port, begin, begin + SECONDS) for panel in board["panels"]]
    browser.size(1400, 2400)
    browser.open((HERE / "dashboard.html").as_uri())
    browser.script("draw(arguments[0])", {"title": board["title"], "from": begin, "to": begin + SECONDS, "panels": panels})
    browser.save(folder / "dashboard.png")
