# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/test_error \
	# End of tests/unit
