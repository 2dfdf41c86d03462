#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ranks.sh - a rank on each GPU of a machine: NCCL, its waits, a rank that dies
#
# GPT-2 124M, 8 x 1024 tokens a rank and step, started by mpirun. Losses of all
# strategies are those of one rank within a part in 1,000; when a rank is killed
# all others end within a minute, and say who was lost. Behind the TAP lines: seconds of a step, those
# that it waited for collectives. MODEL=tiny tries the script where GPUs are
# emulated, with SIMT_DEVICES=2.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
ranks=$("$build/disttrain" info | grep -c '^GPU [0-9]')
[ "$ranks" -gt 1 ] || {
    echo "1..0 # SKIP there is one GPU"
    exit 0
}
command -v mpirun >/dev/null || {
    echo "1..0 # SKIP mpirun is not in PATH"
    exit 0
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
T=1024 rows=8 layers='n_embd: 768, n_layer: 12, n_head: 12'
[ -z "${MODEL-}" ] || T=32 rows=2 layers='n_embd: 16, n_layer: 2, n_head: 2'
awk 'BEGIN { for (i = 1; i <= 40000; i++)
    print "line " i " of a text whose square is " i * i }' >text.txt

# start RANKS COMMAND [WORD ...]
start() {
    timeout 240 mpirun --allow-run-as-root --oversubscribe -n "$@"
}

# config NAME STEPS RANKS STRATEGY: the same rows in a step, whatever the ranks
config() {
    cat >"$1.yaml" <<END_OF_FILE
algorithm: sft
run: {name: $1, output_dir: $1, device: cuda}
model: {type: gpt2, init: random, tokenizer: byte, n_positions: $T, $layers}
data: {train: text.txt, max_length: $T}
training: {per_device_batch_size: $rows, max_steps: $2,
           gradient_accumulation_steps: $((ranks / $3))}
optimizer.lr: 1.0e-4
distributed.strategy: $4
checkpoint.strategy: "no"
logging.steps: 1
END_OF_FILE
}

# curve NAME RANKS STRATEGY: 10 steps
curve() {
    config "$1" 10 "$2" "$3"
    start "$2" "$build/disttrain" train "$1.yaml" >"$1.out" 2>&1 || {
        tail -n 20 "$1.out"
        return 1
    }
    figure "$1" loss >"$1.losses"
}

# figure NAME KEY: of all steps
figure() {
    sed -n "s/.*\"$2\": *\([^,}]*\).*/\1/p" "$1/logs/metrics.jsonl"
}

agree() {
    paste "$1.losses" "$2.losses" | awk '
        {
            print
            if ($1 !~ /^[0-9]/ || $2 !~ /^[0-9]/ || $1 == 0)
                bad = 1
            else if (($1 / $2 - 1) ^ 2 > 1e-6)
                bad = 1
        }
        END { exit bad || NR != 10 }'
}

# killed: the last rank is killed at its third step; seconds until all have ended
killed() {
    config killed 100000 "$ranks" zero3
    echo "launch.keeper: off" >>killed.yaml
    # shellcheck disable=SC2016 # it is the child that expands
    start "$ranks" sh -c 'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:?}"
        exec "$@"' sh "$build/disttrain" train killed.yaml >killed.out 2>&1 &
    for _ in $(seq 600); do
        grep -qs '"step": *3' killed/logs/metrics.jsonl && break
        sleep 0.2
    done
    grep -qs '"step": *3' killed/logs/metrics.jsonl || {
        echo "no third step in two minutes"
        tail -n 20 killed.out
        kill $!
        return 1
    }
    begin=$(date +%s)
    kill -9 "$(cat "pid.$((ranks - 1))")"
    wait $! && return 1
    seconds=$(($(date +%s) - begin))
    echo "$seconds s"
    tail -n 20 killed.out
    [ "$seconds" -le 60 ] && grep -q "rank $((ranks - 1))" killed.out &&
        ! pgrep -f "train killed.yaml"
}

check "one rank" curve one 1 ddp
for strategy in ddp zero1 zero2 zero3; do
    check "$ranks ranks, $strategy" curve "$strategy" "$ranks" "$strategy"
    check "has the losses of one rank" agree one "$strategy"
done
check "a killed rank ends all others" killed
echo "1..$count"

# median NAME KEY: of the last steps
median() {
    figure "$1" "$2" | tail -n 6 | sort -g | sed -n 3p
}
echo
echo "| run | s a step | of it waiting for collectives |"
echo "|---|--:|--:|"
for run in one ddp zero1 zero2 zero3; do
    echo "| $run | $(median $run step_s) | $(median $run comm_exposed_s) |"
done
