#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_frozen_parts.sh - gradients of GPT-2 with frozen parts by the module for
# NVIDIA GPUs on the CPU
build=${DT_BUILDDIR:-$PWD}
DT_TEST_DEVICE=cuda
DT_TEST_ONLY='gradients*: gpt2'
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DT_TEST_DEVICE DT_TEST_ONLY DISTTRAIN_CUDA_MODULE
cd "$(dirname "$0")/../.." || exit 1
exec sh tests/cmocka.sh "$build/tests/parity/test_frozen_parts"
