#!/bin/sh
# Fills a folder with only the static versions of the named libraries, so that a linker that searches it first takes these:
# static-libraries.sh FOLDER NAME...
set -eu

folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder"
for name in "$@"; do
    # Debian calls libuv's libuv_a.a.
    for file in "lib$name.a" "lib${name}_a.a"; do
        path=$(${CC:-cc} -print-file-name="$file")
        [ "$path" = "$file" ] || break
    done
    if [ ! -e "$path" ]; then
        printf '%s: there is no static lib%s on this machine\n' "$0" "$name" >&2
        exit 1
    fi
    ln -s "$(realpath "$path")" "$folder/lib$name.a"
done
