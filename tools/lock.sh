#!/bin/bash
# Resolves the pinned lists from their sources; no index address ends up in them.
# usage: tools/lock.sh UV
set -euo pipefail
uv=$1

lock() { # OUTPUT ARGUMENTS...
    local output=$1
    shift
    {
        echo "# Made by 'make lock'; do not edit."
        "$uv" pip compile --quiet --no-emit-index-url --no-header --no-annotate --python-version 3.11 "$@"
    } >"$output.new"
    mv "$output.new" "$output"
}

lock requirements/dev.txt pyproject.toml requirements/dev.in --extra dev
lock requirements/docs.txt requirements/docs.in
lock requirements/engine.txt requirements/engine.in --override requirements/engine-overrides.txt

# what each image installs, at the versions that are tested
mkdir -p requirements/image
for component in router worker operator planner; do
    lock requirements/image/$component.txt pyproject.toml --extra $component --constraint requirements/dev.txt
done
lock requirements/image/all.txt pyproject.toml --extra router --extra worker --extra operator --extra planner \
    --constraint requirements/dev.txt
