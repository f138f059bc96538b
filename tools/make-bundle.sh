#!/bin/sh
# Packs what `make bundle` has built: make-bundle.sh BUILD PYTHON ARCHIVE. PYTHON is the unpacked wheel. Fails if a program
# would need more than glibc 2.34 on the target machine.
set -eu
LC_ALL=C
export LC_ALL

build=$1
python=$2
archive=$3
name=$(basename "$archive" .tar.gz)
stage=$build/stage/$name
newest_glibc=2.34

rm -rf "$build/stage"
mkdir -p "$stage/build/tests" "$stage/build/bench" "$stage/build/lib"

cp "$build/feedd" "$build/feedctl" "$build/libfeed.so.0" "$build/libfeed.a" "$stage/build"
ln -s libfeed.so.0 "$stage/build/libfeed.so"
cp "$build"/tests/* "$stage/build/tests"
cp "$build"/bench/* "$stage/build/bench"
strip "$stage/build/feedd" "$stage/build/feedctl" "$stage"/build/tests/* "$stage"/build/bench/*
strip --strip-unneeded "$stage/build/libfeed.so.0"
cmocka=$(ldd "$build/tests/test_token" | sed -n 's/.*libcmocka.* => \([^ ]*\) .*/\1/p')
cp -L "$cmocka" "$stage/build/lib/libcmocka.so.0"

# What the tests read, and the documents.
cp -r README.md ARCHITECTURE.md CHANGELOG.md LICENSE docs base bench client daemon gpu order proto shm systemd tests third_party "$stage"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
cp -r "$python" "$stage/python"
find "$stage/python" -name __pycache__ -prune -exec rm -r {} +
strip --strip-unneeded "$stage/python/feedd/_feed.abi3.so"
cp tools/bundle/README "$stage/README.bundle"
cp tools/bundle/check tools/bundle/check-gpu tools/bundle/bench.sh tools/bundle/bench-gpu tools/bundle/bench-torch-gpu \
    tools/bundle/storm "$stage"
date -u +%Y-%m-%d >"$stage/build/bundle"

for program in "$stage"/build/feed* "$stage"/build/libfeed.so.0 "$stage"/build/tests/* "$stage"/build/bench/* \
    "$stage/python/feedd/_feed.abi3.so"; do
    needed=$(objdump -p "$program" | sed -n 's/^ *NEEDED *//p' |
        grep -vxE 'libc\.so\.6|libm\.so\.6|ld-linux-x86-64\.so\.2|libcmocka\.so\.0' || true)
    glibc=$(objdump -T "$program" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -V | tail -n 1)
    newer=$(printf '%s\n%s\n' "${glibc:-0}" "$newest_glibc" | sort -V | tail -n 1)
    if [ -n "$needed" ] || [ "$newer" != "$newest_glibc" ]; then
        printf '%s: %s needs %s and glibc %s; a bundle may need glibc %s alone\n' "$0" "${program##*/}" \
            "${needed:-nothing else}" "$glibc" "$newest_glibc" >&2
        exit 1
    fi
done

tar -C "$build/stage" --sort=name --owner=0 --group=0 --numeric-owner -czf "$archive" "$name"
printf '%s: %s MiB\n' "$archive" "$(($(stat -c %s "$archive") / 1048576))"
