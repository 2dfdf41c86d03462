#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_dropout.sh - what the module for NVIDIA GPUs drops, on the CPU
build=${DT_BUILDDIR:-$PWD}
DT_TEST_DEVICE=cuda
DT_TEST_ONLY='a_row*: gpt2'
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DT_TEST_DEVICE DT_TEST_ONLY DISTTRAIN_CUDA_MODULE
cd "$(dirname "$0")/../.." || exit 1
exec sh tests/cmocka.sh "$build/tests/parity/test_model_dropout"
