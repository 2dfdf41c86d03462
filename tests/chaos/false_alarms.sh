#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# false_alarms.sh [STEPS]: is a bit ever called lost where none is?
#
# Two ranks of a tiny model take STEPS (100000) steps under each of ddp, ddp in
# bf16 and zero1, and compare their replicas in each step. Prints how many steps
# each has taken, and whether a difference was found. Needs mpirun; DT_BUILDDIR
# is the build.
set -u

steps=${1:-100000}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work" || exit
cat /usr/share/common-licenses/GPL-2 >text
export OMP_NUM_THREADS=1
failed=0

# trial STRATEGY PRECISION
trial() {
    cat >run.yaml <<END
algorithm: sft
run: {output_dir: out, overwrite: true}
model: {vocab_size: 258, n_positions: 8, n_embd: 8, n_layer: 1, n_head: 1}
data: {train: text, max_length: 8}
precision: {compute: $2}
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
training: {per_device_batch_size: 1, max_steps: $steps}
distributed: {strategy: $1, check_replicas: 1}
checkpoint: {strategy: "no"}
logging: {steps: 1000}
END
    local status found last
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
        "$DT_BUILDDIR/disttrain" train run.yaml >log 2>&1
    status=$?
    last=$(sed -n 's|^step \([0-9]*\)/.*|\1|p' log | tail -n 1)
    found=$(grep -c "hold different bits" log)
    echo "$1 $2: ${last:-0} steps, $found alarms, status $status"
    [[ $status == 0 && $found == 0 && $last == "$steps" ]] && return
    failed=1
    tail -n 5 log
}

trial ddp fp32
trial ddp bf16
trial zero1 fp32
exit $failed
