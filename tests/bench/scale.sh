#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh - start, steps and the loss of a rank, against the number of ranks
#
# Usage: scale.sh [--rounds N] [--steps N] RANKS...
#
# Two ranks on each node of a devcluster, which share the CPUs of this machine,
# and a model of 2 layers and 64 channels, of which each rank has one row: next
# to nothing is measured but what grows with ranks. For each number of ranks:
#
#   start   from srun to the end of the first step
#   step    mean of the steps after the second, by the run's own clock
#   lost    from SIGKILL of one rank in a stream of reductions to the last of
#           the others naming it
#
# Medians over all rounds, and for each of the three the better of two models, a
# + b W and a + b log2 W, with its error. Needs root, and tests/job/comm_probe
# (make check TESTS=).

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds --steps" "$@"
probe=$builddir/tests/job/comm_probe
[[ -x $probe ]] || die "no $probe: make check TESTS="

# on RANKS WORD...: srun with so many ranks
on() {
    cluster_run srun --quiet -N$((($1 + 1) / 2)) -n"$1" --distribution=block \
        "${@:2}"
}

# times: prints, for each line of its input, the time and the line.
times() {
    local line
    while read -r line; do
        echo "${EPOCHREALTIME/./} $line"
    done
}

# train RANKS: prints "start RANKS S" and "step RANKS MS".
train() {
    local start=${EPOCHREALTIME/./}
    on "$1" --disttrain="$work/c.yaml" 2>&1 | times >"$work/log" || true
    grep -q " done: $steps steps" "$work/log" ||
        die "$1 ranks did not train: $(grep disttrain: "$work/log")"
    awk -v ranks="$1" -v start="$start" '
        $2 == "step" {
            printf "start %d %.3f\n", ranks, ($1 - start) / 1e6
            exit
        }' "$work/log"
    sed -n 's/.*"time": \([0-9.]*\).*/\1/p' "$work/out/logs/metrics.jsonl" |
        awk -v ranks="$1" '{ at[NR] = $1 }
            END { printf "step %d %.2f\n", ranks,
                (at[NR] - at[2]) / (NR - 2) * 1e3 }'
}

# lose RANKS: prints "lost RANKS S".
lose() {
    local pid job end
    on "$1" --mpi=pmix --kill-on-bad-exit=0 "$probe" -n 20000 loop 2>&1 |
        times >"$work/log" &
    job=$!
    until grep -q running "$work/log"; do
        sleep 0.2
    done
    sleep 1
    pid=$("$devcluster" run --name "$cluster" --node n1 -- \
        pgrep -n -f "comm_probe -n 20000")
    end=${EPOCHREALTIME/./}
    "$devcluster" run --name "$cluster" --node n1 -- kill -KILL "$pid"
    wait "$job" || true
    awk -v ranks="$1" -v kill="$end" '
        /error after/ { last = $1; named += /lost rank [01] on n1/ }
        END {
            if (named != ranks - 1)
                printf "%d of %d named it\n", named, ranks - 1 >"/dev/stderr"
            printf "lost %d %.2f\n", ranks, (last - kill) / 1e6
        }' "$work/log"
}

most=0
for ranks in "${peers[@]}"; do
    ((most = ranks > most ? ranks : most))
done
tune
export OMP_NUM_THREADS=1
cluster_up --nodes $(((most + 1) / 2)) --cpus 2
tokens "$work/tokens.bin" 256
small_config "$work/c.yaml" "$work/tokens.bin"
sed -i "s/per_device_batch_size: 4, max_steps: 3/per_device_batch_size: 1, \
max_steps: $steps/" "$work/c.yaml"
echo "logging: {steps: 1}" >>"$work/c.yaml"
for ((round = 0; round < rounds; round++)); do
    for ranks in "${peers[@]}"; do
        train "$ranks"
        lose "$ranks"
    done
done | tee "$work/all" | sed 's/^/    /' >&2
"$bench/scale_fit.py" "$work/all"
