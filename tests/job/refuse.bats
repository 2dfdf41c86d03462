#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# refuse.bats - runs that cannot be as configured are refused, without Slurm

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

# train [LINE]...: a small run with these sections added.
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

# sum_again: writes checksums.txt of this directory as an older version did.
sum_again() {
    command -v xxhsum >/dev/null || skip "xxhsum is not installed"
    xxhsum -H3 --tag -- *.json *.safetensors >checksums.txt
}

@test "a checkpoint of another version is refused, with what to do" {
    local data="data: {train: train.txt, max_length: 32}"
    train "$data" "$steps"
    ((status == 0))
    cd out/checkpoints/checkpoint-2
    sed -i '/"scaler": {/,$d; s/"version": 2/"version": 1/' trainer_state.json
    sed -i '$s/,$/}/' trainer_state.json
    sum_again
    cd "$WORK"
    train "$data" "$more"
    ((status == 65))
    [[ $output == *"trainer_state.json: has version 1, but this program reads"* ]]
    [[ $output == *"version 2: name the checkpoint in model.path"* ]]
}

@test "held-out data of less than a token is refused" {
    train "data: {train: train.txt, max_length: 32,
  validation_split: 1.0e-6}" "training: {per_device_batch_size: 2,
  eval_only: true}"
    ((status == 65))
    [[ $output == *"held-out data: data: 0 tokens are too few for a sample of 32 + 1"* ]]
}

@test "a weight for a stream of text is refused, by check too" {
    local text="a weight is for files of examples, not for a stream of tokens"
    train "data: {train: [{path: train.txt, weight: 2}], max_length: 32}" \
        "$steps"
    ((status == 78))
    [[ $output == *"train.txt: $text"* ]]
    run "$DT_BUILDDIR/disttrain" check small.yaml
    ((status == 78))
    [[ $output == *"train.txt: $text"* ]]
}

@test "data.loss_on for a file without such a part is refused, by check too" {
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

@test "resume with other weights, packing or truncation means other data" {
    data() {
        echo "data: {train: [{path: a.jsonl, weight: $1}, {path: b.jsonl,
  weight: $2}], max_length: 32, packing: $3, truncation: $4}"
    }
    local other why
    train "$(data 2 1 none keep_start)" "$steps"
    ((status == 0))
    while IFS='|' read -r other why; do
        # shellcheck disable=SC2086
        train "$(data $other)" "$more" "optimizer: {lr: 2.0e-3}"
        ((status == 78))
        [[ $output == *"/checkpoint-2: was trained on other $why"* ]]
        # what may change is not worth a word when nothing is resumed
        [[ $output != *"resuming with"* ]]
    done <<'END'
1 2 none keep_start|data (hash
2 1 wrapped keep_start|rows: data.packing none -> wrapped; set this back, or
2 1 none keep_end|rows: data.truncation keep_start -> keep_end; set
2 1 bfd keep_end|rows: data.packing none -> bfd, data.truncation keep_start -> keep_end;
END
    train "$(data 2 1 none keep_start)" "$more"
    ((status == 0))
}

@test "an adapter that cannot be read: check names the key that it is from" {
    local model=$DT_SRCDIR/tests/parity/models/gpt2
    mkdir adapter
    touch adapter/adapter_model.bin
    printf '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4,
 "target_modules": ["c_attn"], "lora_alpha": 8, "fan_in_fan_out": true,
 "base_model_name_or_path": "%s"}' "$model" >adapter/adapter_config.json
    # beside MODEL WHERE: check finds it at that place
    beside() {
        cat >lora.yaml <<END
algorithm: sft
model: {path: $1}
data: {train: train.txt, max_length: 16}
$steps
END
        run "$DT_BUILDDIR/disttrain" check lora.yaml
        echo "$output"
        ((status == 78))
        [[ $output == *"lora.yaml:$2: $WORK/adapter: adapter_model.bin: an adapter of an older PEFT"* ]]
    }
    beside adapter "2:15: model.path"
    beside "$model}
adapter: {path: adapter" "3:17: adapter.path"
}

@test "resume in fp16 from fp32 or with another static scale" {
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
    [[ $output == *"E110 the model will not change: the run ends at step 1 of 1 of the warm-up"* ]]
}

@test "tokens that do not fill a row are counted" {
    seq 12 >short.txt # 27 bytes and the end of the text
    train "data: {train: short.txt, max_length: 10}" "$steps"
    ((status == 0))
    [[ $output == *"data.train: the last 7 tokens do not fill a row of 10 and"* ]]
    # nor would a run that does not read the data once have come to the last
    rm -r out
    seq 200 >long.txt # 692 bytes: 69 rows, and 3 tokens
    train "data: {train: long.txt, max_length: 10}" "$steps"
    ((status == 0))
    [[ $output != *"do not fill"* ]]
    rm -r out
    train "data: {train: short.txt, max_length: 9}" "$steps"
    ((status == 0))
    [[ $output != *"do not fill"* ]]
}

# resume LINE...: `train` from a copy of the checkpoint in first/.
resume() {
    rm -rf out
    cp -r first out
    train "$@"
}

