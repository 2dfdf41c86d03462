#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# keeper.sh - what keepers cost a run that loses no rank: 2 ranks on 2 nodes
#
# Usage: keeper.sh [--rounds N] [--steps N] [--tokens N] STRATEGY|start...
#
# For each STRATEGY (ddp, zero2, zero3): seconds of one of --steps (12) steps, of
# a run with launch.keeper on and one with it off, at the same time. A GPT-2 of
# 29 million parameters, one row of --tokens (512) a rank, one thread each:
# weights and moments are larger than caches, as those of large models are, so
# what memory that outlives the ranks costs is seen. `start`: seconds from srun
# to the end of the first step of a model with next to no work, 4 ranks. Prints
# what "on" takes in percent of "off", too. Needs root, and two CPUs.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

row_tokens=512
parse "--rounds --steps --tokens" --steps 12 --tokens "$row_tokens" "$@"

config() { # config STRATEGY on|off
    cat >"$2.yaml" <<END
algorithm: sft
run: {output_dir: $2, overwrite: true}
model: {vocab_size: 8192, n_positions: $row_tokens, n_embd: 512, n_layer: 8, n_head: 8}
data: {train: $work/tokens.bin, format: tokens_bin, max_length: $row_tokens}
training: {per_device_batch_size: 1, max_steps: $((steps + 2))}
distributed: {strategy: $1, shard_group: world}
checkpoint: {strategy: "no"}
logging: {steps: 1}
launch: {keeper: $2, cpu_bind: none}
END
}

# both STRATEGY on|off on|off: runs both at once, the ranks of the first on one
# CPU and those of the second on another, so that whatever else this machine
# does slows both; appends the median of each one's steps to STRATEGY-on|off.
both() {
    local cpu=0 keeper
    for keeper in "${@:2}"; do
        config "$1" "$keeper"
        GOMP_CPU_AFFINITY=$((cpu++)) cluster_run srun -N2 --ntasks-per-node=1 \
            --disttrain="$keeper.yaml" >"$keeper.log" 2>&1 &
    done
    wait
    for keeper in "${@:2}"; do
        sed -n 's/.*"split": "train",.* "step_s": \([^,]*\),.*/\1/p' \
            "$keeper/logs/metrics.jsonl" | tail -n +3 | sort -g |
            awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }' \
                >>"$1-$keeper" || { tail "$keeper.log" >&2 && return 1; }
    done
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

# in_turn STRATEGY|start: appends two numbers to PEER-on and PEER-off, for each
# CPU or one after the other.
in_turn() {
    local order
    for order in "on off" "off on"; do
        # shellcheck disable=SC2086 # two words
        case $1 in
        start) for keeper in $order; do start "$keeper" >>"start-$keeper"; done ;;
        *) both "$1" $order ;;
        esac
    done
}

export OMP_NUM_THREADS=1
cd "$work"
cluster_up --nodes 2 --cpus 2
tokens "$work/tokens.bin" 256
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        in_turn "$peer"
    done
done
for peer in "${peers[@]}"; do
    sed "s/^/$peer-on /" "$peer-on"
    sed "s/^/$peer-off /" "$peer-off"
    # of two turns, so that both were on each CPU
    paste "$peer-on" "$peer-off" | awk -v peer="$peer" '
        { ratio[NR] = $1 / $2 }
        NR % 2 == 0 { print peer "-percent", 100 * sqrt(ratio[NR] * ratio[NR - 1]) }'
done | table keeper s
