# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/test_base \
	tests/unit/test_error \
	tests/unit/test_layout \
	tests/unit/test_model_config \
	# End of tests/unit
