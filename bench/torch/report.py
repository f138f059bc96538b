"""The tables of one experiment, on the screen and as JSON."""

import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys

from harness import BenchError


def gpu_name(setting):
    if not setting.gpu:
        return None if setting.device == "cpu" else "simulated"
    import torch
    name = torch.cuda.get_device_name(setting.torch_device)
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return name
    return f"{name}, driver {driver}"


def versions():
    import feedd
    import numpy
    import torch
    return {"feedd": feedd.__version__, "torch": torch.__version__, "cuda": torch.version.cuda,
            "numpy": numpy.__version__, "python": platform.python_version()}


class Report:
    """`question` is what the experiment answers. Tables are lists of rows under headings; goals are met, missed, or not
    of this machine."""

    def __init__(self, setting, name, question):
        from measure import machine
        now = datetime.datetime.now(datetime.timezone.utc)
        self.setting = setting
        self.record = {"experiment": name, "question": question, "date": now.isoformat("T", "seconds"),
                       "machine": machine(), "gpu": gpu_name(setting), "device": setting.device, "quick": setting.quick,
                       "versions": versions(), "command": os.environ.get("BENCH_COMMAND") or shlex.join(sys.argv),
                       "tables": [], "goals": [], "notes": []}
        print(f"\n== {name}: {question}", flush=True)

    def table(self, title, columns, rows, draw=None):
        """`columns`: {key: heading}. `draw`: what draw.py makes of it, as {"kind": "bars", "x": key, "y": key}."""
        self.record["tables"].append({"title": title, "columns": columns, "rows": rows, "draw": draw})
        cells = [[text(row.get(key)) for key in columns] for row in rows]
        widths = [max([len(heading), *(len(line[i]) for line in cells)]) for i, heading in enumerate(columns.values())]
        print(f"\n{title}")
        for line in [list(columns.values()), *cells]:
            print("  " + "  ".join(cell.rjust(width) if i and numeric(cell) else cell.ljust(width)
                                   for i, (cell, width) in enumerate(zip(line, widths))).rstrip())
        sys.stdout.flush()

    def goal(self, wanted, found, met, *, gpu_alone=True):
        """A goal in words, what was found in words, and whether that is enough. Goals were set for a machine with a
        GPU: elsewhere nothing is said of most."""
        verdict = None if gpu_alone and not self.setting.gpu else bool(met)
        self.record["goals"].append({"goal": wanted, "found": found, "met": verdict})
        word = "not meaningful without a GPU" if verdict is None else "met" if verdict else "MISSED"
        print(f"  goal: {wanted}: {found}: {word}", flush=True)

    def note(self, sentence):
        self.record["notes"].append(sentence)
        print(f"  {sentence}", flush=True)

    def write(self, seconds):
        if not self.record["tables"]:
            raise BenchError("the experiment has no table")
        self.record["seconds"] = round(seconds, 1)
        folder = self.setting.output
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.record['experiment']}.json"
        path.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        print(f"  {path}, after {seconds:.0f} s", flush=True)


def numeric(cell):
    return re.fullmatch(r"[-+.,\de]+", cell) is not None


def text(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
    return str(value)
