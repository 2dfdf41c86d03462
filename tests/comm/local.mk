# SPDX-License-Identifier: Apache-2.0
#
# Ranks that meet over gloo; the scripts run the same programs over NCCL.
check_PROGRAMS += \
	tests/comm/test_collectives \
	tests/comm/test_groups \
	tests/comm/test_int8

# They compute what they compare with: see cpu_cflags.
tests_comm_test_collectives_CFLAGS = $(AM_CFLAGS) -O1
tests_comm_test_groups_CFLAGS = $(AM_CFLAGS) -O1
tests_comm_test_int8_CFLAGS = $(AM_CFLAGS) -O1

comm_rank = \
	$(comm_world) \
	tests/comm/rank.c \
	tests/comm/rank.h
comm_scene = \
	$(comm_rank) \
	tests/comm/scene.c \
	tests/comm/scene.h
tests_comm_test_collectives_SOURCES = \
	$(comm_rank) \
	tests/comm/tensor.c \
	tests/comm/tensor.h \
	tests/comm/test_collectives.c
tests_comm_test_int8_SOURCES = \
	$(comm_scene) \
	tests/comm/tensor.c \
	tests/comm/tensor.h \
	tests/comm/test_int8.c
tests_comm_test_groups_SOURCES = \
	$(comm_scene) \
	tests/comm/tensor.c \
	tests/comm/tensor.h \
	tests/comm/test_groups.c

comm_simt = \
	tests/comm/simt_collectives.sh \
	tests/comm/simt_faults.sh \
	tests/comm/simt_groups.sh \
	tests/comm/simt_int8.sh
EXTRA_DIST += $(comm_simt)
if HAVE_GLOO
check_PROGRAMS += tests/comm/test_address tests/comm/test_faults \
	tests/comm/test_handshake tests/comm/test_strangers
tests_comm_test_strangers_SOURCES = tests/comm/test_strangers.c $(comm_world)
tests_comm_test_faults_SOURCES = tests/comm/test_faults.c $(comm_scene)
check_PROGRAMS += tests/comm/test_large tests/comm/test_large_faults \
	tests/comm/test_links
tests_comm_test_large_SOURCES = tests/comm/test_large.c $(comm_scene)
tests_comm_test_large_CFLAGS = $(AM_CFLAGS) -O1
tests_comm_test_large_faults_SOURCES = tests/comm/test_large_faults.c \
	$(comm_scene)
TESTS += $(comm_simt)
endif
