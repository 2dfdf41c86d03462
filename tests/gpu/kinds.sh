#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kinds.sh - 20 steps of each kind of training at the size of GPT-2 124M
#
# Each loss must be finite: others are written as null. What each kind costs
# comes behind the TAP lines, in tokens per second and against plain rows.
# Documents are rows with a second mask, dropout leaves cuDNN out, and offload
# moves the state of AdamW.
# MODEL=tiny tries the script where a GPU is emulated.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
T=1024 rows=16 steps=20 layers='n_embd: 768, n_layer: 12, n_head: 12'
[ -z "${MODEL-}" ] ||
    T=64 rows=2 steps=4 layers='n_embd: 16, n_layer: 2, n_head: 2'
awk 'BEGIN { for (i = 0; i < 1500; i++) {
    line = ""
    while (length(line) < 300)
        line = line " " i * (length(line) + 7) % 9973
    print line >"short.txt"
    print line line line line >"long.txt" } }'

# kind NAME [KEY=VALUE ...]: keys are of the form section.key
kind() {
    run=$1
    shift
    cat >"$run.yaml" <<END_OF_FILE
algorithm: sft
run: {name: $run, output_dir: $run, device: cuda}
model: {type: gpt2, init: random, tokenizer: byte, n_positions: $T, $layers}
data: {train: long.txt, max_length: $T}
training: {per_device_batch_size: $rows, max_steps: $steps}
optimizer.lr: 1.0e-4
checkpoint.strategy: "no"
logging.steps: 1
END_OF_FILE
    for key; do
        case $key in
        data=* | model=*) sed -i "/^${key%%=*}:/d" "$run.yaml" ;;
        esac
        echo "${key%%=*}: ${key#*=}" >>"$run.yaml"
    done
    "$build/disttrain" train "$run.yaml" || return
    sed -n 's/.*"tokens_per_s": *\([0-9.e+]*\).*/\1/p' \
        "$run/logs/metrics.jsonl" | tail -n "$((steps / 2))" | sort -g |
        awk -v name="$run" '{ v[NR] = $1 }
            END { print name, v[int((NR + 1) / 2)] }' >>rates
    ! grep '"loss": *null' "$run/logs/metrics.jsonl"
}

check "plain rows" kind plain
check "documents in a row" kind documents \
    data="{train: short.txt, max_length: $T, packing: true}"
mkdir dropped
cat >dropped/config.json <<END_OF_FILE
{"model_type": "gpt2", "vocab_size": 257, "n_positions": $T,
 $(echo "$layers" | sed 's/[a-z_][a-z_]*/"&"/g'),
 "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1}
END_OF_FILE
check "dropout" kind dropout \
    model="{config_path: dropped, init: random, tokenizer: byte}"
check "fp16" kind fp16 precision.compute=fp16
check "gradient checkpointing" kind recomputed model.gradient_checkpointing=true
check "zero3" kind zero3 distributed.strategy=zero3
check "state in host memory" kind offload distributed.strategy=zero2 \
    offload_optimizer="{device: cpu}"
echo "1..$count"
awk 'NR == 1 {
        print "\n| kind | tokens/s | of plain rows |\n|---|--:|--:|"
        plain = $2
    }
    { printf "| %s | %.0f | %.2f |\n", $1, $2, $2 / plain }
    $1 == "documents" && $2 * 1.3 < plain {
        slow = "\n-> documents are slow: does cuDNN see that attention is" \
            " causal when it has a second mask?"
    }
    END { print slow }' rates
