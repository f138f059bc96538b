#!/bin/sh
# Unpacks the bundle somewhere else and runs a few of its tests from there: bundle.sh ARCHIVE. Those of the Python package
# need a python3 with NumPy and pytest.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xzf "$1"
cd "$folder"/feedd-*
for tests in unit/test_order integration/test_order integration/test_install python/test_iterate; do
    ./check --only "$tests"
done
