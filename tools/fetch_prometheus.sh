#!/bin/bash
# Puts Debian's prometheus and promtool into .cache/prometheus and installs nothing.
set -euo pipefail
into=.cache/prometheus
[ -x "$into/prometheus" ] && [ -x "$into/promtool" ] && exit 0

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "no apt here: tests that need Prometheus will be skipped" >&2
    exit 0
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
cd "$scratch"
# without lists of packages, or with old ones, there is nothing to download
apt-get download -q prometheus 2>/dev/null || { "${as_root[@]}" apt-get update -q && apt-get download -q prometheus; }
dpkg-deb -x prometheus_*.deb .
cd - >/dev/null
mkdir -p "$into"
mv "$scratch/usr/bin/prometheus" "$scratch/usr/bin/promtool" "$into/"
