#!/bin/sh
# Installs into a folder, then builds and runs tests/embed against what was installed, by pkg-config
# alone. Usage: tools/check_install.sh BUILD
set -eu
build=$1
folder=$(mktemp -d "${TMPDIR:-/tmp}/sandboxkit-install.XXXXXX")
trap 'rm -rf "$folder"' EXIT
DESTDIR="$folder" meson install -C "$build" --no-rebuild --quiet
pc=$(find "$folder" -name 'sandboxkit.pc' -printf '%h\n')
export PKG_CONFIG_PATH="$pc" PKG_CONFIG_SYSROOT_DIR="$folder"
# shellcheck disable=SC2046  # the flags are words
c++ -std=c++20 -Wall -Wextra -Werror tests/embed/main.cc -o "$folder/embed" \
  $(pkg-config --cflags --libs sandboxkit)
LD_LIBRARY_PATH=$(dirname "$(find "$folder" -name 'libsandboxkit.so')") "$folder/embed"
for program in sandboxkit sandboxkit-controller sandboxkit-worker; do
  path=$(find "$folder" -type f -name "$program" -path '*/bin/*')
  LD_LIBRARY_PATH=$(dirname "$(find "$folder" -name 'libsandboxkit.so')") "$path" --version
done
find "$folder" -type f -name sandboxkit-guest -path '*/libexec/*' | grep -q .
echo "install: ok"
