# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks are made and run by hand: make tests/bench/ops tests/bench/comm

EXTRA_PROGRAMS += tests/bench/ops

if HAVE_GLOO
EXTRA_PROGRAMS += tests/bench/comm
tests_bench_comm_SOURCES = \
	tests/bench/comm.c \
	tests/bench/gloo_ring.cc \
	tests/bench/gloo_ring.h
endif
