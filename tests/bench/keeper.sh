#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# keeper.sh - what keepers cost a run that loses no rank: 2 ranks on 2 nodes
#
# Usage: keeper.sh [--rounds N] [--steps N] [--tokens N] STRATEGY|start...
#
# For each STRATEGY (ddp, zero2, zero3): seconds of CPU time of a step of both
# ranks and their keepers, with launch.keeper on and off by turns, the lower
# quartile of the --steps (24) of a turn. A GPT-2 of 29 million parameters, one
# row of --tokens (512) a rank, one thread each: weights and moments are larger
# than caches, as those of large models are, so what memory that outlives the
# ranks costs is seen. `start`: seconds from srun to the end of the first step of
# a model with next to no work, 4 ranks. The first two steps do not count. Prints
# medians, and that of what "on" took in percent of "off" in the same turn. Needs
# root, and a machine that is idle: the CPU time of a step differs by a tenth
# where other programs use the caches.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

row_tokens=512
parse "--rounds --steps --tokens" --steps 24 --tokens "$row_tokens" "$@"

config() { # config STRATEGY on|off
    cat >c.yaml <<END
algorithm: sft
run: {output_dir: out, overwrite: true}
model: {vocab_size: 8192, n_positions: $row_tokens, n_embd: 512, n_layer: 8, n_head: 8}
data: {train: $work/tokens.bin, format: tokens_bin, max_length: $row_tokens}
training: {per_device_batch_size: 1, max_steps: $((steps + 3))}
distributed: {strategy: $1, shard_group: world}
checkpoint: {strategy: "no"}
logging: {steps: 1}
launch: {keeper: $2}
END
}

# Nanoseconds of CPU time that all threads of the step have used.
used() {
    local pid of sum=0
    for pid in $(pgrep -x 'disttrain(-keep)?'); do
        [[ /proc/$pid/cwd -ef $work ]] || continue
        for of in "/proc/$pid/task/"*/schedstat; do
            read -r of _ <"$of" && sum=$((sum + of))
        done
    done 2>/dev/null
    echo "$sum"
}

# cpu STRATEGY on|off: prints CPU seconds of a step, the lower quartile: what
# other programs do to caches and clocks only adds to it.
cpu() {
    local line
    config "$@"
    : >log
    cluster_run srun -N2 --ntasks-per-node=1 --disttrain=c.yaml >log 2>&1 &
    run=$!
    tail -f --pid="$run" log | while read -r line; do
        [[ $line != "step "* ]] || used
    done | awk -v steps="$steps" 'NR > 2 && NR <= steps + 2 {
            print ($1 - last) / 1e9 } { last = $1 }' | sort -g |
        awk '{ v[NR] = $1 } END { if (NR < 4) exit 1; print v[int(NR / 4)] }' ||
        { tail log >&2 && return 1; }
    wait "$run"
}

# Waits for a step in the log.
await() {
    until grep -qs "^step $1/" log; do
        kill -0 "$run" || { tail log >&2 && return 1; }
        sleep 0.01
    done
}

# start on|off: prints seconds to the first step.
start() {
    local begin=${EPOCHREALTIME/./} run
    small_config c.yaml "$work/tokens.bin"
    echo "launch: {keeper: $1}" >>c.yaml
    rm -f log
    cluster_run srun -N2 --ntasks-per-node=2 --disttrain=c.yaml >log 2>&1 &
    run=$!
    await 1
    begin=$((${EPOCHREALTIME/./} - begin))
    wait "$run"
    awk -v us="$begin" 'BEGIN { print us / 1e6 }'
}

declare -A took
export OMP_NUM_THREADS=1
cd "$work"
cluster_up --nodes 2 --cpus 2
tokens "$work/tokens.bin" 256
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        for keeper in off on; do
            case $peer in
            start) took[$keeper]=$(start "$keeper") ;;
            *) took[$keeper]=$(cpu "$peer" "$keeper") ;;
            esac
            echo "$peer-$keeper ${took[$keeper]}"
        done
        awk -v on="${took[on]}" -v off="${took[off]}" -v peer="$peer" \
            'BEGIN { print peer "-percent", 100 * on / off }'
    done
done | table keeper s
