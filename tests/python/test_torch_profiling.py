"""The example of docs/profiling.md: feedd's timeline and torch.profiler's in one file, on one clock."""

import json
import os
import re

import harness
import pytest
import support

BEFORE = """
import time

import feedd
import torch

data = feedd.DataLoader("numbers", batch_size=16, prefetch_factor=1)
print(os.getpid())


def train(images, labels):
    with torch.profiler.record_function("train"):
        time.sleep(0.02)


loader = ((batch[0], batch[1]) for _ in range(100) for batch in data)
"""


def run_example(daemon, folder, programs=harness.PROGRAMS, **options):
    text = (harness.ROOT / "docs/profiling.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    code = f"import os\nos.chdir({str(folder)!r})\n{BEFORE}\n{example}"
    return support.run(code, daemon=daemon, variables=variables, **options)


@pytest.mark.limit(90)
def test_who_may_not_record_is_told_so(daemon, tmp_path):
    """The script runs as root here, and its feedctl as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    (tmp_path / "programs").mkdir()
    feedctl = tmp_path / "programs/feedctl"
    words = f"exec setpriv --reuid=65534 --regid=65534 --clear-groups {harness.PROGRAMS}/feedctl"
    feedctl.write_text(f'#!/bin/sh\n{words} "$@"\n')
    feedctl.chmod(0o755)
    said = run_example(daemon, tmp_path, feedctl.parent, status=1)
    assert "feedd.json is empty: only root and the daemon's user may record" in said, said
    assert not (tmp_path / "feedd.json").read_text() and not (tmp_path / "both.json").exists()


@pytest.mark.limit(90)
def test_one_file(daemon, tmp_path):
    pid = int(run_example(daemon, tmp_path).split()[0])
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    trained = sorted((event["ts"], event["ts"] + event["dur"]) for event in events
                     if event.get("name") == "train" and event["ph"] == "X")  # fmt: skip
    leases = [event for event in events if event.get("name") == "lease" and event["pid"] == pid]
    ends = sorted(event["ts"] for event in leases if event["ph"] == "e")
    assert len(trained) == 21 and len(ends) >= 15, (len(trained), len(leases))
    # With two leases, each batch is released when the next one is taken, just before training on that begins.
    near = sum(any(-5000 < begin - end < 15_000 for end in ends) for begin, _ in trained[1:])
    assert near >= 15, (trained, ends)
    assert any("loader" in event["args"]["name"] for event in events if event.get("name") == "process_name" and "args" in event)
