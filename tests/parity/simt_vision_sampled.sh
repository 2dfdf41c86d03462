#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_vision_sampled.sh - completions by the module for NVIDIA GPUs on the CPU
build=${DT_BUILDDIR:-$PWD}
DT_TEST_DEVICE=cuda
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DT_TEST_DEVICE DISTTRAIN_CUDA_MODULE
cd "$(dirname "$0")/../.." || exit 1
exec sh tests/cmocka.sh "$build/tests/parity/test_vision_sampled"
