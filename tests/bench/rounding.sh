#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rounding.sh - what is learned with the state of AdamW in fp32 and in bf16
#
# Usage: rounding.sh [--steps N] [--lr RATE] [--keep DIR]
#
# GPT-2 of 2 layers of 128 channels, trained from random weights on sentences
# whose words are drawn by a chain that looks two words back: 8 rows of 128
# bytes in 4 micro-batches, computed in bf16, N steps (500) at a rate that falls
# to 0. Prints the loss on sentences that are held out: with state in fp32, in
# bf16 that is rounded at random, and in bf16 that is rounded to nearest.
# Needs `make tests/bench/rounding` in $DT_BUILDDIR or the current directory.

set -euo pipefail

program=${DT_BUILDDIR:-.}/tests/bench/rounding
STEPS=500
LR=1.0e-3
DIR=

while (($# > 0)); do
    case $1 in
    --steps) STEPS=$2 ;;
    --lr) LR=$2 ;;
    --keep) DIR=$2 ;;
    *)
        printf 'rounding.sh: unknown option %s\n' "$1" >&2
        exit 64
        ;;
    esac
    shift 2
done
if [[ -z $DIR ]]; then
    DIR=$(mktemp -d)
    trap 'rm -rf "$DIR"' EXIT
fi
mkdir -p "$DIR"

# sentences SEED COUNT: of words of one table, whatever the seed
sentences() {
    awk -v begin="$1" -v count="$2" '
    function next_random(n) { # of Park and Miller
        seed = seed * 16807 % 2147483647
        return int(seed / 7) % n
    }
    function word(    text, i) {
        for (i = 2 + next_random(5); i > 0; i--)
            text = text substr("abcdefghijklmnopqrstuvwxyz", 1 + next_random(26), 1)
        return text
    }
    BEGIN {
        seed = 4711
        for (i = 0; i < 200; i++)
            words[i] = word()
        for (i = 0; i < 200; i++)
            for (j = 0; j < 6; j++)
                next_of[i, j] = next_random(200)
        seed = begin
        while (count-- > 0) {
            a = next_random(200)
            b = next_random(200)
            line = words[a] " " words[b]
            for (i = 4 + next_random(12); i > 0; i--) {
                j = next_random(6) * next_random(2)
                c = next_of[(a + 7 * b) % 200, j]
                a = b
                b = c
                line = line " " words[b]
            }
            print line "."
        }
    }'
}

sentences 1 6000 >"$DIR/train.txt"
sentences 2 600 >"$DIR/held.txt"
cat >"$DIR/run.yaml" <<END
algorithm: sft
run.output_dir: out
model: {n_positions: 128, n_embd: 128, n_layer: 2, n_head: 4}
data: {train: train.txt, eval: held.txt, max_length: 128}
precision.compute: bf16
training: {per_device_batch_size: 2, gradient_accumulation_steps: 4,
           max_steps: $STEPS}
optimizer.lr: $LR
logging.report_to: none
checkpoint.strategy: no
END

program=$(realpath "$program")
cd "$DIR"
for way in fp32 random nearest; do
    rm -rf out
    printf '%-8s ' "$way"
    "$program" run.yaml "$way" | tail -n 1
done
