#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# vision_runs.bats - twenty steps on text and images have the losses of TRL

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"

load ../job/vision

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    make_vision qwen3_vl qwen3_vl
    make_vision gemma3 gemma3
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    export OMP_NUM_THREADS=1
}

# scores_of DIR LINES: those that a reward model gives to the sides of pairs.
scores_of() {
    "$DT_BUILDDIR/disttrain" generate --model "$1" --image-root "$(dirname "$2")" \
        --score "$2" | paste -d ' ' - -
}

# same_scores FILE: whether those of stdin differ by rounding alone.
same_scores() {
    paste -d ' ' - "$1" | awk '
        function size(a) { return a < 0 ? -a : a }
        function off(a, b) { return size(a - b) / (1 + size(b)) }
        { d = off($1, $3) > off($2, $4) ? off($1, $3) : off($2, $4)
          if (d > most) most = d }
        END { print "largest difference of scores", most
              exit !(NR == 16 && most < 1e-5) }'
}

# sides MODEL: the conversations of both sides of each pair.
sides() {
    sed -E 's/"prompt":\[(.*)\],"chosen":\[(.*)\],"rejected":\[(.*)\],("images":.*)\}/"messages":[\1,\2],\4}\n{"messages":[\1,\3],\4}/' \
        "$1/pairs.jsonl"
}

# pairs_of MODEL ALGORITHM START RUN KEYS MARGIN: trains on pairs as RUN has, and
# compares losses, norms and margins of rewards.
pairs_of() {
    ALGORITHM=$2 config "$1" run "model: {path: $1/$3, $5}" \
        "data: {train: $1/pairs.jsonl, image_root: $1, max_length: 128,
  shuffle: false}" \
        "training: {per_device_batch_size: 4, max_steps: 20, max_grad_norm: 1.0}" \
        "scheduler: {type: linear, warmup_steps: 3}" "logging: {steps: 1}"
    train 1 run
    metrics_of run "$6" | tee run.txt
    paste -d ' ' run.txt "$1/$4.txt" | awk '
        function off(a, b) { a = a - b; return a < 0 ? -a : a }
        { for (i = 1; i <= 4; i++) {
              d = off($i, $(i + 4))
              if (i < 4 && $i != 0) d /= $i # a margin may be any small number
              if (d > most) most = d
          } }
        END { print "largest difference", most
              exit !(NR == 20 && most < 2e-5) }'
}

MODELS=(llava qwen2_5_vl qwen3_vl gemma3)

@test "pairs: dpo has the losses of TRL" {
    local model
    for model in "${MODELS[@]}"; do
        pairs_of "$model" dpo model dpo "train_vision: true" rewards/margins
        rm -r run.out
    done
}

@test "pairs: dpo with a frozen tower has the losses of TRL" {
    local model
    for model in "${MODELS[@]}"; do
        pairs_of "$model" dpo model "dpo frozen" "train_vision: false" \
            rewards/margins
        rm -r run.out
    done
}

# That of Gemma 3 is transformers' classifier.
@test "pairs: a reward model has the losses and the scores of torch" {
    local model
    for model in "${MODELS[@]}"; do
        sides "$model" >"$model/sides.jsonl"
        scores_of "$model/reward" "$model/sides.jsonl" | same_scores "$model/before.txt"
        pairs_of "$model" rm reward rm "train_vision: true" margin
        scores_of run.out "$model/sides.jsonl" | same_scores "$model/after.txt"
        "$DT_BUILDDIR/disttrain" export run.out out
        [[ $model == gemma3 ]] ||
            cmp {out,run.out/checkpoints/latest}/value_head.safetensors
        scores_of out "$model/sides.jsonl" | same_scores "$model/after.txt"
        rm -r run.out out
    done
}

# run_of MODEL B A TARGETS LOSS_ON PLACEHOLDERS: trains as TRL has, and compares
# losses and norms.
run_of() {
    config "$1" run "data: {train: $1/train.jsonl, image_root: $1,
  max_length: 128, shuffle: false, packing: none, loss_on: $5,
  train_on_image_tokens: $6}" \
        "training: {per_device_batch_size: $2, gradient_accumulation_steps: $3,
  max_steps: 20, max_grad_norm: 1.0}" "scheduler: {type: linear, warmup_steps: 3}" \
        'checkpoint: {strategy: "no"}' "logging: {steps: 1}"
    train 1 run
    metrics_of run | tee run.txt
    paste -d ' ' run.txt "$1/$4.txt" | awk '
        function off(a, b) { a = b ? a / b - 1 : a; return a < 0 ? -a : a }
        { for (i = 1; i <= 3; i++) {
              d = off($i, $(i + 3)); if (d > most) most = d
          } }
        END { print "largest relative difference", most
              exit !(NR == 20 && most < 1e-5) }'
    rm -r run.out
}

@test "llava, all tokens" { run_of llava 2 2 all full true; }

@test "llava, all but placeholders" {
    run_of llava 2 2 "no placeholders" full false
}

@test "llava, what the assistant says" {
    run_of llava 2 2 assistant assistant false
}

@test "qwen2.5-vl, all tokens" { run_of qwen2_5_vl 4 1 all full true; }

@test "qwen2.5-vl, all but placeholders" {
    run_of qwen2_5_vl 4 1 "no placeholders" full false
}

@test "qwen2.5-vl, what the assistant says" {
    run_of qwen2_5_vl 4 1 assistant assistant false
}

@test "qwen3-vl, what the assistant says" {
    run_of qwen3_vl 4 1 assistant assistant false
}

@test "gemma 3, all but placeholders" {
    run_of gemma3 4 1 "no placeholders" full false
}
