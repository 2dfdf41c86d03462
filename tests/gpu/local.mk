# SPDX-License-Identifier: Apache-2.0
#
# What needs an NVIDIA GPU; skipped, with a reason, where there is none.
gpu_programs = \
	tests/gpu/test_device \
	tests/ops/test_ops \
	tests/parity/test_model_gradients \
	tests/parity/test_model_logits \
	tests/parity/test_model_sft

EXTRA_PROGRAMS += tests/gpu/test_device
EXTRA_DIST += tests/gpu/gpu.sh
if HAVE_CUDA
TESTS += tests/gpu/gpu.sh
tests/gpu/gpu.log: $(gpu_programs)
check-gpu: all $(gpu_programs)
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS=tests/gpu/gpu.sh
	$(AM_V_at)cat tests/gpu/gpu.log
else
check-gpu:
	@echo "skipped: built without CUDA, see the summary of configure"
endif
