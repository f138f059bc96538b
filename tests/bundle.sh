#!/bin/sh
# Unpacks the bundle in another place and runs a few of its tests there: bundle.sh ARCHIVE. The tests of the Python package
# need a python3 with NumPy and pytest.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xzf "$1"
cd "$folder"/feedd-*
# A bundle supports GPUs no matter where it was built.
for program in build/feedd build/libfeed.so.0 python/feedd/_feed.abi3.so; do
    grep -q cuGetProcAddress_v2 "$program" || { printf '%s: %s has no GPU support\n' "$1" "$program" >&2; exit 1; }
done
for tests in unit/test_order integration/test_order integration/test_install python/test_iterate; do
    ./check --only "$tests"
done
