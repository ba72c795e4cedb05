#!/bin/sh
# From a bare Debian or Ubuntu machine to a reconstructed micro-CT scan: installs what is missing,
# builds, reconstructs the scan that ships with the tests and makes a picture of it.
# Run it as root or with sudo available: sh examples/quickstart.sh
set -eu
cd "$(dirname "$0")/.."
sh examples/dependencies.sh build
make -s -j "$(nproc)"
make -s demo
