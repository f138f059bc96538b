#!/bin/sh
# Fetches the CUDA driver's headers, which DEPENDENCIES pins, from PyPI: cuda-headers.sh FOLDER puts them into FOLDER/include.
# Does nothing if that version is there already. On failure one line on standard error says why, and FOLDER is unchanged.
# PYTHON= takes another interpreter than python3.
set -eu
LC_ALL=C
export LC_ALL
# The environment in which pip builds a package hides pip itself.
unset PYTHONPATH

folder=$1
list=$(dirname "$0")/../DEPENDENCIES
pin=$(sed -n 's/^pypi  *\([^ ]*\)  *\([^ ]*\)  *cuda .*/\1==\2/p' "$list")
[ "$(cat "$folder/version" 2>/dev/null)" != "$pin" ] || exit 0

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    printf '%s: %s\n' "$pin" "$1" >&2
    exit 1
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "there is no $python to run pip with"
if ! "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv "$work/venv" >/dev/null 2>&1 || fail "$python has neither pip nor venv (python3-venv)"
    python=$work/venv/bin/python
fi
"$python" -m pip --disable-pip-version-check --no-input download -qq --retries 2 --timeout 20 --no-deps \
    --only-binary :all: --dest "$work" "$pin" >"$work/said" 2>&1 ||
    fail "$(grep '^ERROR' "$work/said" | tail -n 1 | cut -c 1-200)"

# These two include nothing further.
"$python" - "$work" <<'END' || fail 'the wheel has no cuda.h and cudaTypedefs.h'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
wheel = zipfile.ZipFile(next(work.glob("*.whl")))
(work / "new/include").mkdir(parents=True)
for header in ("cuda.h", "cudaTypedefs.h"):
    name = next(name for name in wheel.namelist() if name.endswith("/include/" + header))
    (work / "new/include" / header).write_bytes(wheel.read(name))
END
printf '%s\n' "$pin" >"$work/new/version"
rm -rf "$folder"
mv "$work/new" "$folder"
