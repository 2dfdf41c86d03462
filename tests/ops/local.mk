# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/ops/test_ops \
	# End of tests/ops
tests_ops_test_ops_CFLAGS = $(AM_CFLAGS) -O1
tests_ops_test_ops_SOURCES = \
	tests/ops/bridge.c \
	tests/ops/bridge.h \
	tests/ops/bridge_fused.c \
	tests/ops/bridge_low_rank.c \
	tests/ops/bridge_table.c \
	tests/ops/case_activation.c \
	tests/ops/case_attention.c \
	tests/ops/case_dither.c \
	tests/ops/case_elementwise.c \
	tests/ops/case_embedding.c \
	tests/ops/case_empty.c \
	tests/ops/case_frozen.c \
	tests/ops/case_hash.c \
	tests/ops/case_kv.c \
	tests/ops/case_large.c \
	tests/ops/case_linear.c \
	tests/ops/case_linear_activation.c \
	tests/ops/case_logprob.c \
	tests/ops/case_loss.c \
	tests/ops/case_low_rank.c \
	tests/ops/case_norm.c \
	tests/ops/case_patch.c \
	tests/ops/case_rope.c \
	tests/ops/case_sample.c \
	tests/ops/case_score.c \
	tests/ops/case_skip.c \
	tests/ops/case_sparse.c \
	tests/ops/case_step.c \
	tests/ops/case_tower.c \
	tests/ops/harness.c \
	tests/ops/harness.h \
	tests/ops/test_ops.c \
	# End of tests_ops_test_ops_SOURCES

EXTRA_DIST += tests/ops/simt.sh tests/ops/simt_words.sh
TESTS += tests/ops/simt.sh tests/ops/simt_words.sh
