#!/bin/bash
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# overhead.sh - what the plugin adds to a step: 64 tasks on 4 nodes
#
# Usage: overhead.sh [--rounds N]
#
# Each round runs `srun -n64 true` without the plugin, with the plugin but not the
# option, and with --disttrain=FILE, and says what the last two took longer than
# the first. 64 more tasks say how long the plugin's task_init took, by the clock
# and on the CPU. Needs root.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@" overhead

stamp_of() {
    "${CC:-cc}" -shared -fPIC -O2 -I"$builddir" -DSTAMP="$1" -o "$work/$1.so" \
        "$bench/stamp.c"
}

# plugins LINE...: the next steps have these.
plugins() {
    printf '%s\n' "$@" >"/run/disttrain-devcluster/$cluster/conf/plugstack.conf"
}

# took SRUN-WORD...: milliseconds of srun, by the clock of the cluster.
took() {
    cluster_run bash -c 'start=${EPOCHREALTIME/./}
        "$@" >&2
        echo $(((${EPOCHREALTIME/./} - start) / 1000))' \
        bash srun -N4 -n64 "$@" true
}

plugin="required $builddir/spank/.libs/spank_disttrain.so \
runtime=$builddir/disttrain"
stamp_of before
stamp_of after
cluster_up --nodes 4 --cpus 16 --plugin none
tokens "$work/tokens.bin" 256
small_config "$work/c.yaml" "$work/tokens.bin"
for ((round = 0; round < rounds; round++)); do
    plugins
    without=$(took)
    plugins "$plugin"
    unused=$(took)
    used=$(took --disttrain="$work/c.yaml")
    echo "srun-without $without"
    echo "srun-unused-adds $((unused - without))"
    echo "srun-used-adds $((used - without))"
    plugins "required $work/before.so BEFORE" "$plugin" \
        "required $work/after.so AFTER"
    cluster_run srun -N4 -n64 --disttrain="$work/c.yaml" sh -c '
        echo "task-wall $((AFTER_WALL - BEFORE_WALL))e-3"
        echo "task-cpu $((AFTER_CPU - BEFORE_CPU))e-3"'
done | table what ms
