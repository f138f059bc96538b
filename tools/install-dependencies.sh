#!/bin/sh
# Installs the missing Debian packages that DEPENDENCIES lists for the groups named on the command line. Silent if there are
# none. Uses sudo only if something is missing and the user is not root.
set -eu
LC_ALL=C
export LC_ALL

list=$(dirname "$0")/../DEPENDENCIES
groups='build demo check python lint bench fuzz model package systemd pictures'

fail() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 1
}

[ $# -gt 0 ] || fail "name one or more groups of packages: $groups"
for group in "$@"; do
    case " $groups " in
        *" $group "*) ;;
        *) fail "'$group' is not a group of packages; the groups are: $groups" ;;
    esac
done

# "package minimum" a line, of the wanted groups.
wanted=$(while read -r package minimum member_of _; do
    case $package in '' | \#* | pypi) continue ;; esac
    for group in "$@"; do
        case ",$member_of," in
            *",$group,"*)
                printf '%s %s\n' "$package" "$minimum"
                break
                ;;
        esac
    done
done <"$list")
names=$(printf '%s\n' "$wanted" | cut -d ' ' -f 1 | tr '\n' ' ')

if ! command -v dpkg-query >/dev/null; then
    printf '%s: not a Debian system, so nothing is installed; needed are what Debian calls: %s\n' "$0" "$names" >&2
    exit 0
fi

# Prints the required packages that are missing or too old, one per line.
find_missing() {
    # shellcheck disable=SC2086 # one argument a name
    have=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev} ${Version}\n' $names 2>/dev/null || true)
    printf '%s\n' "$wanted" | while read -r package minimum; do
        version=$(printf '%s\n' "$have" | sed -n "s/^$package .i  *//p" | head -n 1)
        if [ -z "$version" ] || ! dpkg --compare-versions "$version" ge "$minimum"; then
            printf '%s\n' "$package"
        fi
    done
}

missing=$(find_missing | tr '\n' ' ')
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing, and only root can install them without sudo: \
apt-get install $missing"
    as_root=sudo
fi
echo "installing: $missing"
$as_root apt-get update -q || fail "apt-get update failed (is there a network, and may you use sudo?); these packages \
are missing: $missing"
# shellcheck disable=SC2086 # one argument a name
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing ||
    fail "apt-get could not install: $missing"

missing=$(find_missing | tr '\n' ' ')
[ -z "$missing" ] || fail "older than what DEPENDENCIES asks for, and this system has nothing newer: $missing"
