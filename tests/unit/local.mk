# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/test_base \
	tests/unit/test_ckpt \
	tests/unit/test_error \
	tests/unit/test_layout \
	tests/unit/test_model_config \
	tests/unit/test_safetensors \
	tests/unit/test_weights \
	# End of tests/unit

EXTRA_DIST += tests/unit/scratch.h
