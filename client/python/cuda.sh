#!/bin/sh
# Prints the folder in whose include/ the CUDA driver's headers are, and nothing for a build without GPU support:
# cuda.sh WHICH [FOLDER]. WHICH is
#   none     no headers: nothing is printed
#   auto     $CUDA_HOME or the first of the usual places that has them, newest version first; otherwise as fetch
#   fetch    the headers and nvcc that DEPENDENCIES pins, from PyPI, unpacked in FOLDER, even where a toolkit is installed
#   a path   the toolkit there; fails if it lacks the headers
# CUDA_HOME=fetch turns auto into fetch. Without FOLDER nothing is fetched. If the headers can be had nowhere, auto warns
# and prints nothing.
set -eu
which=$1
folder=${2:-}
home=${CUDA_HOME:-}
header=include/cudaTypedefs.h

warn() {
    printf 'cuda.sh: warning: %s\n' "$1" >&2
}

[ "$which$home" != autofetch ] || which=fetch
case $which in
    none) exit 0 ;;
    fetch) ;;
    auto)
        if [ -n "$home" ] && [ ! -e "$home/$header" ] && [ -n "$folder" ]; then
            warn "there is no $header in CUDA_HOME=$home; looking elsewhere"
        fi
        # shellcheck disable=SC2046 # places have no spaces
        for place in "$home" /usr/local/cuda /usr/lib/cuda /opt/cuda /usr $(printf '%s\n' /usr/local/cuda-* | sort -rV); do
            if [ -n "$place" ] && [ -e "$place/$header" ]; then
                printf '%s\n' "$place"
                exit 0
            fi
        done
        ;;
    *)
        if [ ! -e "$which/$header" ]; then
            printf 'cuda.sh: there is no %s in %s\n' "$header" "$which" >&2
            exit 1
        fi
        printf '%s\n' "$which"
        exit 0
        ;;
esac

[ -n "$folder" ] || exit 0
if why=$("$(dirname "$0")/../../tools/cuda-headers.sh" "$folder" 2>&1); then
    printf '%s\n' "$folder"
    exit 0
fi
places='no CUDA toolkit was found in CUDA_HOME or the usual places, and '
[ "$which" = auto ] || places=
warn "this builds WITHOUT GPU support: ${places}its headers could not be fetched ($why). Name a toolkit with \
CUDA_HOME=, or build with CUDA=0 to leave GPU support out without this warning."
