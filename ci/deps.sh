#!/usr/bin/env bash
# Checks for the Debian packages that the tests need, ZooKeeper, clients of it with what
# compiles them, and docker-compose, and installs the missing ones if it may. A container
# engine must run already: none is installed or started.
set -euo pipefail

missing=()
for package in zookeeper python3-kazoo libcurator-recipes-java libzookeeper-mt-dev; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
command -v javac >/dev/null || missing+=(default-jdk-headless)
if [ "${ROLLCALL_NO_DOCKER:-}" != 1 ] && ! docker compose version >/dev/null 2>&1 && ! command -v docker-compose >/dev/null; then
  missing+=(docker-compose)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests need Debian packages: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${missing[@]}"
