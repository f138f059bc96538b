#!/bin/sh
# Where CUDA's headers are: in $1, which must have them; with "auto" in $CUDA_HOME or the first of the usual places, the newest
# version first, and nothing if they are nowhere; nothing with "none".
asked=$1
case $asked in
    none) exit 0 ;;
    auto) # shellcheck disable=SC2046 # places have no spaces
        set -- "${CUDA_HOME:-}" /usr/local/cuda /usr/lib/cuda /opt/cuda /usr $(printf '%s\n' /usr/local/cuda-* | sort -rV) ;;
esac
for home in "$@"; do
    if [ -n "$home" ] && [ -e "$home/include/cudaTypedefs.h" ]; then
        printf '%s\n' "$home"
        exit 0
    fi
done
[ "$asked" = auto ] || { echo "cuda.sh: there is no include/cudaTypedefs.h in $asked" >&2; exit 1; }
