#!/bin/sh
# Installs a wheel of make wheel into an environment of its own, with nothing else on the search path, and feeds an epoch with
# feedd.serve(), with each Python: wheel.sh WHEEL PYTHON...
set -eu

if [ $# -gt 2 ]; then
    wheel=$1
    shift
    for python in "$@"; do "$0" "$wheel" "$python"; done
    exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wheel=$(realpath "$1")
"$2" -m venv "$folder/venv"
clean() {
    (cd "$folder" && env -i PATH="$folder/venv/bin:/usr/bin:/bin" HOME="$folder" TMPDIR="$folder" "$@")
}
clean pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"

# Each file that can be run or loaded needs the C library alone, and supports GPUs no matter where it was built.
for program in "$folder"/venv/lib/python3*/site-packages/feedd/bin/* "$folder"/venv/lib/python3*/site-packages/feedd/*.so; do
    case $program in
        */feedctl) ;;
        *) grep -q cuGetProcAddress_v2 "$program" || { printf '%s has no GPU support\n' "$program" >&2; exit 1; } ;;
    esac
    needed=$(objdump -p "$program" | sed -n 's/^ *NEEDED *//p' | grep -vxE 'libc\.so\.6|libm\.so\.6|ld-linux-[a-z0-9-]*\.so\.[0-9]' || true)
    [ -z "$needed" ] || { printf '%s needs %s\n' "$program" "$needed" >&2; exit 1; }
done

# Also what only frameworks import.
clean python -m compileall -qf "$folder"/venv/lib/python3*/site-packages/feedd
version=$(clean python -c 'import feedd; print(feedd.__version__)')
[ "$(clean feedd --version)" = "feedd $version" ]
[ "$(clean feedctl --version)" = "feedctl $version" ]
clean python -c '
import os, struct, subprocess

import feedd

with open("numbers.bin", "wb") as file:
    file.write(struct.pack("<1000q", *range(1000)))
numbers = {"format": "records", "path": "numbers.bin", "record_bytes": 8, "field.id": "i64 @ 0"}
with feedd.serve({"numbers": numbers}) as service:
    own = os.path.join(os.path.dirname(feedd.__file__), "bin", "feedd")
    assert os.readlink(f"/proc/{service.pid}/exe") == own, "not the daemon of the wheel"
    seen = [n for (id,) in feedd.DataLoader("numbers", 64, shuffle=True) for n in struct.unpack(f"<{id.shape[0]}q", id.tobytes())]
    assert sorted(seen) == list(range(1000)) and seen != sorted(seen)
    assert "numbers" in subprocess.run(["feedctl", "datasets"], capture_output=True, text=True, check=True).stdout
'
grep -qx "Tag: $(basename "$wheel" .whl | cut -d- -f3-)" "$folder"/venv/lib/python3*/site-packages/feedd-*.dist-info/WHEEL
# Nothing is linked in whose licence is not there.
licences=$(find "$folder"/venv/lib/python3*/site-packages/feedd-*.dist-info/licenses -name '*-copyright' | wc -l)
[ "$licences" -ge 14 ] || { printf 'only %s licences of libraries\n' "$licences" >&2; exit 1; }
printf '%s: installed with %s, and an epoch fed by its own daemon\n' "$(basename "$wheel")" "$(clean python --version)"
