# SPDX-License-Identifier: Apache-2.0
#
# What a reviewer would look for, and a script finds.

lint_tests = \
	tests/lint/checks.sh \
	tests/lint/circles.sh \
	tests/lint/conf.sh \
	tests/lint/docs.sh \
	tests/lint/families.sh \
	tests/lint/keys.sh \
	tests/lint/layers.sh \
	tests/lint/man.sh \
	tests/lint/program.sh \
	tests/lint/prose.sh \
	tests/lint/rooms.sh \
	tests/lint/sources.sh \
	tests/lint/symbols.sh \
	tests/lint/texts.sh \
	# End of lint_tests

if HAVE_SLURM
lint_tests += tests/lint/spank.sh
endif
if HAVE_CUDA
lint_tests += tests/lint/module.sh
endif

EXTRA_DIST += $(lint_tests) \
	tests/lint/module.sh \
	tests/lint/spank.sh \
	tests/lint/tap.sh \
	tests/lint/slurm_api/slurm/slurm.h \
	tests/lint/slurm_api/slurm/spank.h

TEST_EXTENSIONS += .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
TESTS += $(lint_tests)
