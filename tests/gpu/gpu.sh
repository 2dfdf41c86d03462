#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - the tests of a device and of a model, on a GPU
#
# One line of TAP a program; all programs were built by make. The module is
# that of $DISTTRAIN_CUDA_MODULE, else the one that was built here.

build=${DT_BUILDDIR:-.}
: "${DISTTRAIN_CUDA_MODULE:=$build/disttrain-cuda.so}"
DT_TEST_DEVICE=cuda
export DISTTRAIN_CUDA_MODULE DT_TEST_DEVICE
cd "${DT_SRCDIR:-$(dirname "$0")/../..}" || exit 1

none=$("$build/disttrain" info | sed -n 's/^\(CUDA\|GPU\): *none, //p')
if [ -n "$none" ]; then
    echo "1..0 # SKIP $none"
    exit 0
fi

count=0
# run PROGRAM [WORD ...]
run() {
    count=$((count + 1)) name=$*
    program=$build/$1
    shift
    if output=$("$program" "$@" 2>&1); then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}

"$build/disttrain" info | sed -n 's/^\(CUDA\|GPU\)/# &/p'
run tests/gpu/test_device
run tests/ops/test_ops cuda
run tests/ops/test_ops cuda fast
run tests/ops/test_ops cuda math
run tests/parity/test_model_logits
run tests/parity/test_model_gradients
run tests/parity/test_model_sft
echo "1..$count"
