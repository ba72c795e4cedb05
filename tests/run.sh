#!/bin/sh
# From a bare Debian or Ubuntu machine to all tests: installs what is missing, builds, tests.
# Run it as root or with sudo available: sh tests/run.sh
# The last line is "N passed, N failed, N skipped".
set -eu
cd "$(dirname "$0")/.."
sh examples/dependencies.sh test
make -s -j "$(nproc)"
rm -f build/check/summary
make -s check || {
    # make prints a last line on failure; the count must be the last
    [ ! -f build/check/summary ] || tail -n 1 build/check/summary
    exit 1
}
