#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slow_rank.sh [RUNS]: is a rank named that is stopped for a sixth of its time?
#
# Each run has two ranks; one of them, in turn, is stopped 50 ms after every
# 250 ms, which makes it 20 % slower. Prints which rank was named, and when.
# With SLOW=no nothing is stopped, and nobody should be named. Needs mpirun;
# DT_BUILDDIR is the build, and LIMIT the seconds of a run.
set -eu

runs=${1:-2} limit=${LIMIT:-75} work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
seq -f 'This is line %g of a text.' 20000 >train.txt
cat >run.yaml <<END
algorithm: sft
run: {output_dir: out, overwrite: true}
model: {n_positions: 256, n_embd: 128, n_layer: 4, n_head: 4}
data: {train: train.txt, max_length: 256}
training: {per_device_batch_size: 2, max_steps: 1000000}
checkpoint.strategy: no
logging.steps: 100
END

pid_of() { # pid_of RANK
    local file
    for file in /proc/[0-9]*/environ; do
        { tr '\0' '\n' <"$file"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$1" || continue
        file=${file%/environ}
        [[ $(readlink "$file/cwd") == "$work" ]] && echo "${file#/proc/}" &&
            return
    done
    return 1
}

slow_down() { # slow_down PID
    while kill -STOP "$1"; do
        sleep 0.05
        kill -CONT "$1"
        sleep 0.25
    done 2>/dev/null
}

right=0
for ((run = 0; run < runs; run++)); do
    rank=$((run % 2))
    OMP_NUM_THREADS=1 timeout "$((2 * limit))" mpirun --allow-run-as-root \
        --oversubscribe -n 2 "$DT_BUILDDIR/disttrain" train run.yaml \
        &>log &
    began=$SECONDS slower=
    until grep -q 'step 100/' log; do
        ((SECONDS - began < limit)) || { cat log && exit 1; }
        sleep 0.2
    done
    began=$SECONDS
    if [[ ${SLOW:-} != no ]]; then
        slow_down "$(pid_of "$rank")" &
        slower=$!
    fi
    until grep -q 'takes .* longer' log || ((SECONDS - began >= limit)); do
        sleep 0.2
    done
    took=$((SECONDS - began))
    [[ -z $slower ]] || kill "$slower" 2>/dev/null || true
    kill -CONT "$(pid_of "$rank")" 2>/dev/null || true
    kill -TERM "$(pid_of 0)" || true # it saves, and all ranks end
    wait
    grep -o 'rank [0-9] ([^)]*) takes.*' log || echo "nobody after $took s"
    ! grep -q "rank $rank (.* takes" log || right=$((right + 1))
    echo "run $run: rank $rank was ${SLOW:-stopped}; $took s"
done
echo "right: $right of $runs"
