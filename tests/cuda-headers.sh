#!/bin/sh
# Builds what uses CUDA's headers as on a machine without a CUDA toolkit: cuda-headers.sh, with BUILD= a separate folder.
# First without a network either, which must work and warn, then with headers from PyPI, then again without a network.
set -eu

build=${BUILD:?}
object=$build/obj/gpu/gpu_cuda_driver.o
kernel=$build/obj/gpu/gpu_cuda_finish.o

fail() {
    printf '%s: %s\n' "$0" "$1" >&2
    cat "$build/said" >&2
    exit 1
}

build() { # with these settings of pip's in the environment
    env "$@" CUDA_HEADERS="$build/cuda" "${MAKE:-make}" --no-print-directory BUILD="$build" CUDA_HOME=fetch WERROR=1 \
        "$object" "$build/obj/gpu/gpu_cuda.o" "$kernel" "$build/obj/gpu/gpu_cuda_ranges.o" >"$build/said" 2>&1 || fail 'it does not build'
}

offline() {
    build PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS=/nonexistent
}

has_cuda() {
    nm "$object" | grep -q ' cuda_driver$'
}

rm -rf "$build"
mkdir -p "$build"
offline
has_cuda && fail 'there is GPU support without headers'
[ "$(grep -c 'warning: .*CUDA=0' "$build/said")" -eq 1 ] || fail 'no warning, or several, that GPU support is missing'
build A=
has_cuda || fail 'there is no GPU support with the headers from PyPI'
! grep -q warning "$build/said" || fail 'there is a warning although GPU support was built'
[ -x "$(cat "$build/nvcc.found")" ] || fail 'nvcc from PyPI is not used'
nm "$kernel" | grep -q feedd_finish_image || fail 'there is no kernel with nvcc from PyPI'
nm "$build/obj/gpu/gpu_cuda_ranges.o" | grep -q nvtx || fail 'there are no ranges with the headers from PyPI'
build NVCC=none
[ "$(grep -c 'without the kernel of' "$build/said")" -eq 1 ] || fail 'no line says that the kernel is missing'
! nm "$kernel" | grep -q feedd_finish_image || fail 'there is a kernel without nvcc'
rm "$object"
offline
has_cuda || fail 'the unpacked headers are not used again'
echo 'cuda-headers: GPU support, with its kernel, is built in without a toolkit'
