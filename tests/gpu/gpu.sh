#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - the tests of a device, of operations and of models, on a GPU
#
# One line of TAP a program; all programs were built by make.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
cd "$here/../.." || exit 1
DT_TEST_DEVICE=cuda
export DT_TEST_DEVICE

check "memory, copies, events, graphs" "$build/tests/gpu/test_device"
check "operations" "$build/tests/ops/test_ops" cuda
for test in dropout gradients logits sft; do
    check "models: $test" "$build/tests/parity/test_model_$test"
done
check "offload" "$build/tests/parity/test_offload"
echo "1..$count"
