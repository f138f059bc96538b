#!/bin/sh
# Fetches CUDA's headers and nvcc, which DEPENDENCIES pins, from PyPI: cuda-headers.sh FOLDER makes FOLDER look like a toolkit,
# with bin/nvcc and include. Does nothing if these versions are there already. On failure one line on standard error says why,
# and FOLDER is unchanged. It fetches 100 MB.
# PYTHON= takes another interpreter than python3.
set -eu
LC_ALL=C
export LC_ALL
# The environment in which pip builds a package hides pip itself.
unset PYTHONPATH

folder=$1
list=$(dirname "$0")/../DEPENDENCIES
pins=$(sed -n 's/^pypi  *\([^ ]*\)  *\([^ ]*\)  *cuda .*/\1==\2/p' "$list")
[ "$(cat "$folder/version" 2>/dev/null)" != "$pins" ] || exit 0

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    printf '%s: %s\n' "${wanted:-CUDA from PyPI}" "$1" >&2
    exit 1
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "there is no $python to run pip with"
if ! "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv "$work/venv" >/dev/null 2>&1 || fail "$python has neither pip nor venv (python3-venv)"
    python=$work/venv/bin/python
fi
for wanted in $pins; do
    "$python" -m pip --disable-pip-version-check --no-input download -qq --retries 2 --timeout 20 --no-deps \
        --only-binary :all: --dest "$work" "$wanted" >"$work/said" 2>&1 ||
        fail "$(grep '^ERROR' "$work/said" | tail -n 1 | cut -c 1-200)"
done

# Of what the wheels have for programs and libraries of others, nothing is kept.
wanted=
"$python" - "$work" <<'END' || fail 'the wheels lack something'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
programs = {"nvcc", "nvcc.profile", "cudafe++", "fatbinary", "ptxas"}
for path in work.glob("*.whl"):
    wheel = zipfile.ZipFile(path)
    for name in wheel.namelist():
        top, _, rest = name.removeprefix("nvidia/").removeprefix("cu13/").partition("/")
        if not name.startswith("nvidia/cu13/") or name.endswith("/") or ".." in name:
            continue
        if top in ("include", "nvvm") or (top == "bin" and rest in programs):
            file = work / "new" / top / rest
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(wheel.read(name))
            file.chmod(0o755 if file.parent.name == "bin" else 0o644)
needed = [*(f"bin/{name}" for name in programs), "nvvm/bin/cicc", "include/cuda.h", "include/cudaTypedefs.h",
          "include/cuda_runtime.h", "include/nvtx3/nvToolsExt.h"]
sys.exit(not all((work / "new" / name).exists() for name in needed))
END
printf '%s\n' "$pins" >"$work/new/version"
rm -rf "$folder"
mv "$work/new" "$folder"
