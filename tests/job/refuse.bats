#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# refuse.bats - runs that cannot be what they are told to be, without Slurm

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"

setup() {
    WORK=$(mktemp -d /tmp/disttrain-refuse.XXXXXX)
    cd "$WORK" || return
    export OMP_NUM_THREADS=1
    seq 400 >train.txt
    for i in {1..12}; do
        printf '{"text": "line %d of twelve"}\n' "$i"
    done | tee a.jsonl >b.jsonl
}

teardown() {
    rm -rf "$WORK"
}

# train [LINE]...: a small run with these sections beside its own.
train() {
    {
        echo "algorithm: sft"
        echo "run: {name: small, output_dir: out}"
        echo "model: {n_embd: 16, n_layer: 1, n_head: 2, n_positions: 32}"
        printf '%s\n' "$@"
    } >small.yaml
    run timeout 60 "$DT_BUILDDIR/disttrain" train small.yaml
    echo "$output"
}

steps="training: {per_device_batch_size: 2, max_steps: 2}"
more="training: {per_device_batch_size: 2, max_steps: 3, resume: auto}"

@test "a checkpoint of another version says so, and what can be done" {
    local data="data: {train: train.txt, max_length: 32}"
    train "$data" "$steps"
    ((status == 0))
    cd out/checkpoints/checkpoint-2
    sed -i '/"scaler": {/,$d; s/"version": 2/"version": 1/' trainer_state.json
    sed -i '$s/,$/}/' trainer_state.json
    sed -i '/trainer_state/d' checksums.txt
    cd "$WORK"
    train "$data" "$more"
    ((status == 65))
    [[ $output == *"trainer_state.json: of version 1, this program reads"* ]]
    [[ $output == *"version 2: name the checkpoint in model.path"* ]]
}

@test "held-out data of less than a token: refused, not a crash" {
    train "data: {train: train.txt, max_length: 32,
  validation_split: 1.0e-6}" "training: {per_device_batch_size: 2,
  eval_only: true}"
    ((status == 65))
    [[ $output == *"held-out data: data: 0 tokens hold no sample of 32 + 1"* ]]
}

@test "a weight on a file that is one stream: refused, by check too" {
    local text="a weight is for files of examples, not for a stream of tokens"
    train "data: {train: [{path: train.txt, weight: 2}], max_length: 32}" \
        "$steps"
    ((status == 78))
    [[ $output == *"train.txt: $text"* ]]
    run "$DT_BUILDDIR/disttrain" check small.yaml
    ((status == 78))
    [[ $output == *"train.txt: $text"* ]]
}

@test "the loss of a part of a file that has none: refused, by check too" {
    local text="data.loss_on: E112 $WORK/train.txt is one stream, without"
    train "data: {train: train.txt, max_length: 32}" "$steps" \
        "completion_only_loss: true"
    ((status == 78))
    [[ $output == *"$text completions"* ]]
    train "data: {train: train.txt, max_length: 32}" "$steps" \
        "assistant_only_loss: true"
    [[ $output == *"$text conversations"* ]]
    run "$DT_BUILDDIR/disttrain" check small.yaml
    ((status == 78))
    [[ $output == *"$text conversations"* ]]
}

@test "resumed with other weights, packing, truncation or order: other data" {
    data() {
        echo "data: {train: [{path: a.jsonl, weight: $1}, {path: b.jsonl,
  weight: $2}], max_length: 32, packing: $3, truncation: $4}"
    }
    local other
    train "$(data 2 1 none keep_start)" "$steps"
    ((status == 0))
    for other in "1 2 none keep_start" "2 1 wrapped keep_start" \
        "2 1 none keep_end"; do
        # shellcheck disable=SC2086
        train "$(data $other)" "$more"
        ((status == 78))
        [[ $output == *"was trained on other data"* ]]
    done
    train "$(data 2 1 none keep_start)" "data.shuffle: false" "$more"
    ((status == 78))
    [[ $output == *"was trained on other data"* ]]
    train "$(data 2 1 none keep_start)" "$more"
    ((status == 0))
}

@test "resumed in fp16, from fp32 or with another static scale" {
    local data="data: {train: train.txt, max_length: 32}" fp16
    scale() {
        sed -n 's/.*"scale": \([0-9.]*\),*/\1/p' \
            out/checkpoints/latest/trainer_state.json
    }
    for fp16 in "compute: fp32" "compute: fp16, loss_scale: 64"; do
        rm -rf out
        train "$data" "$steps" "precision: {$fp16}"
        ((status == 0))
        train "$data" "$more" "precision: {compute: fp16, loss_scale: 128}"
        ((status == 0))
        [[ $(scale) == 128.0 ]]
    done
}

@test "a run of one step learns, whatever share of it is warm-up" {
    local data="data: {train: train.txt, max_length: 32}" rate
    train "$data" "training: {per_device_batch_size: 2, max_steps: 1}" \
        "scheduler: {name: cosine, warmup_ratio: 0.03}"
    ((status == 0))
    rate=$(sed -n 's/.*"lr": \([-.e0-9]*\).*/\1/p' out/logs/metrics.jsonl)
    [[ $rate == 2e-05 || $rate == 2.0e-05 || $rate == 2.0e-5 ]]
    [[ $output != *E110* ]]
    rm -r out
    train "$data" "training: {per_device_batch_size: 2, max_steps: 1}" \
        "scheduler: {name: cosine, warmup_steps: 1}"
    ((status == 0))
    [[ $output == *"E110 nothing is learnt: the run ends at step 1 of 1 of warm-up"* ]]
}

@test "tokens that fill no row are counted" {
    seq 12 >short.txt # 27 bytes and the end of the text
    train "data: {train: short.txt, max_length: 10}" "$steps"
    ((status == 0))
    [[ $output == *"data.train: the last 7 tokens do not fill a row of 10 and"* ]]
    rm -r out
    train "data: {train: short.txt, max_length: 9}" "$steps"
    ((status == 0))
    [[ $output != *"do not fill"* ]]
}
