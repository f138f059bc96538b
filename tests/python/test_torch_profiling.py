"""The example of docs/profiling.md: feedd's timeline and torch.profiler's in one file, on one clock."""

import gzip
import json
import os
import re
import subprocess
import sys

import harness
import pictures
import pytest
import support
import test_folder
from test_documents import blocks

STEPS = 20
APART_US = 2000  # how far the clocks may be apart; a step takes ten times as long


def run_example(folder, programs=harness.PROGRAMS, check=True):
    """Its program, then its command, in a folder, until one fails; what they said last. Storage is so slow that every step
    waits."""
    where = "docs/profiling.md", "## Together with torch.profiler"
    (program,), (command,) = (blocks(where[0], language, where[1]) for language in ("python", "sh"))
    with harness.Instance(loaders=1, queue_depth=1) as feedd:
        test_folder.write(feedd.directory / "photos", pictures.files(8 * pictures.some(50, kinds=("jpg",))))
        steps = f"random_resized_crop 224, flip 0.5, {pictures.NORMALISE}"
        fields = {"field_image": "bytes @ file", "field_label": "i64 @ class", "transform_image": steps}
        feedd.add_dataset("photos", format="folder", path=feedd.directory / "photos", io_delay_us=20_000, **fields)
        feedd.start()
        path = f"{programs}:{os.path.dirname(sys.executable)}:{harness.PROGRAMS}:{os.environ['PATH']}"
        environment = support.environment(feedd, PATH=path, TORCHINDUCTOR_CACHE_DIR=str(folder))
        for words in ([sys.executable, "-c", program], ["sh", "-euc", command]):
            done = subprocess.run(words, cwd=folder, env=environment, check=check, stderr=None if check else subprocess.PIPE,
                                  text=True, preexec_fn=harness.die_with_parent)  # fmt: skip
            if done.returncode:
                break
    return done


class Timeline:
    """A file, with events put together that begin and end at different places: lists of (begin, end) by process and name."""

    def __init__(self, path):
        self.spans, self.names, self.rows, begun = {}, {}, {}, {}
        for event in json.loads(path.read_text())["traceEvents"]:
            what = (event["pid"], event["name"])
            if event["ph"] == "M" and event["name"] == "process_name":
                self.names.setdefault(event["pid"], []).append(event["args"]["name"])
            elif event["ph"] == "X":
                self.spans.setdefault(what, []).append((event["ts"], event["ts"] + event["dur"]))
                row = self.rows.setdefault((event["pid"], event["tid"]), [])
                row.append((round(event["ts"] * 1000), round(event["dur"] * 1000)))
            elif event["ph"] == "b":
                begun[event["pid"], event["cat"], event["id2"]["local"]] = event
            elif event["ph"] == "e":
                begin = begun.pop((event["pid"], event["cat"], event["id2"]["local"]))["ts"]
                assert begin <= event["ts"], event
                self.spans.setdefault(what, []).append((begin, event["ts"]))
        assert not begun, begun

    def of(self, pid, name):
        return sorted(self.spans.get((pid, name), []))

    def processes(self, name):
        return [pid for pid, names in self.names.items() if any(re.match(name, one) for one in names)]


def check_row(row):
    """Events lie beside or in each other, to the nanosecond: of two that overlap, Perfetto drops one."""
    ends = []
    for begin, length in sorted(row, key=lambda one: (one[0], -one[1])):
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or begin + length <= ends[-1], (begin, length, ends)
        ends.append(begin + length)


def within(inner, outer):
    """How many of the inner spans lie in one of the outer ones."""
    return sum(any(b <= begin + APART_US and end <= e + APART_US for b, e in outer) for begin, end in inner)


