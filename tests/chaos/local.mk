# SPDX-License-Identifier: Apache-2.0
#
# Run by hand: it takes minutes, and make check has a case of each kind.

EXTRA_DIST += \
	tests/chaos/README.md \
	tests/chaos/disk.sh \
	tests/chaos/false_alarms.sh \
	tests/chaos/judge.py \
	tests/chaos/lost_nodes.sh \
	tests/chaos/lost_workers.sh \
	tests/chaos/memory.sh \
	tests/chaos/sampled.py \
	tests/chaos/slow_rank.sh \
	tests/chaos/soak.sh \
	# End of tests/chaos
