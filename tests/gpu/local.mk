# SPDX-License-Identifier: Apache-2.0
#
# What needs an NVIDIA GPU; skipped, with a reason, where there is none.
gpu_programs = \
	tests/gpu/test_device \
	tests/ops/test_ops \
	tests/parity/test_adapters \
	tests/parity/test_families \
	tests/parity/test_model_dropout \
	tests/parity/test_model_gradients \
	tests/parity/test_model_logits \
	tests/parity/test_model_sft \
	tests/parity/test_offload \
	tests/parity/test_rollout \
	tests/parity/test_value_head \
	# End of gpu_programs

EXTRA_PROGRAMS += tests/gpu/test_device tests/gpu/fake_driver.so
gpu_tests = \
	tests/gpu/gpu.sh \
	tests/gpu/train.sh
# The same on the CPU, with tests/simt.
simt_tests = \
	tests/gpu/bring_up.sh \
	tests/gpu/simt_attention.sh \
	tests/gpu/simt_autotune.sh \
	tests/gpu/simt_device.sh \
	tests/gpu/simt_faults.sh \
	tests/gpu/simt_train.sh \
	# End of simt_tests
TESTS += $(simt_tests)
tests/gpu/simt_device.log: tests/gpu/test_device
EXTRA_DIST += $(gpu_tests) $(simt_tests) tests/gpu/common.sh \
	tests/gpu/curve.sh tests/gpu/kinds.sh tests/gpu/ranks.sh \
	tests/gpu/sanitize.sh
gpu-programs: $(gpu_programs)
if HAVE_CUDA
gpu_programs += tests/gpu/test_cudnn
TESTS += $(gpu_tests)
tests/gpu/gpu.log: $(gpu_programs)
check-gpu: all $(gpu_programs)
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(gpu_tests)'
	$(AM_V_at)cat $(gpu_tests:.sh=.log)

# cuDNN without a GPU
check_PROGRAMS += tests/gpu/test_cudnn
tests_gpu_test_cudnn_SOURCES = \
	runtime/device/device_cuda_error.c \
	runtime/ops/cuda/attention_graph.c \
	runtime/ops/cuda/cuda_cache.c \
	runtime/ops/cuda/dnn.c \
	runtime/ops/cuda/dnn_cache.c \
	tests/gpu/test_cudnn.c \
	# End of tests_gpu_test_cudnn_SOURCES
tests_gpu_test_cudnn_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_test_cudnn_LDFLAGS = $(AM_LDFLAGS) $(CUDA_LDFLAGS)
EXTRA_tests_gpu_test_cudnn_DEPENDENCIES = tests/gpu/fake_driver.so
tests_gpu_fake_driver_so_SOURCES = tests/gpu/fake_driver.c
tests_gpu_fake_driver_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_gpu_fake_driver_so_LDADD =
tests_gpu_fake_driver_so_LINK = $(CC) -shared -Wl,-soname,libcuda.so.1 -o $@
else
check-gpu:
	@echo "skipped: built without CUDA, see the summary of configure"
endif
