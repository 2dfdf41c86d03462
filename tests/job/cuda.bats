#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# cuda.bats - whole runs on a GPU: a real one with $DT_CUDA_MODULE, otherwise
# that of tests/simt, which runs the module's kernels on the CPU

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-cuda.XXXXXX)
    export WORK
    cd "$WORK" || return
    mkdir model
    cat >model/config.json <<END
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 32, "n_embd": 16,
 "n_layer": 2, "n_head": 2, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
 "resid_pdrop": 0.1}
END
    examples 24 >train.jsonl
    examples 5 >eval.jsonl
    pairs 24 >pairs.jsonl
    pairs 6 >held-out.jsonl
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    export DISTTRAIN_CUDA_MODULE=${DT_CUDA_MODULE:-$DT_BUILDDIR/tests/simt/disttrain-cuda.so}
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    cd "$WORK" || return
    rm -rf ./*.out
    export OMP_NUM_THREADS=1
}

# examples COUNT: lines of prompt and completion, of 7 to 30 tokens.
examples() {
    awk -v n="$1" 'BEGIN {
        for (i = 0; i < n; i++) {
            text = substr("abcdefghijklmnopqrstuvwxyz", 1, 1 + i * 11 % 24)
            printf "{\"prompt\": \"%d:\", \"completion\": \" %s\"}\n",
                   i % 7, text
        }
    }'
}

# pairs COUNT: lines of pairs, with sides of 4 to 25 tokens.
pairs() {
    examples "$1" | awk '{
        sub("completion", "chosen")
        sub("}", sprintf(", \"rejected\": \" %d%d\"}", NR * 7, NR))
        print
    }'
}

# config NAME DEVICE [LINE]...: writes NAME.yaml, whose output goes to NAME.out.
# A LINE replaces that of its section. Both devices pad rows alike, because
# attention's dropout depends on the padded length.
config() {
    local name=$1 line
    local -A lines=(
        [algorithm]=sft
        [run]="{name: $1, output_dir: $1.out, device: $2}"
        [model]="{config_path: model, init: random}"
        [data]="{train: train.jsonl, eval: eval.jsonl, max_length: 32, pad_to_multiple_of: 1}"
        [training]="{train_batch_size: 4, max_steps: 4, eval_strategy: steps, eval_steps: 2}"
        [optimizer]="{lr: 1.0e-3, weight_decay: 0.1}"
        [precision]="{compute: fp32}"
        [logging]="{steps: 1}"
    )
    shift 2
    for line; do
        lines[${line%%:*}]=${line#*: }
    done
    for line in "${!lines[@]}"; do
        echo "$line: ${lines[$line]}"
    done >"$name.yaml"
}

train() {
    timeout 120 "$DT_BUILDDIR/disttrain" train "$1.yaml"
}

# same_curve A B TOLERANCE: the largest relative difference between the numbers
# of two runs is within TOLERANCE.
same_curve() {
    paste <(numbers "$1") <(numbers "$2") | awk -v most="$3" '
        NF != 2 { print "other lines: " $0; bad = 1 }
        {
            off = ($1 - $2) / ($1 + 1e-9)
            off = off < 0 ? -off : off
            worst = off > worst ? off : worst
        }
        END {
            print NR " numbers, largest relative difference " worst
            exit bad || NR < 8 || worst > most
        }'
}

numbers() {
    grep -oE '"(loss|grad_norm|eval_loss|logits/[a-z]*|entropy)": ?[-0-9.e]+' \
        "$1.out/logs/metrics.jsonl" | sed 's/.*: *//'
}

@test "info shows the module and its GPU" {
    run -0 "$DT_BUILDDIR/disttrain" info
    [[ $output == *"GPU matmul:      cuBLASLt "* ]]
    [[ $output == *"GPU 0:           "*" GiB, sm_"* ]]
}

@test "the loss curve equals the CPU's, dropout included" {
    config gpu cuda
    config cpu cpu
    run -0 train gpu
    [[ $output == *"on "*" GiB, sm_"* ]]
    run -0 train cpu
    run -0 same_curve gpu cpu 2e-5
}

