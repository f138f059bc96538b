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
Event = dict[str, Any]
BEGIN = "baseTimeNanoseconds"


def _ns(timeline: Timeline, event: Event) -> int:
    """When an event begins, since 1970."""
    return int(timeline.get(BEGIN, 0)) + round(float(event["ts"]) * 1000)


def _placed(timeline: Timeline) -> list[Event]:
    """Events that have a time; others are the names of rows."""
    return [event for event in timeline["traceEvents"] if "ts" in event and event.get("ph") != "M"]


def _span(timeline: Timeline) -> tuple[int, int]:
    """From the first event to the end of the last one, in nanoseconds since 1970."""
    placed = _placed(timeline)
    if not placed:
        raise ValueError("there are no events in it")
    ends = [_ns(timeline, event) + round(float(event.get("dur", 0)) * 1000) for event in placed]
    return min(_ns(timeline, event) for event in placed), max(ends)


def merge(*timelines: Timeline) -> Timeline:
    """One timeline with the events of all, and the other entries of the first one.

    It begins with the first event, because Perfetto drops events before the beginning; and if times were large, rounding would
    make neighbours overlap, which Perfetto drops as well.
    """
    begin_ns = min(_span(timeline)[0] for timeline in timelines)
    events = []
    for timeline in timelines:
        events += [event for event in timeline["traceEvents"] if event.get("ph") == "M"]
        events += [{**event, "ts": (_ns(timeline, event) - begin_ns) / 1000} for event in _placed(timeline)]
    return {**timelines[0], BEGIN: begin_ns, "traceEvents": events}


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
        description="Merges timelines into one, and writes it to standard output. Takes files of torch.profiler and"
        " of feedctl trace.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    timelines, spans = [], []
    for path in parser.parse_args().files:
        try:
            timelines.append(_read(path))
            spans.append((path, *_span(timelines[-1])))
        except FileNotFoundError:
            return _fail(f"there is no file {path}")
        except (OSError, EOFError, zlib.error, ValueError, TypeError, AttributeError, ArithmeticError) as error:
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
