#!/bin/sh
# The core library must not bring an HTTP server into an embedder's process, and the helpers that
# travel into containers are static and small. Usage: tools/check_links.sh BUILD
set -eu
build=$1
core=$(find "$build/lib" -name 'libsandboxkit.so.*.*.*' -type f | head -n 1)
# Its own needs: libcurl brings an HTTP/2 library of its own, which is no server in our name.
if readelf -d "$core" | grep NEEDED | grep -E 'httplib|nghttp2|sqlite'; then
  echo "libsandboxkit links what belongs to libsandboxkit-service" && exit 1
fi
limit=$((4 * 1024 * 1024))
for helper in guest egress; do
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
echo "links: ok"
