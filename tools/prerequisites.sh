#!/bin/sh
# Says what this machine lacks, and how to get it, before anything is downloaded.
# usage: tools/prerequisites.sh PYTHON [engine]
set -eu
python=$1
missing=

if ! command -v "$python" >/dev/null 2>&1; then
    missing="$missing python3 python3-venv"
else
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "$python is $("$python" -V 2>&1); Inferplane needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2
        exit 1
    }
    "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
fi

if [ "${2:-}" = engine ]; then
    # vLLM links it; asked of the loader itself, which is what will look for it
    { command -v "$python" >/dev/null 2>&1 && "$python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null; } ||
        missing="$missing libnuma1"
fi

if [ -n "$missing" ]; then
    sudo=$([ "$(id -u)" = 0 ] || echo "sudo ")
    {
        echo "missing on this machine:$missing"
        echo "on Debian or Ubuntu:  ${sudo}apt-get install --yes$missing"
    } >&2
    exit 1
fi
