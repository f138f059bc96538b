"""Programs that print JSON, medians of alternating runs, what the machine is, and the records of a run."""

import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys

from instance import BenchError

RUN_SECONDS = 120


def run_json(command, timeout=RUN_SECONDS, last_line=False):
    """What a program prints, parsed; or only its last line, if others before it say how far it is."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          check=False)
    output = done.stdout.strip().splitlines()[-1] if last_line and done.stdout.strip() else done.stdout
    return parse_output(command, done.returncode, output, done.stderr)


def start(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def finish(process, timeout=RUN_SECONDS):
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return parse_output(process.args, process.returncode, output, errors)


def parse_output(command, status, output, errors):
    if status != 0:
        raise BenchError(f"{shlex.join(command)} ended with status {status}: {errors.strip()}")
    return json.loads(output)


def alternate(rounds, *jobs):
    """Runs the jobs in turn, `rounds` times, so that a disturbance of the machine affects all of them.
    Returns a list of results for each job."""
    results = [[] for _ in jobs]
    for _ in range(rounds):
        for job, list_of_job in zip(jobs, results):
            list_of_job.append(job())
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def llc_bytes():
    largest = 0
    folder = "/sys/devices/system/cpu/cpu0/cache"
    for index in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            with open(f"{folder}/{index}/size", encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.endswith("K"):
            largest = max(largest, int(text[:-1]) * 1024)
    return largest


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def machine():
    """One line that says what the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cache = llc_bytes() / 2**20
    cache_text = f", {cache:.0f} MiB last-level cache" if cache else ""
    cores = len(os.sched_getaffinity(0))
    return f"{cpu_model()}, {cores} cores{cache_text}, {memory:.0f} GiB, Linux {platform.release()}"


class Records:
    """Every figure of a run: a line of a table as it comes, and an object of build/bench.jsonl."""

    def __init__(self, path):
        self.path = path
        now = datetime.datetime.now(datetime.timezone.utc)
        self.common = {"machine": machine(), "date": now.isoformat("T", "seconds"), "command": shlex.join(sys.argv)}
        self.missed = 0
        self.count = 0
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8"):
            pass

    def heading(self):
        print(self.common["machine"])
        print(f"{'figure':<18} {'of':<42} {'value':>12} {'unit':<12} {'limit':>12} {'ratio':>6}  goal")

    def add(self, name, value, unit, params, limit=None, goal=None, met=None, **more):
        """`goal` in words; `met`: whether it was."""
        ratio = value / limit if limit else None
        record = {"name": name, "value": value, "unit": unit, "limit": limit, "ratio": ratio, **self.common,
                  "params": params, "goal": goal, "met": met, **more}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.count += 1
        self.missed += met is False
        verdict = "" if goal is None else f"{goal}: {'met' if met else 'MISSED'}"
        what = " ".join(f"{key}={value}" for key, value in params.items())
        limit_text = "" if limit is None else f"{limit:,.6g}"
        ratio_text = "" if ratio is None else f"{ratio:.3f}"
        print(f"{name:<18} {what:<42} {value:>12,.6g} {unit:<12} {limit_text:>12} {ratio_text:>6}  {verdict}",
              flush=True)
