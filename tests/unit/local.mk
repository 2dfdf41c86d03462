# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/test_base \
	tests/unit/test_error \
	tests/unit/test_layout \
	# End of tests/unit
