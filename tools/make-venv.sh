#!/bin/sh
# Creates or completes a virtual environment with the PyPI packages that DEPENDENCIES lists for the named groups:
# make-venv.sh FOLDER GROUP... Quick if they are all there. PYTHON= takes another interpreter than python3. The configuration of
# pip says where packages come from.
set -eu
LC_ALL=C
export LC_ALL

list=$(dirname "$0")/../DEPENDENCIES
groups='python torch peers frameworks pictures'
venv=$1
shift

fail() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 1
}

[ $# -gt 0 ] || fail "name one or more groups of packages: $groups"
wanted=
for group in "$@"; do
    case " $groups " in
        *" $group "*) ;;
        *) fail "'$group' is not a group of PyPI packages; the groups are: $groups" ;;
    esac
    wanted="$wanted $(sed -n "s/^pypi  *\([^ ]*\)  *\([^ ]*\)  *\([^ ]*,\)*${group}[, ].*/\1==\2/p" "$list" | tr '\n' ' ')"
done

# An environment that was moved, or whose Python is gone, is created again.
if ! "$venv/bin/python" -c 'import pip' 2>/dev/null || ! grep -qxF "$(realpath -m "$venv")" "$venv/made-here" 2>/dev/null; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed by the NumPy in DEPENDENCIES"
    "${PYTHON:-python3}" -m venv "$venv" || fail "cannot create a virtual environment in $venv"
    realpath "$venv" >"$venv/made-here"
fi

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}

all_there() {
    have=$(pip freeze --all)
    for pin in $wanted; do
        # pip writes names in its own way, and a local version, as in +cpu, after the number.
        name=$(printf '%s' "${pin%%==*}" | tr '_.' '--')
        printf '%s\n' "$have" | tr '_' '-' | grep -qiE "^$name==${pin#*==}(\+.*)?$" || return 1
    done
}
all_there && exit 0

# The build of PyTorch for CPUs is a tenth as large, but not every index has it.
for cpu in +cpu ''; do
    with=
    for pin in $wanted; do
        case $pin in torch==*) pin=$pin$cpu ;; esac
        with="$with $pin"
    done
    # shellcheck disable=SC2086 # one argument a package
    if pip install -qq $with; then
        exit 0
    fi
    case $wanted in *torch==*) ;; *) break ;; esac
done
fail "pip could not install what DEPENDENCIES lists for: $*"
