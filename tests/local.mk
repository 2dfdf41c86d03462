# SPDX-License-Identifier: Apache-2.0
#
# Every test speaks TAP. Slow ones come first so that a parallel run ends
# sooner.

# A test program is one line in check_PROGRAMS: its source, flags and libraries
# are the defaults of Makefile.am.

LOG_DRIVER = env AM_TAP_AWK='$(AWK)' CMOCKA_MESSAGE_OUTPUT=TAP \
	$(SHELL) $(top_srcdir)/build-aux/tap-driver.sh

# Threads that wait for each other must not burn the cores of other tests; what
# the emulation is quick at is of no use to runs, nor to other tests. leaks.supp
# has what others' libraries leak. The sanitizer keeps 256 MB of freed memory by
# itself, and new pages for all else take a part of the time.
AM_TESTS_ENVIRONMENT = DT_SRCDIR='$(abs_top_srcdir)' \
	DT_BUILDDIR='$(abs_top_builddir)' OMP_WAIT_POLICY=passive \
	DISTTRAIN_AUTOTUNE=fresh \
	ASAN_OPTIONS='quarantine_size_mb=16' \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/leaks.supp:print_suppressions=0'; \
	export DT_SRCDIR DT_BUILDDIR OMP_WAIT_POLICY DISTTRAIN_AUTOTUNE \
	ASAN_OPTIONS LSAN_OPTIONS;

LOG_COMPILER = $(SHELL)
AM_LOG_FLAGS = $(top_srcdir)/tests/cmocka.sh
EXTRA_DIST += tests/cmocka.sh tests/families.h tests/leaks.supp

# How much of the code has run since the last `make clean`.
EXTRA_DIST += tests/README.md tests/coverage.sh
coverage:
	$(AM_V_at)$(SHELL) $(top_srcdir)/tests/coverage.sh

include tests/bench/local.mk
include tests/chaos/local.mk
include tests/job/local.mk
include tests/lint/local.mk
if HAVE_CMOCKA
test_libs = tests/parity/libparity.a tests/unit/libunit.a
include tests/unit/local.mk
include tests/comm/local.mk
include tests/ops/local.mk
include tests/parity/local.mk
include tests/gpu/local.mk
include tests/simt/local.mk
include tests/ptx/local.mk
include tests/fuzz/local.mk
TESTS += $(check_PROGRAMS)
endif

# All of TESTS, for contrib/check.
list-tests:
	@echo $(TESTS)
