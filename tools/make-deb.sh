#!/bin/sh
# Builds BUILD/feedd_VERSION_ARCH.deb from `make install` into a staging folder and from the unpacked wheel of the Python
# package: make-deb.sh BUILD VERSION PYTHON. Called by `make deb`.
set -eu
umask 022
LC_ALL=C
export LC_ALL

build=$1
version=$2
python=$3
here=$(dirname "$0")
make=${MAKE:-make}
# Set this if you distribute the package.
maintainer=${MAINTAINER:-feedd <feedd@feedd.invalid>}
arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$build/deb
root=$work/root
output=$build/feedd_${version}_$arch.deb
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

rm -rf "$work"
mkdir -p "$work/debian" "$root/DEBIAN"

$make BUILD="$build" PREFIX=/usr LIBDIR="/usr/lib/$multiarch" DESTDIR="$root" install
strip --strip-unneeded "$root"/usr/bin/* "$root/usr/lib/$multiarch/libfeed.so.0"
strip --strip-debug "$root/usr/lib/$multiarch/libfeed.a"

# Debian keeps no list of files beside a package: dpkg has it.
packages=$root/usr/lib/python3/dist-packages
mkdir -p "$packages"
cp -r "$python"/* "$packages"
find "$packages" -name __pycache__ -prune -exec rm -r {} +
rm "$packages"/feedd-*.dist-info/RECORD
strip --strip-unneeded "$packages/feedd/_feed.abi3.so"
chmod -R u=rwX,go=rX "$packages"
chmod 644 "$packages/feedd/_feed.abi3.so"

# Documents, as Debian wants them.
doc=$root/usr/share/doc/feedd
cat >"$doc/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: feedd

Files: *
Copyright: 2026 the authors of feedd
License: Apache-2.0
 On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.

Files: third_party/nanoarrow/*
Copyright: 2023 The Apache Software Foundation
License: Apache-2.0

Files: third_party/flatcc/*
Copyright: 2015-2023 Mikkel F. Jørgensen, dvide.com
License: Apache-2.0
EOF
cp third_party/flatcc/NOTICE "$doc/NOTICE.flatcc"
printf 'feedd (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in the source.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
find "$root/usr/share/man" -type f -exec gzip -9n {} +

# Dependencies, from what the programs and the library link to.
printf 'Source: feedd\n\nPackage: feedd\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/* \
    "root/usr/lib/$multiarch/libfeed.so.0" root/usr/lib/python3/dist-packages/feedd/_feed.abi3.so | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "make-deb.sh: dpkg-shlibdeps found no dependency" >&2; exit 1; }

cat >"$root/DEBIAN/control" <<EOF
Package: feedd
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -k -s --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends, python3:any (>= 3.10), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
Recommends: python3-numpy
Suggests: bash-completion, python3-torch
Section: science
Priority: optional
Description: daemon that keeps GPUs fed with training samples
 feedd runs beside training jobs, reads samples with io_uring straight into
 a ring in shared memory and hands batches to any number of processes.
 .
 This package holds the daemon, its control program feedctl, the library
 libfeed with what is needed to compile programs against it, and the Python
 package feedd, a DataLoader for PyTorch, JAX, CuPy and NumPy.
EOF
echo /etc/feedd/feedd.conf >"$root/DEBIAN/conffiles"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
echo "libfeed 0 feedd (>= $version)" >"$root/DEBIAN/shlibs"
for script in postinst prerm postrm; do
    install -m 755 "$here/deb/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/md5sums"

dpkg-deb --root-owner-group -Zxz --build "$root" "$output"
