# SPDX-License-Identifier: Apache-2.0
#
# Every test speaks TAP. Slow ones come first so that a parallel run ends
# sooner.

LOG_DRIVER = env AM_TAP_AWK='$(AWK)' CMOCKA_MESSAGE_OUTPUT=TAP \
	$(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
