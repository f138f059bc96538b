"""``python -m feedd.timeline torch.json feedd.json >both.json``: one timeline of several that were recorded at the same time.

PyTorch's profiler and ``feedctl trace`` both write the Trace Event format. Their times count from a moment that each file
states, so all that differs is that moment. The files may be compressed with gzip.
"""

import argparse
import gzip
import json
import sys
import zlib
from typing import Any

__all__ = ["merge"]

# A timeline as json.load() returns it. Its times are microseconds, and it says in nanoseconds since 1970 when they begin;
# PyTorch before 2.3 does not, because its times count from 1970 themselves.
Timeline = dict[str, Any]
BEGIN = "baseTimeNanoseconds"


def _begin_ns(timeline: Timeline) -> int:
    return int(timeline.get(BEGIN, 0))


def _shifted(event: dict[str, Any], later_us: float) -> dict[str, Any]:
    """Events without a time are the names of rows."""
    return {**event, "ts": float(event["ts"]) + later_us} if "ts" in event else event


def merge(*timelines: Timeline) -> Timeline:
    """One timeline with the events of all, and what else the first one says. It begins with the earliest, since Perfetto
    drops events before a timeline's beginning."""
    begin_ns = min(map(_begin_ns, timelines))
    events = []
    for timeline in timelines:
        later_us = (_begin_ns(timeline) - begin_ns) / 1000
        events += [_shifted(event, later_us) for event in timeline["traceEvents"]]
    return {**timelines[0], BEGIN: begin_ns, "traceEvents": events}


def _span(timeline: Timeline) -> tuple[float, float]:
    """From the first event to the end of the last one, in seconds since 1970."""
    placed = [event for event in timeline["traceEvents"] if "ts" in event]
    if not placed:
        raise ValueError("there are no events in it")
    begin = min(float(event["ts"]) for event in placed)
    end = max(float(event["ts"]) + float(event.get("dur", 0)) for event in placed)
    return _begin_ns(timeline) / 1e9 + begin / 1e6, _begin_ns(timeline) / 1e9 + end / 1e6


def _read(path: str) -> Timeline:
    with open(path, "rb") as file:
        data = file.read()
    found = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise ValueError("it has no list of traceEvents")
    return found


def _fail(sentence: str) -> int:
    print(f"feedd.timeline: {sentence}", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m feedd.timeline",
        description="Writes one timeline with the events of all that are given, on standard output: those of torch.profiler and"
        " of feedctl trace.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    timelines, spans = [], []
    for path in parser.parse_args().files:
        try:
            timelines.append(_read(path))
            spans.append((path, *_span(timelines[-1])))
        except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
            return _fail(f"{path} is not a complete timeline: {error}")
    first, first_begin, first_end = spans[0]
    for path, begin, end in spans:
        if begin > first_end or end < first_begin:
            return _fail(
                f"{path} and {first} have no moment in common: were they recorded at the same time, and on the same machine?"
            )
    json.dump(merge(*timelines), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
