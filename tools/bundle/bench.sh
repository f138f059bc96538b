#!/bin/sh
# Measures this machine; about five minutes and 6.5 GiB under build/bench/data. Options are those of bench/run.py.
cd "$(dirname "$0")" && exec python3 bench/run.py --build build "$@"
