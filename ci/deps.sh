#!/usr/bin/env bash
# Checks for the Debian packages that make test needs: kazoo. With the argument rest it also checks for those of the rest of CI:
# ZooKeeper, its other clients, gcc, Curator, a JDK, systemd, Prometheus, openssl. With nightly it also checks for Chromium,
# docker-compose and the suites of others, and with peers only for kazoo and these. If this is root, it installs those that are missing; otherwise it prints the command that does, and fails. A container
# engine must run already: none is installed or started.
set -euo pipefail

missing=()
# package NAME adds a package to missing unless it is installed. program NAME PACKAGE... adds packages
# unless there is a program of that name.
package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] || missing+=("$1"); }
program() { command -v "$1" >/dev/null || missing+=("${@:2}"); }

package python3-kazoo
if [ "${1:-}" = rest ] || [ "${1:-}" = nightly ]; then
  package zookeeper
  package python3-pure-sasl # for logins of kazoo
  for name in krb5-kdc krb5-admin-server krb5-user python3-kerberos; do package "$name"; done
  package libzookeeper-mt-dev
  program gcc gcc libc6-dev
  package libcurator-recipes-java
  package systemd # only to check the unit
  package prometheus
  program openssl openssl
  program javac default-jdk-headless
  if [ "$(id -u)" -eq 0 ]; then # other users may make no network namespaces and disks
    program ip iproute2
    program nft nftables
    program mkfs.ext4 e2fsprogs
  fi
fi
if [ "${1:-}" = nightly ] || [ "${1:-}" = peers ]; then # suites of others, and what they import
  for name in tooz taskflow pytest mock gevent eventlet objgraph pure-sasl fixtures testtools oslotest zake; do package "python3-$name"; done
  program ip iproute2
  package zookeeper # and what its tests in C and Java are built with
  program javac default-jdk-headless
  for name in junit5 libmockito-java liblogback-java libcommons-collections4-java libbcprov-java libcppunit-dev libssl-dev libsasl2-dev libsasl2-modules libtool; do package "$name"; done
  program dpkg-source dpkg-dev
  program g++ g++ libc6-dev
  for name in make autoconf automake pkg-config openssl; do program "$name" "$name"; done
  program ps procps
fi
if [ "${1:-}" = nightly ]; then
  program chromium chromium
  for name in unshare nsenter; do program "$name" util-linux; done # for the nodes of integration/kubernetes
  docker compose version >/dev/null 2>&1 || program docker-compose docker-compose
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests need Debian packages: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${missing[@]}"
