#!/bin/sh
# Compiles gpu/finish.cu: finish-kernel.sh NVCC SOURCE OUTPUT. The output has code for each of these architectures that this
# nvcc knows, and PTX for the first of them, which the driver of any later GPU can translate.
set -eu
nvcc=$1
source=$2
output=$3

known=$("$nvcc" --list-gpu-arch)
set --
for number in 70 75 80 86 89 90 100 120; do
    case $known in
        *"compute_$number"*)
            [ $# -gt 0 ] || set -- -gencode "arch=compute_$number,code=compute_$number"
            set -- "$@" -gencode "arch=compute_$number,code=sm_$number"
            ;;
    esac
done
# Each operation is rounded on its own, as on the CPU.
exec "$nvcc" -fatbin -O2 -std=c++17 -fmad=false "-I$(dirname "$0")/.." "$@" -o "$output" "$source"
