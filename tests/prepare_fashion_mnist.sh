#!/bin/sh
# Unpacks Debian's dataset-fashion-mnist: prepare_fashion_mnist.sh FOLDER. Complete files are left alone.
set -eu

packed=${FASHION_MNIST:-/usr/share/datasets/fashion-mnist}
folder=${1:?name the folder to unpack into}

# unpack NAME BYTES: each file appears under its name only when it is complete.
unpack() {
    [ "$(stat -c %s "$folder/$1" 2>/dev/null || echo 0)" -eq "$2" ] && return
    if [ ! -f "$packed/$1.gz" ]; then
        echo "$packed/$1.gz is missing: install the package dataset-fashion-mnist" >&2
        exit 1
    fi
    gunzip -c "$packed/$1.gz" >"$folder/.$1.$$"
    found=$(stat -c %s "$folder/.$1.$$")
    if [ "$found" -ne "$2" ]; then
        rm -f "$folder/.$1.$$"
        echo "$packed/$1.gz unpacks to $found bytes where Fashion-MNIST has $2" >&2
        exit 1
    fi
    mv -f "$folder/.$1.$$" "$folder/$1"
}

mkdir -p "$folder"
unpack train-images-idx3-ubyte 47040016
unpack train-labels-idx1-ubyte 60008
unpack t10k-images-idx3-ubyte 7840016
unpack t10k-labels-idx1-ubyte 10008
