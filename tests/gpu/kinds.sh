#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kinds.sh - 20 steps of each kind of training
#
# Each loss must be finite: others are written as null. What each kind costs
# comes behind the TAP lines, in tokens per second and against plain rows.
# MODEL is gpt2, the size of GPT-2 124M: documents are rows with a second mask,
# dropout leaves cuDNN out, and offload moves the state of AdamW. Or it is
# llama-1.5b, the shape of Qwen2.5-1.5B: packed rows, pairs, and the half of GRPO
# that trains, whose rate is that of the steps which sample nothing, three of
# four. Packed rows must have 0.95 of the rate of plain ones, and GRPO 0.9.
# MODEL=tiny tries both where a GPU is emulated, and says nothing of rates.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
model=${MODEL:-gpt2} steps=20
case $model in
gpt2) T=1024 rows=16 layers='n_embd: 768, n_layer: 12, n_head: 12' ;;
llama-1.5b) T=2048 rows=8 ;;
tiny) T=64 rows=2 steps=4 layers='n_embd: 16, n_layer: 2, n_head: 2' ;;
*) echo "kinds.sh: there is no model $model" >&2 && exit 64 ;;
esac
awk -v quarter="$((T / 4))" 'BEGIN { for (i = 0; i < 1500; i++) {
    line = ""
    while (length(line) < (quarter > 300 ? quarter : 300))
        line = line " " i * (length(line) + 7) % 9973
    print line line line line >"long.txt"
    # four, with an end each, fill a row
    printf "{\"text\": \"%s\"}\n", substr(line, 1, quarter - 1) >"short.jsonl"
} }'

# kind NAME [KEY=VALUE ...]: keys are of the form section.key
kind() {
    run=$1
    shift
    cat >"$run.yaml" <<END_OF_FILE
algorithm: sft
run: {name: $run, output_dir: $run, device: cuda}
model: {config_path: shape, init: random, tokenizer: byte}
data: {train: long.txt, max_length: $T}
training: {per_device_batch_size: $rows, max_steps: $steps}
optimizer.lr: 1.0e-5
checkpoint.strategy: "no"
logging.steps: 1
END_OF_FILE
    for key; do
        sed -i "/^${key%%=*}:/d" "$run.yaml"
        echo "${key%%=*}: ${key#*=}" >>"$run.yaml"
    done
    "$build/disttrain" train "$run.yaml" >"$run.out" 2>&1 || {
        cat "$run.out"
        return 1
    }
    sed -n 's/.*"tokens_per_s": *\([0-9.e+]*\).*/\1/p' \
        "$run/logs/metrics.jsonl" | tail -n "$((steps / 2))" | sort -g |
        awk -v name="$run" '{ v[NR] = $1 }
            END { print name, v[int((NR + 1) / 2)] }' >>rates
    ! grep 'no effect' "$run.out" &&
        ! grep '"loss": *null' "$run/logs/metrics.jsonl"
}

# shape FOLDER [KEY ...]: config.json of the model, with these keys
shape() {
    mkdir "$1"
    if [ "$model" = llama-1.5b ]; then
        "$here/../bench/disttrain_step.py" --model "$model" --print-model
    else
        echo "{\"model_type\": \"gpt2\", \"vocab_size\": 257,
            \"n_positions\": $T, ${2-}
            $(echo "$layers" | sed 's/[a-z_][a-z_]*/"&"/g')}"
    fi >"$1/config.json"
}

# Of the kinds, what is bound to rows of one size or to a mask of its own.
sizes() {
    check "dropout" kind dropout \
        model="{config_path: dropped, init: random, tokenizer: byte}"
    check "fp16" kind fp16 precision.compute=fp16
    check "gradient checkpointing" kind recomputed \
        model.gradient_checkpointing=true
    check "zero3" kind zero3 distributed.strategy=zero3
    check "state in host memory" kind offload distributed.strategy=zero2 \
        offload_optimizer="{device: cpu}"
}

# Pairs and prompts of a quarter of a row, whose completions have another one;
# as many as all steps take.
half=$((T / 4))
halves() {
    head -n "$((rows * steps))" long.txt | awk -v half="$half" '{
        prompt = substr($0, 1, half)
        chosen = substr($0, half + 1, half - 1)
        printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n",
            prompt, chosen, substr(chosen, 2) >"pairs.jsonl"
        printf "{\"prompt\": \"%s\"}\n", prompt >"prompts.jsonl"
    }'
}

preferences() {
    check "pairs" kind pairs algorithm=dpo \
        data="{train: pairs.jsonl, max_length: $((2 * half))}" \
        dpo.reference.mode=precompute
    check "completions" kind completions algorithm=grpo \
        data="{train: prompts.jsonl, max_prompt_length: $half, chat_template: none}" \
        rollout="{max_completion_length: $half, log_every: 0}" \
        grpo="{num_generations: 8, num_iterations: 4}" \
        reward="{functions: [{type: length, shape: target, tokens: $half}]}" \
        training="{per_device_batch_size: $((rows * 2)), max_steps: $steps,
                   gradient_accumulation_steps: 4}"
}

shape shape
[ "$model" = llama-1.5b ] ||
    shape dropped '"embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1,'
halves
check "plain rows" kind plain
check "documents in a row" kind documents \
    data="{train: short.jsonl, max_length: $T, packing: true}"
[ "$model" = llama-1.5b ] || sizes
[ "$model" = gpt2 ] || preferences

# part NAME: of the rate of plain rows
part() {
    awk -v name="$1" '$1 == "plain" { plain = $2 }
        $1 == name { printf "%.3f", $2 / plain }' rates
}

# shellcheck source=tests/bench/limits.sh
. "$here/../bench/limits.sh"
# share NAME LEAST: of the rate of plain rows, where there is a GPU
share() {
    count=$((count + 1))
    at_least "$1, of the rate of plain rows" "$(part "$1")" "$2"
}
case $model in
gpt2) share documents 0.91 ;;
llama-1.5b) share documents 0.95 && share completions 0.9 ;;
esac
echo "1..$count"
awk 'NR == 1 {
        print "\n| kind | tokens/s | of plain rows |\n|---|--:|--:|"
        plain = $2
    }
    { printf "| %s | %.0f | %.2f |\n", $1, $2, $2 / plain }' rates
