#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# program.sh - what disttrain needs to be loaded, on each rank of each run

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
program=${DT_BUILDDIR:-.}/disttrain

# They are looked for at run time, by those who use them.
loaded_late() {
    readelf -d "$program" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
        grep -e '^libcu' -e '^libnv' -e '^libnccl'
}

expect_none "libcurl and the libraries of CUDA are not linked" "$(loaded_late)"
done_testing
