#!/bin/sh
# The core library must not bring an HTTP server into an embedder's process, the helpers that travel
# into containers are static and small, and only a build with the option `fault_points` can be told
# to die. Usage: tools/check_links.sh BUILD
set -eu
build=$1
core=$(find "$build/lib" -name 'libsandboxkit.so.*.*.*' -type f | head -n 1)
# Its own needs: libcurl brings an HTTP/2 library of its own, which is no server in our name.
if readelf -d "$core" | grep NEEDED | grep -E 'httplib|nghttp2|sqlite'; then
  echo "libsandboxkit links what belongs to libsandboxkit-service" && exit 1
fi
for helper in guest egress; do
  case $helper in
    guest) limit=$((4 * 1024 * 1024)) ;;
    # It brings OpenSSL, to end TLS for lent secrets (docs/decisions/0008).
    egress) limit=$((8 * 1024 * 1024)) ;;
  esac
  binary=$build/daemons/$helper/sandboxkit-$helper
  if ldd "$binary" > /dev/null 2>&1; then
    echo "$binary is not static" && exit 1
  fi
  size=$(stat -c %s "$binary")
  if [ "$size" -gt "$limit" ]; then
    echo "$binary has $size bytes, the limit is $limit" && exit 1
  fi
  echo "$binary: static, $size bytes"
done

service=$(find "$build/lib" -name 'libsandboxkit-service.so.*.*.*' -type f | head -n 1)
option=$(meson introspect --buildoptions "$build" |
  python3 -c 'import json, sys; print({o["name"]: o["value"] for o in json.load(sys.stdin)}["fault_points"])')
for binary in "$core" "$service" "$build"/daemons/*/sandboxkit "$build"/daemons/*/sandboxkit-*; do
  [ -f "$binary" ] || continue
  # With the option the two libraries have the variable's name, or this check sees nothing.
  case $option$binary in
    True*.so.*) expected=yes ;;
    *) expected=no ;;
  esac
  found=no
  if grep -qa 'SANDBOXKIT_FAULT' "$binary"; then found=yes; fi
  if [ "$found" != "$expected" ]; then
    echo "$binary: names SANDBOXKIT_FAULT: $found, expected: $expected (fault_points=$option)" && exit 1
  fi
done
# A build with the option says nothing of one without: there the macro must leave nothing behind.
folder=$(mktemp -d "${TMPDIR:-/tmp}/sandboxkit-links.XXXXXX")
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/base" && : > "$folder/base/fault_points_config.h"
cd "$(dirname "$0")/.."
grep -rl --include='*.cc' 'SANDBOXKIT_FAULT_POINT(' lib | while read -r source; do
  if c++ -std=c++20 -E -P "-I$folder" -Iinclude -Ilib "$source" | grep -E '::pass_fault_point|SANDBOXKIT_FAULT'; then
    echo "$source: a build without fault_points keeps its fault points" && exit 1
  fi
done
echo "links: ok"
