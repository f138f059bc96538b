#!/bin/sh
# The C files of the extension module, one a line: the module's own, libfeed's, and what both stand on.
cd "$(dirname "$0")" || exit 1
printf '%s\n' native/*.c ../../base/*.c ../../order/*.c ../../shm/*.c ../../gpu/*.c ../../proto/*.c ../lib/*.c