@test "resume with another model, order or seed is refused with both values" {
    local data="data: {train: train.txt, max_length: 32}" text edit
    local model="{n_embd: 16, n_layer: 1, n_head: 2, n_positions: 32}"
    # again MODEL [LINE]...: resumes with that model
    again() {
        resume "${@:2}" "$more" >/dev/null
        sed -i "s/^model: .*/model: $1/" small.yaml
        rm -rf out
        cp -r first out
        run timeout 60 "$DT_BUILDDIR/disttrain" train small.yaml
        echo "$output"
    }
    refused() {
        ((status == 78))
        [[ $output == *"checkpoint-2"*": was trained with $1"* ]]
        (($(grep -c 'was trained' <<<"$output") == 1))
    }
    train "$data" "$steps"
    ((status == 0))
    mv out first
    again "${model/head: 2/head: 4}" "$data"
    refused "model.n_head 2, not 4, which changes the model: set it back"
    again "${model/\}/, layer_norm_epsilon: 1.0e-6\}}" "$data"
    refused "model.layer_norm_epsilon 1e-05, not 1e-06, which changes the model"
    again "$model" "${data/\}/, shuffle: false\}}"
    refused "data.shuffle true, not false, which changes the order of the data; set it back"
    again "$model" "${data/\}/, validation_split: 0.1\}}"
    refused "data.validation_split 0, not 0.1, which changes the order"
    again "$model" "$data" "seed: 43"
    refused "run.seed 42, not 43, which changes the order of the data; set run.data_seed: 42"
    again "$model" "$data" "data_seed: 43"
    refused "run.data_seed 42, not 43, which changes the order"
    again "$model" "${data/32/16}"
    refused "data.max_length 32, not 16; set it back, or"

    mkdir llama
    echo '{"model_type": "llama", "vocab_size": 257, "hidden_size": 16,
 "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
 "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
 "rope_theta": 10000.0}' | tee was.json >llama/config.json
    model="{config_path: llama, init: random}"
    train "$data" "$steps" >/dev/null
    sed -i "s/^model: .*/model: $model/" small.yaml
    rm -rf out first
    "$DT_BUILDDIR/disttrain" train small.yaml
    mv out first
    while IFS='|' read -r edit text; do
        sed "$edit" was.json >llama/config.json
        again "$model" "$data"
        refused "$text"
    done <<'END'
s/10000.0/500000.0/|rope_theta 10000, not 500000, which changes the model
s/1e-5/1e-6/|rms_norm_eps 1e-05, not 1e-06, which changes the model
s/10000.0/&, "rope_scaling": {"rope_type": "linear", "factor": 2.0}/|rope_scaling.rope_type default, not linear, which
s/10000.0/&, "attention_bias": true/|attention_bias false, not true, which
s/10000.0/&, "mlp_bias": true/|mlp_bias false, not true, which
END
    cp was.json llama/config.json
    again "$model" "$data"
    ((status == 0))
    sed 's/10000.0/&, "attention_dropout": 0.1/' was.json >llama/config.json
    again "$model" "$data"
    ((status == 0))
    [[ $output == *"changed settings: attention_dropout 0 -> 0.1"* ]]

    sed -e 's/llama/gemma2/; s/10000.0/&, "sliding_window": 8/' \
        -e 's/10000.0/&, "head_dim": 8, "num_key_value_heads": 2/' was.json |
        tee was-gemma.json >llama/config.json
    train "$data" "$steps" >/dev/null
    sed -i "s/^model: .*/model: $model/" small.yaml
    rm -rf out first
    "$DT_BUILDDIR/disttrain" train small.yaml
    mv out first
    while IFS='|' read -r edit text; do
        sed "$edit" was-gemma.json >llama/config.json
        again "$model" "$data"
        refused "$text"
    done <<'END'
s/"sliding_window": 8/"sliding_window": 16/|sliding_window 8, not 16, which changes the model
s/10000.0/&, "hidden_activation": "silu"/|hidden_activation gelu_pytorch_tanh, not silu, which
END
}

@test "resume with other training settings: one line lists them" {
    local data="data: {train: train.txt, max_length: 32}"
    train "$data" "$steps" "optimizer: {lr: 1.0e-3}"
    ((status == 0))
    mv out first
    resume "$data" "training: {per_device_batch_size: 1, max_steps: 3,
  resume: auto, label_smoothing: 0.1}" "optimizer: {lr: 2.0e-3}" \
        "scheduler: {name: cosine, warmup_steps: 1}" "seed: 7" "data_seed: 42" \
        "precision: {compute: bf16}" "model.train_padding_row: true"
    ((status == 0))
    (($(grep -c 'resuming with changed settings: ' <<<"$output") == 1))
    local change
    for change in "run.seed 42 -> 7" "optimizer.lr 0.001 -> 0.002" \
        "scheduler.name linear -> cosine" "scheduler.warmup_steps 0 -> 1" \
        "training.max_steps 2 -> 3" "training.label_smoothing 0 -> 0.1" \
        "precision.compute fp32 -> bf16" "training.train_batch_size 2 -> 1" \
        "model.train_padding_row false -> true"; do
        [[ $output == *"$change"* ]]
    done
    (($(grep -o ' -> ' <<<"$output" | wc -l) == 10))
    # the same settings again print nothing
    resume "$data" "training: {per_device_batch_size: 2, max_steps: 2,
  resume: auto}" "optimizer: {lr: 1.0e-3}"
    [[ $output != *"changed settings"* ]]
}
