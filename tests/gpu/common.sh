# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# common.sh - the module under test, and the end where there is no GPU
#
# The module is that of $DISTTRAIN_CUDA_MODULE, else the one built here.

build=$(cd "${DT_BUILDDIR:-.}" && pwd)
: "${DISTTRAIN_CUDA_MODULE:=$build/disttrain-cuda.so}"
export DISTTRAIN_CUDA_MODULE
count=0

none=$("$build/disttrain" info | sed -n 's/^\(CUDA\|GPU\): *none, //p')
if [ -n "$none" ]; then
    echo "1..0 # SKIP $none"
    exit 0
fi
"$build/disttrain" info | sed -n 's/^\(CUDA\|GPU\)/# &/p'

# check NAME COMMAND [WORD ...]: a line of TAP, with what it said if it failed
check() {
    name=$1
    count=$((count + 1))
    shift
    if output=$("$@" 2>&1); then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}
