# SPDX-License-Identifier: Apache-2.0
#
# Everything except main.c is one convenience library, so that tests link the
# same objects as the program. One fragment a folder.

noinst_LIBRARIES += runtime/libdisttrain.a
runtime_libdisttrain_a_SOURCES =

# All of the module for NVIDIA GPUs; tests/simt compiles the same.
cuda_sources =

include runtime/base/local.mk
include runtime/contract/local.mk
include runtime/device/local.mk
include runtime/tensor/local.mk
include runtime/ops/local.mk
include runtime/segment/local.mk
include runtime/launch/local.mk
include runtime/keeper/local.mk
include runtime/doctor/local.mk
include runtime/comm/local.mk
include runtime/backend/local.mk
include runtime/conf/keys/local.mk
include runtime/conf/local.mk
include runtime/template/local.mk
include runtime/tokenizer/local.mk
include runtime/tokenizer/chat/local.mk
include runtime/tokenizer/unicode/local.mk
include runtime/model/family/local.mk
include runtime/model/local.mk
include runtime/image/local.mk
include runtime/data/forms/local.mk
include runtime/data/local.mk
include runtime/batch/local.mk
include runtime/optim/local.mk
include runtime/parallel/local.mk
include runtime/ckpt/local.mk
include runtime/live/local.mk
include runtime/report/local.mk
include runtime/trace/local.mk
include runtime/history/local.mk
include runtime/page/local.mk
include runtime/console/local.mk
include runtime/weights/local.mk
include runtime/compose/local.mk
include runtime/rollout/local.mk
include runtime/reward/local.mk
include runtime/slurm/local.mk
include runtime/top/local.mk
include runtime/forecast/local.mk
include runtime/loss/local.mk
include runtime/run/local.mk
include runtime/run/dir/local.mk
include runtime/run/reference/local.mk
include runtime/sampling/local.mk
include runtime/algo/local.mk
include runtime/plan/local.mk
include runtime/train/watch/local.mk
include runtime/train/resume/local.mk
include runtime/train/local.mk
include runtime/cmd/local.mk

bin_PROGRAMS += disttrain
disttrain_LDADD = $(runtime_libs)
disttrain_SOURCES = runtime/cmd/main.c