@pytest.mark.limit(120)
def test_who_may_not_record_is_told_so(tmp_path):
    """The script runs as root here, and its feedctl as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    (tmp_path / "programs").mkdir()
    feedctl = tmp_path / "programs/feedctl"
    words = f"exec setpriv --reuid=65534 --regid=65534 --clear-groups {harness.PROGRAMS}/feedctl"
    feedctl.write_text(f'#!/bin/sh\n{words} "$@"\n')
    feedctl.chmod(0o755)
    done = run_example(tmp_path, feedctl.parent, check=False)
    assert done.returncode == 1, done
    assert "feedd.json is empty: only root and the daemon's user may record" in done.stderr, done.stderr
    assert not (tmp_path / "feedd.json").read_text() and not (tmp_path / "both.json").exists()


@pytest.mark.limit(120)
def test_one_file(tmp_path):
    run_example(tmp_path)
    both = Timeline(tmp_path / "both.json")
    (training,) = both.processes("consumer of feed")
    # What torch.profiler has recorded is of the same process.
    taken, trained = both.of(training, "next"), both.of(training, "train")
    assert len(taken) == len(trained) == STEPS, (len(taken), len(trained))
    # A step begins with a batch that the consumer holds while it trains.
    leases = both.of(training, "lease")
    for step in list(zip(taken, trained))[2:-2]:
        (asked, got), (_, trained_until) = step
        held = [lease for lease in leases if lease[0] < got + APART_US and lease[1] > trained_until - APART_US]
        assert any(released > asked for _, released in held), (step, leases)
    # It waits for batches nowhere else than there, and all the time: the clocks are one.
    waits = both.of(training, "wait for a batch")
    assert len(waits) >= STEPS // 2 and within(waits, taken) == len(waits), (waits, taken)
    long = [end - begin for begin, end in waits]
    assert max(long) > 5 * APART_US, long
    for row in both.rows.values():
        assert min(row)[0] >= 0
        check_row(row)
    # And the loader's own rows are of the same time.
    loaders = both.processes("feedd loader")
    chunks = [chunk for pid in loaders for chunk in both.of(pid, "chunk")]
    assert within(chunks, [(taken[0][0], trained[-1][1])]) > STEPS, (chunks, taken)


def timeline(*files):
    done = subprocess.run([sys.executable, "-m", "feedd.timeline", *files], capture_output=True, text=True, check=False,
                          env=support.environment())  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_files_that_are_merged(tmp_path):
    """Each file's times count from its own beginning; an old one's, from 1970. None becomes negative: Perfetto drops those."""
    first, second, old = tmp_path / "first.json", tmp_path / "second.json.gz", tmp_path / "old.json"
    event = {"ph": "X", "name": "x", "pid": 1, "tid": 1, "dur": 20}
    name = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "one"}}
    first.write_text(json.dumps({"baseTimeNanoseconds": 5_000_000_000, "traceEvents": [{**event, "ts": 10.5}], "more": 1}))
    second.write_bytes(gzip.compress(json.dumps(
        {"baseTimeNanoseconds": 5_000_004_000, "traceEvents": [name, {**event, "ts": 2}]}).encode()))  # fmt: skip
    old.write_text(json.dumps({"traceEvents": [{**event, "ts": 5_000_011.0}]}))
    made = json.loads(timeline(first, second, old).stdout)
    assert made == {"baseTimeNanoseconds": 5_000_006_000, "more": 1, "traceEvents": [
        {**event, "ts": 4.5}, name, {**event, "ts": 0.0}, {**event, "ts": 5.0}]}  # fmt: skip
    other_day = tmp_path / "other.json"
    other_day.write_text(json.dumps({"baseTimeNanoseconds": 9_000_000_000, "traceEvents": [event | {"ts": 0}]}))
    done = timeline(first, other_day)
    assert done.returncode == 1 and not done.stdout and f"{other_day} and {first} have no moment in common" in done.stderr, done


ENDLESS = b'{"traceEvents": [{"ph": "X", "ts": 1e400}]}'
NONE = [b"", b'{"traceEvents": [', b"[]", b'{"traceEvents": []}', b"\x1f\x8b", b'{"traceEvents": [1]}', ENDLESS]


@pytest.mark.parametrize("content", NONE)
def test_files_that_are_none(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    done = timeline(path, path)
    assert done.returncode == 1 and not done.stdout and f"{path} is not a complete timeline: " in done.stderr, done
    missing = timeline(tmp_path / "none.json")
    assert missing.returncode == 1 and "there is no file " in missing.stderr, missing
