#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slow_rank.sh [RUNS]: is a rank named that becomes 20 % slower, and no other?
#
# Each run has two ranks; one of them, in turn, is slower from step 100 on.
# SLOW says how: with `sleep`, the default, steps mostly sleep, and its sleep
# gets longer, so that a machine with other work to do will do, and JOBS runs at
# once; this needs a build with --enable-fault-injection. With `stop` steps
# compute, and it is stopped for 50 ms after every 250 ms. With `no` steps
# sleep, and nobody should be named. Prints who was named, and when, and at the
# end how many runs went well. Needs mpirun; DT_BUILDDIR is the build, LIMIT
# the seconds from step 100 on.
set -eu

runs=${1:-2} limit=${LIMIT:-75} jobs=${JOBS:-1} slow=${SLOW:-sleep}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

config() {
    seq -f 'This is line %g of a text.' 20000 >train.txt
    cat >run.yaml <<END
algorithm: sft
run: {output_dir: out}
model: {n_positions: 256, n_embd: 128, n_layer: 2, n_head: 4}
data: {train: train.txt, max_length: ${1}}
training: {per_device_batch_size: 2, max_steps: 1000000}
checkpoint.strategy: no
logging: {steps: 100, first_step: no}
END
}

pid_of() { # pid_of RANK DIRECTORY
    local file
    for file in /proc/[0-9]*/environ; do
        { tr '\0' '\n' <"$file"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$1" || continue
        file=${file%/environ}
        [[ $(readlink "$file/cwd") == "$2" ]] && echo "${file#/proc/}" &&
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

number_of() { # number_of KEY LINE: of a JSON object; nothing: it has none
    [[ $2 =~ \"$1\":\ *([0-9.]+) ]] && echo "${BASH_REMATCH[1]}"
}

# within SECONDS COMMAND...: waits for it, or 1
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" 2>/dev/null; do
        ((SECONDS < end)) || return 1
        sleep 0.5
    done
}

# start RUN RANK: in the directory of the run; sets mpirun. Of its four units
# three have a forward pass that sleeps.
start() {
    local fault='' tokens=16
    [[ $slow != stop ]] && fault=train.forward:sleep=33 || tokens=256
    [[ $slow != sleep ]] || fault+=,train.forward:rank=$2:nth=301:sleep=6.6
    mkdir "$work/$1"
    cd "$work/$1"
    config "$tokens"
    env ${fault:+DISTTRAIN_FAULT="$fault"} OMP_NUM_THREADS=1 \
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
        "$DT_BUILDDIR/disttrain" train run.yaml &>log &
    mpirun=$!
}

# judge RUN EXPECTED: prints who was named in the run of this directory.
judge() {
    local event named after=''
    event=$(grep -m 1 straggler out/logs/events.jsonl) || true
    named=$(number_of rank "$event") || named=nobody
    if [[ -n $event ]]; then
        after=$(awk -v event="$(number_of wall "$event")" \
            -v begin="$(number_of wall "$step_100")" \
            'BEGIN { printf " after %.0f s", event - begin }')
        after+=", $(($(number_of step "$event") - 100)) steps"
    fi
    if [[ $named == "$2" ]]; then
        echo "run $1: right: $named$after"
    else
        echo "run $1: wrong: $named in place of $2$after"
    fi
    [[ -z $event ]] || grep -o 'rank [0-9]* ([^"]*' <<<"$event"
}

run_one() { # run_one RUN
    local rank=$(($1 % 2)) slower='' mpirun step_100
    start "$1" "$rank"
    within 120 grep -q '"step": *100,' out/logs/metrics.jsonl || {
        cat log >&2
        kill "$mpirun"
        return 1
    }
    step_100=$(grep -m 1 '"step": *100,' out/logs/metrics.jsonl)
    if [[ $slow == stop ]]; then
        slow_down "$(pid_of "$rank" "$PWD")" &
        slower=$!
    fi
    within "$limit" grep -q straggler out/logs/events.jsonl || true
    if [[ -n $slower ]]; then
        kill "$slower"
        kill -CONT "$(pid_of "$rank" "$PWD")" || true
    fi 2>/dev/null
    kill "$mpirun"
    wait "$mpirun" || true
    judge "$1" "$([[ $slow == no ]] && echo nobody || echo "$rank")"
}

for ((run = 0; run < runs; run++)); do
    (run_one "$run") | tee -a "$work/results" &
    ((run % jobs < jobs - 1)) || wait
done
wait
echo "right: $(grep -c ': right' "$work/results") of $runs"
