#!/bin/bash
# Puts Debian's redis-server, with the libraries that this machine lacks, into .cache/redis and installs nothing.
set -euo pipefail
into=.cache/redis
[ -x "$into/redis-server" ] && exit 0
command -v redis-server >/dev/null && exit 0

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "no apt here: tests that need Redis will be skipped" >&2
    exit 0
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
cd "$scratch"
packages=(redis-server redis-tools libjemalloc2 liblua5.1-0 liblzf1 lua-bitop lua-cjson)
# without lists of packages, or with old ones, there is nothing to download
apt-get download -q "${packages[@]}" 2>/dev/null ||
    { "${as_root[@]}" apt-get update -q && apt-get download -q "${packages[@]}"; }
for package in *.deb; do dpkg-deb -x "$package" .; done
cd - >/dev/null
mkdir -p "$into/lib"
# redis-server is a name of this program; which name it is called by decides what it does
mv "$scratch/usr/bin/redis-check-rdb" "$into/lib/redis-server"
mv "$scratch/usr/bin/redis-benchmark" "$into/lib/"
find "$scratch/usr/lib" -name 'lib*.so*' -exec mv -t "$into/lib" {} +
for program in redis-benchmark redis-server; do
    cat >"$into/$program" <<WRAPPER
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/lib
LD_LIBRARY_PATH=\$here\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/$program" "\$@"
WRAPPER
    chmod +x "$into/$program"
done
