#!/bin/sh
# The version that the Makefile gives everything.
sed -n 's/^VERSION *:= *//p' "$(dirname "$0")/../../Makefile"
