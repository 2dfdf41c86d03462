#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_train.sh - train.sh with the module for NVIDIA GPUs on the CPU
DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
exec sh "$(dirname "$0")/train.sh"