@test "in half precision the loss curve equals the CPU's, up to rounding" {
    for type in bf16 fp16; do
        config gpu cuda "precision: {compute: $type}"
        config cpu cpu "precision: {compute: $type}"
        rm -rf ./*.out
        run -0 train gpu
        run -0 train cpu
        run -0 same_curve gpu cpu 2e-2
    done
}

@test "so it does with packed rows, accumulation and gradient checkpointing" {
    local data="data: {train: train.jsonl, max_length: 32, packing: true, pad_to_multiple_of: 1}"
    local steps="training: {train_batch_size: 4, per_device_batch_size: 1, max_steps: 4}"
    local model="model: {config_path: model, init: random, gradient_checkpointing: true}"
    config gpu cuda "$data" "$steps" "$model"
    config cpu cpu "$data" "$steps" "$model"
    run -0 train gpu
    run -0 train cpu
    run -0 same_curve gpu cpu 2e-5
}

@test "deterministic runs have the same bits, whatever finishes first" {
    config one cuda "run: {name: one, output_dir: one.out, device: cuda, deterministic: true}"
    config two cuda "run: {name: two, output_dir: two.out, device: cuda, deterministic: true}"
    run -0 train one
    SIMT_SEED=7 run -0 train two
    cmp one.out/checkpoints/latest/model.safetensors \
        two.out/checkpoints/latest/model.safetensors
}

@test "a resumed run has the same bits as one that was never stopped" {
    local run="device: cuda, deterministic: true"
    local whole="train_batch_size: 4, max_steps: 4, resume: auto"
    config one cuda "run: {name: one, output_dir: one.out, $run}" \
        "training: {$whole}" "precision: {compute: bf16}"
    config two cuda "run: {name: two, output_dir: two.out, $run}" \
        "training: {$whole}" "precision: {compute: bf16}" \
        "checkpoint: {steps: 2}"
    run -0 train one
    DISTTRAIN_FAULT=train.step:step=4:kill run train two
    [[ $status == 137 ]] || skip "this disttrain obeys no DISTTRAIN_FAULT"
    [[ -e two.out/checkpoints/checkpoint-2 ]]
    run -0 train two
    cmp one.out/checkpoints/latest/model.safetensors \
        two.out/checkpoints/latest/model.safetensors
    cmp one.out/checkpoints/latest/optim-rank-00000-of-00001.safetensors \
        two.out/checkpoints/latest/optim-rank-00000-of-00001.safetensors
}

@test "a step whose gradients overflow is skipped on GPU and CPU alike" {
    local scale="precision: {compute: fp16, initial_scale_power: 40}"
    config gpu cuda "$scale" "training: {train_batch_size: 4, max_steps: 4}"
    config cpu cpu "$scale" "training: {train_batch_size: 4, max_steps: 4}"
    run -0 train gpu
    local gpu
    gpu=$(grep -o "step [0-9]* skipped.*" <<<"$output")
    [[ -n $gpu ]]
    run -0 train cpu
    [[ $(grep -o "step [0-9]* skipped.*" <<<"$output") == "$gpu" ]]
}

@test "weights that are not finite end the run, also with a step in flight" {
    local steps
    for steps in 1 1000; do
        config gpu cuda "optimizer: {lr: 1.0e+39}" \
            "scheduler: {name: constant}" "checkpoint: {steps: $steps}" \
            "training: {train_batch_size: 4, max_steps: 100}"
        rm -rf gpu.out
        run -65 train gpu
        [[ $output == *"the run diverged: after step "[1-3]" the weights are \
not finite; lower optimizer.lr"*"; there is no earlier good checkpoint"* ]]
        [[ ! -e gpu.out/checkpoints/latest && ! -e gpu.out/.owner ]]
    done
}

@test "the GPU and the CPU generate the same text from one model" {
    config gpu cuda
    run -0 train gpu
    run -0 --separate-stderr "$DT_BUILDDIR/disttrain" generate --model gpu.out \
        --prompt "1:" --max-tokens 8 --temperature 0 --device cuda
    local said=$output
    run -0 --separate-stderr "$DT_BUILDDIR/disttrain" generate --model gpu.out \
        --prompt "1:" --max-tokens 8 --temperature 0 --device cpu
    [[ $said == "$output" ]]
}

@test "a run that does not fit in memory says what would fit" {
    [[ -z $DT_CUDA_MODULE ]] || skip "the GPU has too much memory"
    config gpu cuda "training: {train_batch_size: 4096, per_device_batch_size: 4096, max_steps: 2}"
    SIMT_MEMORY=700000000 run -78 train gpu
    [[ $output == *"but the GPU has "*"what would fit: "* ]]
}

@test "without a GPU, auto uses the CPU and says so, and cuda is an error" {
    [[ -z $DT_CUDA_MODULE ]] || skip "there is a GPU"
    export SIMT_DEVICES=0
    config gpu auto "logging: {steps: 1, level: info}"
    run -0 train gpu
    [[ $output == *"running on the CPU: "* ]]
    config gpu cuda "run: {name: gpu, output_dir: gpu.out, device: cuda, overwrite: true}"
    run -78 train gpu
    [[ $output == *"run.device cuda: there is no NVIDIA driver here"* ]]
}

@test "SIGTERM: the step in flight is finished and saved" {
    config gpu cuda "training: {train_batch_size: 4, max_steps: 100000, resume: auto}"
    dt_background log timeout 120 "$DT_BUILDDIR/disttrain" train gpu.yaml
    local pid=$! rc=0
    dt_wait_for 60 dt_lines 1 "^step 2/" log
    kill -TERM "$pid" # timeout passes it on
    wait "$pid" || rc=$?
    ((rc == 75))
    grep -q "stopped by a signal after step .*; the checkpoint is saved" log
    [[ -e gpu.out/checkpoints/latest/model.safetensors ]]
}

PAIRS="data: {train: pairs.jsonl, eval: held-out.jsonl, max_length: 32, pad_to_multiple_of: 1}"

# like_cpu TOLERANCE LINE...: runs on pairs give the curve of the CPU.
like_cpu() {
    config gpu cuda "$PAIRS" "${@:2}"
    config cpu cpu "$PAIRS" "${@:2}"
    rm -rf ./*.out .disttrain-cache
    run -0 train gpu
    [[ $output == *"on "*" GiB, sm_"* ]]
    rm -rf .disttrain-cache
    run -0 train cpu
    run -0 same_curve gpu cpu "$1"
}

@test "a reward model learns from pairs as on the CPU" {
    local model="model: {n_positions: 32, n_embd: 16, n_layer: 2, n_head: 2}"
    like_cpu 1e-4 "algorithm: rm" "$model"
    like_cpu 1e-4 "algorithm: rm" "$model" "rm: {center_rewards_coefficient: 0.01}" \
        "training: {train_batch_size: 4, max_steps: 4, micro_batch_tokens: 70}"
    like_cpu 3e-2 "algorithm: rm" "$model" "precision: {compute: bf16}"
}

@test "a policy learns from pairs as on the CPU, wherever its reference is" {
    local short="training: {train_batch_size: 4, max_steps: 4}"
    like_cpu 1e-4 "algorithm: dpo" "dpo: {beta: 0.5}" "$short"
    like_cpu 1e-4 "algorithm: dpo" \
        "dpo: {loss: [ipo, sft], reference: {mode: precompute}}"
    like_cpu 1e-4 "algorithm: dpo" \
        "dpo: {use_weighting: true, sync_ref: {enabled: true, steps: 2}}" \
        "logging: {steps: 1, logits: true}"
    like_cpu 3e-2 "algorithm: dpo" "precision: {compute: bf16}" "$short"
}

# Rows of one length, so that their passes are recorded once and run again, with
# 10 and with 140 picked tokens in turn.
@test "recorded passes have the bits of others, however many tokens are picked" {
    local family graphs device
    local -A model=(
        [gpt2]="{n_positions: 256, n_embd: 16, n_layer: 1, n_head: 2}"
        [llama]="{config_path: llama, init: random, tokenizer: byte}")
    mkdir -p llama
    cat >llama/config.json <<END
{"model_type": "llama", "vocab_size": 257, "hidden_size": 16,
 "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
 "num_key_value_heads": 2, "max_position_embeddings": 256,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": true}
END
    awk 'BEGIN {
        for (i = 0; i < 8; i++) {
            learned = i % 2 ? 5 : 70
            text = sprintf("%0110d", 7 ^ i)
            prompt = substr(text, 1, 110 - learned)
            side = substr(text, 111 - learned)
            printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", ", prompt, side
            gsub("[0-9]", "x", side)
            printf "\"rejected\": \"%s\"}\n", side
        }
    }' >even.jsonl
    for family in gpt2 llama; do
        for graphs in cpu 0 1; do
            device=cuda
            [[ $graphs == cpu ]] && device=cpu
            config $family$graphs $device "algorithm: dpo" \
                "run: {name: x, output_dir: $family$graphs.out, device: $device, deterministic: true}" \
                "model: ${model[$family]}" \
                "data: {train: even.jsonl, max_length: 128, shuffle: false}" \
                "training: {per_device_batch_size: 1, max_steps: 6}"
            DISTTRAIN_CUDA_GRAPHS=$graphs run -0 train $family$graphs
        done
        run -0 same_curve ${family}0 ${family}1 0
        run -0 same_curve ${family}0 ${family}cpu 1e-3
    done
}

# Those of reward models, too, with 5 pairs and with 70 in a micro-batch.
@test "recorded passes have the bits of others, however many pairs there are" {
    local graphs device
    awk 'BEGIN {
        for (i = 0; i < 300; i++) {
            long = i % 150 < 5 || i % 150 >= 145
            text = sprintf("%0*d", long ? 110 : 6, i % 10)
            printf "{\"prompt\": \"\", \"chosen\": \"x%s\", ", text
            printf "\"rejected\": \"%s!\"}\n", text
        }
    }' >even.jsonl
    for graphs in cpu 0 1; do
        device=cuda
        [[ $graphs == cpu ]] && device=cpu
        config rm$graphs $device "algorithm: rm" \
            "run: {name: x, output_dir: rm$graphs.out, device: $device, deterministic: true}" \
            "model: {n_positions: 128, n_embd: 16, n_layer: 1, n_head: 2}" \
            "data: {train: even.jsonl, max_length: 128, shuffle: false}" \
            "training: {train_batch_size: 75, micro_batch_tokens: 1152, max_steps: 4}"
        DISTTRAIN_CUDA_GRAPHS=$graphs run -0 train rm$graphs
    done
    run -0 same_curve rm0 rm1 0
    run -0 same_curve rm0 rmcpu 1e-4
}

@test "a policy whose reference follows it resumes to the same bits" {
    local run="device: cuda, deterministic: true"
    local same=("$PAIRS" "algorithm: dpo" "precision: {compute: bf16}"
        "training: {train_batch_size: 4, max_steps: 4, resume: auto}"
        "dpo: {sync_ref: {enabled: true, steps: 2, alpha: 0.3}}")
    config one cuda "run: {name: one, output_dir: one.out, $run}" "${same[@]}"
    config two cuda "run: {name: two, output_dir: two.out, $run}" \
        "${same[@]}" "checkpoint: {steps: 2}"
    run -0 train one
    DISTTRAIN_FAULT=train.step:step=4:kill run train two
    [[ $status == 137 ]] || skip "this disttrain obeys no DISTTRAIN_FAULT"
    run -0 train two
    cmp one.out/checkpoints/latest/model.safetensors \
        two.out/checkpoints/latest/model.safetensors
    cmp one.out/checkpoints/latest/optim-rank-00000-of-00001.safetensors \
        two.out/checkpoints/latest/optim-rank-00000-of-00001.safetensors
}
