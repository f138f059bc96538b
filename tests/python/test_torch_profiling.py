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


@pytest.mark.limit(90)
def test_one_file(daemon, tmp_path):
    text = (harness.ROOT / "docs/profiling.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    variables = {"PATH": f"{harness.PROGRAMS}:{os.environ['PATH']}", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    code = f"import os\nos.chdir({str(tmp_path)!r})\n{BEFORE}\n{example}"
    pid = int(support.run(code, daemon=daemon, variables=variables).split()[0])
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
