#!/usr/bin/env python3
"""flood.py SOCKET SECONDS UID: sessions of that user that ask for feeds of many shapes and go, as fast as one process can."""

import contextlib
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import wire  # noqa: E402


def main():
    if (user := int(sys.argv[3])) != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    end, number = time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < end:
        sessions = []
        with contextlib.suppress(OSError, wire.Closed, TimeoutError, AssertionError):
            for _ in range(20):
                sessions.append(wire.Client(sys.argv[1], timeout_s=2))
                sessions[-1].hello()
                number += 1
                sessions[-1].send("attach", dataset="vectors", batch_size=8 + number % 100, ring_bytes=65536)
        for session in sessions:
            session.close()


main()
