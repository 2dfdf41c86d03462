#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train.sh - runs on a GPU: as on the CPU, the same twice, resumed, and divided

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
awk 'BEGIN { for (i = 1; i <= 400; i++)
    print "line " i " of a text whose square is " i * i }' >text.txt

model="type: gpt2, init: random, tokenizer: byte, n_embd: 64, n_layer: 2,
        n_head: 2, n_positions: 64"

# train NAME KEY=VALUE ...: six steps of $model, a line of metrics each; the
# keys are of the form section.key
train() {
    run=$1
    shift
    cat >"$run.yaml" <<END
algorithm: sft
run.name: $run
model: {$model}
data: {train: text.txt, max_length: 64}
training.per_device_batch_size: 2
training.max_steps: 6
training.gradient_accumulation_steps: 2
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
checkpoint.steps: 3
logging.steps: 1
END
    for key; do
        echo "${key%%=*}: ${key#*=}" >>"$run.yaml"
    done
    "$build/disttrain" train "$run.yaml"
}

# losses_agree A B: step by step, to one part in 10000
losses_agree() {
    for run in "$1" "$2"; do
        sed 's/.*"loss": \([^,]*\).*/\1/' "outputs/$run/logs/metrics.jsonl" \
            >"$run.losses"
    done
    paste "$1.losses" "$2.losses" | awk '
        { off = ($1 - $2) / $1; if (off * off > 1e-8) bad = 1; print }
        END { exit bad || NR != 6 }'
}

weights() {
    echo "outputs/$1/checkpoints/$2/model.safetensors"
}

same_weights() {
    cmp "$(weights "$1" checkpoint-6)" "$(weights "$2" checkpoint-6)"
}

# beside_plan NAME: bytes of the GPU that are not in the plan
beside_plan() {
    "$build/disttrain" plan --json "$1.yaml" | awk -v peak="$(
        sed -n '$s/.*"mem_peak": \([^,}]*\).*/\1/p' \
            "outputs/$1/logs/metrics.jsonl")" '
        /"taken"/ { taken = /true/ }
        taken && /"total"/ { gsub(/[^0-9]/, ""); print peak - $0 }'
}

# same_memory A B: both have the same beside their plans, but for the bounds of
# what decays
same_memory() {
    a=$(beside_plan "$1") && b=$(beside_plan "$2") || return 1
    echo "$a and $b"
    [ "$((a - b))" -lt 1024 ] && [ "$((b - a))" -lt 1024 ]
}

check "fp32 on the CPU" train cpu run.device=cpu precision.compute=fp32
check "fp32 on the GPU" train fp32 run.device=cuda precision.compute=fp32
check "the same losses" losses_agree cpu fp32
check "bf16 on the GPU, which is what auto means" train auto run.device=auto
check "as if it had been given" train bf16 run.device=cuda \
    precision.compute=bf16 run.deterministic=true
check "deterministic" train again run.device=cuda run.deterministic=true
check "twice the same weights" same_weights bf16 again
check "from the third step on" train resumed run.device=cuda \
    run.deterministic=true training.resume="outputs/again/checkpoints/checkpoint-3"
check "the weights of a run without a stop" same_weights again resumed
check "zero3, state in host memory" train zero3 run.device=cuda \
    run.deterministic=true distributed.strategy=zero3 \
    offload_optimizer="{device: cpu}"
check "has the same weights" same_weights again zero3
check "fp16 on the GPU" train fp16 run.device=cuda precision.compute=fp16
model="path: outputs/cpu/checkpoints/checkpoint-6, tokenizer: byte"
lora="{type: lora, r: 4, dropout: 0.1, target_modules: all-linear}"
check "LoRA on the CPU" train lora_cpu run.device=cpu precision.compute=fp32 \
    adapter="$lora"
check "LoRA on the GPU" train lora run.device=cuda precision.compute=fp32 \
    distributed.strategy=zero3 adapter="$lora"
check "the same losses" losses_agree lora_cpu lora
check "beside its plan it has what a run without LoRA has" \
    same_memory fp32 lora
echo "1..$count"
