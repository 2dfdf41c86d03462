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
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    export OMP_NUM_THREADS=1
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

# metrics_of NAME: "loss norm lr" of each step.
metrics_of() {
    local key
    for key in loss grad_norm lr; do
        sed -n "s/.*\"split\": \"train\".*\"$key\": \([-+.e0-9]*\).*/\1/p" \
            "$1.out/logs/metrics.jsonl" >"$1.$key"
    done
    paste -d ' ' "$1.loss" "$1.grad_norm" "$1.lr"
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
