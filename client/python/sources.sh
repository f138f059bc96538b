#!/bin/sh
# The C files of the extension module, one a line: the module's own, libfeed's, and what both stand on.
cd "$(dirname "$0")" || exit 1
printf '%s\n' native/*.c ../../shm/*.c ../../gpu/*.c ../../proto/*.c ../*.c |
    grep -v -e '^\.\./feedctl' -e '^\.\./cmd_' -e '^\.\./ctl_' -e '^\.\./example'
