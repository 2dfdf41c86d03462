#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_int8.sh - test_int8 with the module for NVIDIA GPUs on the CPU
build=${DT_BUILDDIR:-$PWD}
DT_TEST_DEVICE=cuda
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DT_TEST_DEVICE DISTTRAIN_CUDA_MODULE
exec sh "$(dirname "$0")/../cmocka.sh" "$build/tests/comm/test_int8"
