#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - the tests of a device, of operations and of models, on a GPU
#
# One line of TAP a program; all programs were built by make. Operations run as
# deterministic training has them, then as all other training has them, where
# the fastest way is chosen by time.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
cd "$here/../.." || exit 1
DT_TEST_DEVICE=cuda
export DT_TEST_DEVICE
ops=$build/tests/ops/test_ops

check "memory, copies, events, graphs" "$build/tests/gpu/test_device"
check "operations, deterministic" "$ops" cuda
check "operations, fast" env DISTTRAIN_AUTOTUNE=fresh "$ops" cuda fast
for side in library apart; do # also where it is not the faster one
    check "operations, GELU and sums: $side" \
        env DISTTRAIN_AUTOTUNE=$side "$ops" cuda fast only=linear
done
check "operations, attention of our own" "$ops" cuda math only=attention
for test in dropout gradients logits sft; do
    check "models: $test" "$build/tests/parity/test_model_$test"
done
for test in families adapters value_head rollout offload; do
    check "models: $test" "$build/tests/parity/test_$test"
done
echo "1..$count"
