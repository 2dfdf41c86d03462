#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# save.sh - what a save that is not waited for costs: GPT-2 124M, 1.5 GB
#
# Usage: save.sh [--rounds N] [--steps N] RANKS...
#
# Runs of 1 rank of 2 threads, or of 2 ranks of one, by mpirun on one machine, of
# random weights, short rows, and --steps (10) steps, with a save four steps
# before the last and without, by turns; the last step is always saved. Prints how
# long that save has stopped the steps, by the clock, and the CPU seconds that it
# takes in all, copying and writing: with one a minute, a part of 120 on two CPUs.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds --steps" "$@"

# run RANKS steps|no: prints CPU seconds.
run() {
    cat >c.yaml <<END
algorithm: sft
run: {output_dir: out, overwrite: true}
model: {vocab_size: 50257, n_positions: 64, n_embd: 768, n_layer: 12, n_head: 12}
data: {train: $work/tokens.bin, format: tokens_bin, max_length: 32}
training: {per_device_batch_size: 1, max_steps: $steps}
checkpoint: {strategy: "$2", steps: $((steps - 4)), async: on, total_limit: 1}
logging: {steps: 1}
END
    rm -rf out
    OMP_NUM_THREADS=$((2 / $1)) /usr/bin/time -f '%U %S' -o took \
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$1" \
        "$builddir/disttrain" train c.yaml >log 2>&1 || {
        tail log >&2
        return 1
    }
    awk '{ print $1 + $2 }' took
}

cd "$work"
tokens tokens.bin 50257
for ((round = 0; round < rounds; round++)); do
    for ranks in "${peers[@]}"; do
        without=$(run "$ranks" no)
        with=$(run "$ranks" steps)
        sed -n "s/.*\"event\": \"save\", \"step\": $((steps - 4)),.*\"seconds\": \([0-9.e-]*\).*/stall-$ranks \1/p" \
            out/logs/events.jsonl
        awk "BEGIN { print \"cpu-$ranks\", $with - $without }"
    done
done | table save-ranks s
