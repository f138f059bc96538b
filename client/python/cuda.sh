#!/bin/sh
# Where CUDA's headers are: what was asked for, or the first of the usual places; nothing if there are none.
case $1 in
    none) exit 0 ;;
    auto) set -- "${CUDA_HOME:-}" /usr/local/cuda /usr/lib/cuda /opt/cuda /usr /usr/local/cuda-* ;;
esac
for home in "$@"; do
    if [ -n "$home" ] && [ -e "$home/include/cudaTypedefs.h" ]; then
        printf '%s\n' "$home"
        exit 0
    fi
done
