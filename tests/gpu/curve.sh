#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# curve.sh - 100 steps of GPT-2 124M on a GPU, beside the same on the CPU
#
# 4 rows of 64 tokens a step, which a CPU of 16 cores does in less than a minute.
# Losses must agree step by step: in fp32 to one part in 1,000, in bf16 to one in 50.
# MODEL=tiny tries the script where a GPU is emulated.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
steps=100 layers='n_embd: 768, n_layer: 12, n_head: 12'
[ -z "${MODEL-}" ] || steps=10 layers='n_embd: 16, n_layer: 2, n_head: 2'
awk 'BEGIN { for (i = 1; i <= 2000; i++)
    print "line " i " of a text whose square is " i * i }' >text.txt

# curve NAME DEVICE PRECISION: losses of all steps, in NAME.losses
curve() {
    cat >"$1.yaml" <<END_OF_FILE
algorithm: sft
run: {name: $1, output_dir: $1, device: $2}
model: {type: gpt2, init: random, tokenizer: byte, n_positions: 64, $layers}
precision.compute: $3
data: {train: text.txt, max_length: 64}
training: {per_device_batch_size: 4, max_steps: $steps}
optimizer.lr: 1.0e-4
checkpoint.strategy: "no"
logging.steps: 1
END_OF_FILE
    "$build/disttrain" train "$1.yaml" || return
    sed -n 's/.*"loss": *\([^,]*\),.*/\1/p' "$1/logs/metrics.jsonl" \
        >"$1.losses"
}

# agree A B PART: no two losses of a step differ by more
agree() {
    paste "$1.losses" "$2.losses" | awk -v part="$3" -v steps="$steps" '
        {
            off = $1 ~ /^[0-9]/ && $2 ~ /^[0-9]/ && $1 > 0 ? ($1 - $2) / $1 : 1
            if (off < 0)
                off = -off
            if (!(off <= part)) {
                print "step " NR ": " $1 " and " $2
                bad = 1
            }
            if (off > most)
                most = off
        }
        END { print "at most " most; exit bad || NR != steps }'
}

check "on the CPU" curve cpu cpu fp32
check "on the GPU, fp32" curve fp32 cuda fp32
check "its losses are those of the CPU" agree cpu fp32 0.001
check "on the GPU, bf16" curve bf16 cuda bf16
check "its losses are near those of the CPU" agree cpu bf16 0.02
echo "1..$count"
