#!/bin/sh
# Builds the Debian packages from `make install` into a staging folder and from the unpacked wheel of the Python package:
# make-deb.sh BUILD VERSION PYTHON. tools/deb says what goes into which. They are left in BUILD/packages. Called by `make deb`.
set -eu
umask 022
LC_ALL=C
export LC_ALL

build=$1
version=$2
python=$3
here=$(dirname "$0")
make=${MAKE:-make}
# Set this if you distribute the packages.
maintainer=${MAINTAINER:-feedd <feedd@feedd.invalid>}
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$build/deb
root=$work/tree
output=$build/packages
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

rm -rf "$work" "$output"
mkdir -p "$work/debian" "$root" "$output"
cp "$here"/deb/* "$work/debian"
sed -i "s|@MAINTAINER@|$maintainer|" "$work/debian/control"
cat >"$work/debian/changelog" <<END
feedd ($version) unstable; urgency=medium

  * CHANGELOG.md lists the changes.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
echo 13 >"$work/debian/compat"

$make BUILD="$build" PREFIX=/usr LIBDIR="/usr/lib/$multiarch" SYSTEMDDIR=/lib DESTDIR="$root" install
mv "$root/lib/sysusers.d" "$root/lib/tmpfiles.d" "$root/usr/lib" # only units are in /lib
cp third_party/flatcc/NOTICE "$root/usr/share/doc/feedd/NOTICE.flatcc"
cp third_party/nanoarrow/NOTICE "$root/usr/share/doc/feedd/NOTICE.nanoarrow"
install -D -m 644 client/example.c "$root/usr/share/doc/libfeed-dev/examples/example.c"
rm "$root/usr/share/doc/feedd/examples/example.c"
gzip -9n <CHANGELOG.md >"$root/usr/share/doc/feedd/changelog.gz"

# Debian keeps no list of files beside a package: dpkg has it.
packages=$root/usr/lib/python3/dist-packages
mkdir -p "$packages"
cp -r "$python"/* "$packages"
find "$packages" -name __pycache__ -prune -exec rm -r {} +
rm "$packages"/feedd-*.dist-info/RECORD

output=$(realpath "$output")
(cd "$work" && FEEDD_VERSION="$version" FEEDD_OUTPUT="$output" debian/rules binary)
