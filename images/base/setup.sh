#!/bin/sh
# Runs inside of the new root file system, after the packages are there. Used by scripts/build-image
# and by the Dockerfile beside it, so that both make the same image.
set -eu
useradd --create-home --uid 1000 --shell /bin/bash user
chmod 755 /home/user
printf 'user ALL=(ALL:ALL) NOPASSWD: ALL\n' > /etc/sudoers.d/user
# Without them what runs by sudo finds no way out of a walled sandbox.
printf 'Defaults env_keep += "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"\n' >> /etc/sudoers.d/user
chmod 440 /etc/sudoers.d/user
# sudo looks its host up; in a walled sandbox that has to be answered from the file.
printf '127.0.0.1 localhost\n::1 localhost\n' > /etc/hosts
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt /usr/share/doc/* \
  /usr/share/man/* /usr/share/info/* /var/cache/debconf/*-old /tmp/* /var/tmp/*
