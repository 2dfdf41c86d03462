#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_device.sh - test_device with the module for NVIDIA GPUs on the CPU
build=${DT_BUILDDIR:-$PWD}
DISTTRAIN_CUDA_MODULE=$build/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
exec sh "$(dirname "$0")/../cmocka.sh" "$build/tests/gpu/test_device"
