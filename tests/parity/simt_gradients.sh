#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_gradients.sh - GPT-2's gradients by the module for NVIDIA GPUs on the CPU
#
# It has all that blocks fuse on a GPU alone: biases, residuals and their sums.
build=${DT_BUILDDIR:-$PWD}
DT_TEST_DEVICE=cuda
DT_TEST_ONLY='gradients_are_those_of_the_reference: gpt2'
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DT_TEST_DEVICE DT_TEST_ONLY DISTTRAIN_CUDA_MODULE
cd "$(dirname "$0")/../.." || exit 1
exec sh tests/cmocka.sh "$build/tests/parity/test_model_gradients"
