#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# vision_rl.bats - grpo and ppo on prompts with images, without Slurm: the same
# bits however ranks share them, and when they resume

bats_require_minimum_version 1.5.0

load helpers
load vision

REWARD='reward: {functions: [{name: word, type: regex, pattern: "(?s).*[a-z]{2}"}]}'
GRPO="training: {train_batch_size: 16, max_steps: 5}"
PPO="training: {train_batch_size: 8, max_steps: 5}"

# prompts MODEL: its rows without their last answers.
prompts() {
    sed 's/\(.*\),{"role":"assistant",.*\(\],"images":\[[^]]*\]}\)$/\1\2/' \
        "$1/train.jsonl" >"$1/prompts.jsonl"
    grep '"images":\[\]' "$1/prompts.jsonl" >"$1/text.jsonl"
    # rank 0 of two has prompts without images, rank 1 the others
    grep -v '"images":\[\]' "$1/prompts.jsonl" | awk 'NR == FNR {
        text[n++] = $0; next } { print text[FNR % n]; print }' \
        "$1/text.jsonl" - >"$1/apart.jsonl"
}

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-vision-rl.XXXXXX)
    export WORK
    cd "$WORK" || return
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    prompts llava
    prompts qwen2_5_vl
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    rm -rf ./*.out
    export OMP_NUM_THREADS=1
}

# rl MODEL NAME [LINE]...: a configuration of algorithm grpo; a LINE replaces that
# of its section.
rl() {
    ALGORITHM=${ALGORITHM:-grpo} config "$1" "$2" "data: {train: $1/prompts.jsonl, image_root: $1,
  max_length: 140, max_prompt_length: 128}" "$REWARD" \
        "rollout: {max_completion_length: 12, log_every: 1}" "$GRPO" "${@:3}"
}

# run_of RANKS MODEL NAME [LINE]...: a run of it.
run_of() {
    rl "${@:2}"
    quietly train "$1" "$3"
}

# samples NAME: all completions of a run, with their rewards.
samples() {
    cat "$1".out/logs/samples-*.jsonl
}

# same_begin A B: the same first completions, and but for rounding the same norm
# of their gradient. An update has rounded otherwise, so later ones may differ.
same_begin() {
    cmp {"$1","$2"}.out/logs/samples-1.jsonl
    sed -sn '1s/.*"grad_norm": \([^,]*\).*/\1/p' {"$1","$2"}.out/logs/metrics.jsonl |
        awk '{ norm[NR] = $1 } END { d = norm[1] / norm[2] - 1; print norm[1], d
              exit !(NR == 2 && d * d < 1e-10) }'
}

@test "ranks and strategies change no bit of completions, nor of weights" {
    need_mpirun
    local model strategy
    for model in llava qwen2_5_vl; do
        for strategy in ddp zero1 zero2 zero3; do
            run_of 2 $model $strategy "distributed.strategy: $strategy"
            same_end ddp $strategy
            diff <(samples ddp) <(samples $strategy)
        done
        run_of 1 $model alone
        same_begin ddp alone
        rm -rf ./*.out
    done
}

@test "a critic has a tower, too, or is a head of the model" {
    need_mpirun
    local strategy share ALGORITHM=ppo
    for share in false true; do
        for strategy in ddp zero3; do
            run_of 2 qwen2_5_vl $strategy "$PPO" \
                "ppo: {critic: {share_backbone: $share}, num_mini_batches: 2}" \
                "distributed.strategy: $strategy"
            same_end ddp $strategy
        done
        rm -rf ./*.out
    done
    run_of 1 llava value "$PPO" "model: {path: llava/model,
  value_path: llava/model}"
    rl llava other "$PPO" "model: {path: llava/model,
  value_path: qwen2_5_vl/model}"
    run -78 train 1 other
    [[ $output == *"model.value_path: $WORK/qwen2_5_vl/model: its image processor makes other pictures than the model's"* ]]
}

@test "a rank whose prompts have no image waits for nobody" {
    need_mpirun
    local strategy data="data: {train: llava/apart.jsonl, image_root: llava,
  max_length: 140, max_prompt_length: 128, shuffle: false}"
    for strategy in ddp zero3; do
        run_of 2 llava $strategy "$data" "distributed.strategy: $strategy"
        same_end ddp $strategy
    done
    run_of 1 llava alone "$data"
    same_begin ddp alone
    # no prompt of any rank has one
    run_of 2 llava text "${data/apart/text}" "distributed.strategy: zero3"
}

@test "all ways of sampling know images, on any number of ranks" {
    need_mpirun
    local ranks lines line
    lines=("grpo: {dynamic_sampling: {enabled: true}}"
        "rollout: {max_completion_length: 12, log_every: 1, overlap: 1}"
        "grpo: {beta: 0.1, num_iterations: 2, steps_per_generation: 2}"
        "adapter: {type: lora, r: 4, target_modules: [q_proj, v_proj]}")
    for line in "${lines[@]}"; do
        for ranks in 1 2; do
            run_of $ranks qwen2_5_vl r$ranks "$line" "data: {
  train: qwen2_5_vl/prompts.jsonl, image_root: qwen2_5_vl, max_length: 140,
  max_prompt_length: 128, validation_split: 0.25}" \
                "training: {train_batch_size: 16, max_steps: 5,
  eval_strategy: steps, eval_steps: 4}"
        done
        same_begin r1 r2
        rm -rf ./*.out
    done
}

# pairs MODEL: its prompts with two answers.
pairs() {
    sed 's/{"messages":\(.*\),"images":/{"prompt":\1,"chosen":[{"role":"assistant","content":"It is red."}],"rejected":[{"role":"assistant","content":"No."}],"images":/' \
        "$1/prompts.jsonl" >"$1/pairs.jsonl"
}

# rewards NAME FUNCTION: what it gives to the completions of the first step.
rewards() {
    sed -n "s/.*\"$2\":\([-+.e0-9]*\)[,}].*/\1/p" "$1.out/logs/samples-1.jsonl"
}

@test "two reward models see prompt, image and completion" {
    need_mpirun
    local ranks kind functions="reward: {functions: [
  {name: helpful, type: model, path: helpful.out}, {name: harmless, type: model,
  path: harmless.out, weight: -0.5}]}"
    pairs qwen2_5_vl
    for kind in helpful harmless; do
        ALGORITHM="rm" config qwen2_5_vl $kind "data: {
  train: qwen2_5_vl/pairs.jsonl, image_root: qwen2_5_vl, max_length: 140}" \
            "training: {train_batch_size: 8, max_steps: ${#kind}}"
        quietly train 1 $kind
    done
    for ranks in 1 2; do
        run_of $ranks qwen2_5_vl r$ranks "$functions"
    done
    same_begin r1 r2
    # they are the scores of a program that reads the same images from files
    sed 's/"completion":\("\([^"\\]\|\\.\)*"\)/"completion":[{"role":"assistant","content":\1}]/' \
        r1.out/logs/samples-1.jsonl >scored.jsonl
    "$DT_BUILDDIR/disttrain" generate --model helpful.out --score scored.jsonl \
        --image-root qwen2_5_vl >scores
    paste scores <(rewards r1 helpful) <(rewards r1 harmless) | awk '
        { d = $1 - $2; print; if (d * d > 1e-10 || $2 == $3) exit 1 }
        END { exit NR != 8 }'
    # one that sees only text says so
    config qwen2_5_vl blind "model: {n_positions: 256, n_embd: 24, n_layer: 1,
  n_head: 2}" "data: {train: blind.jsonl, max_length: 16}"
    echo '{"prompt": "a", "chosen": "b", "rejected": "c"}' >blind.jsonl
    sed -i 's/^algorithm: .*/algorithm: rm/' blind.yaml
    quietly train 1 blind
    rl qwen2_5_vl none "reward: {functions: [{name: r, type: model, path: blind.out}]}"
    run train 1 none
    echo "$output"
    ((status == 65))
    [[ $output == *"reward r: "*"prompt "*" has images, and the model sees only text: take one with a vision tower"* ]]
}

# killed FAULT [LINE]...: ends a run within a generation, and lets it resume.
killed() {
    local fault=$1 lines=("grpo: {steps_per_generation: 4, num_iterations: 2}"
        "checkpoint: {steps: 1}" "distributed.strategy: zero3")
    shift
    [[ -d whole.out ]] || run_of 2 qwen2_5_vl whole "${lines[@]}" "$@"
    rl qwen2_5_vl part "${lines[@]}" "$@" "training: {train_batch_size: 16, max_steps: 5,
  resume: auto}"
    DISTTRAIN_FAULT=$fault train 2 part &>part.log && return 1
    quietly train 2 part
    diff <(losses whole) <(losses part)
    cmp {whole,part}.out/checkpoints/checkpoint-5/model.safetensors
    rm -rf part.out
}

@test "a run that is killed in a generation resumes to the same bits" {
    need_mpirun
    need_faults
    killed train.step:rank=1:step=4:kill
    [[ $(<quiet.log) == *"resuming from "*"/checkpoint-"* ]]
    killed rollout:rank=0:kill
}

@test "an optimizer on a drive has the same bits" {
    need_drive
    run_of 1 llava here
    run_of 1 llava there "distributed: {
  offload_optimizer: {device: nvme, path: $WORK/nvme, tile_size: 65536}}"
    same_end here there
}

@test "bytes are those of a plan" {
    need_mpirun
    local lines line
    for lines in "distributed.strategy: ddp" "distributed.strategy: zero3"; do
        run_of 2 qwen2_5_vl shared "$lines"
        line=$(planned shared --ntasks-per-node 2)
        echo "$lines: $line"
        grep "memory of a rank: $line of " quiet.log
        rm -r shared.out
    done
}

@test "a reward model of another family takes the bytes of its plan" {
    local models line
    for models in "qwen2_5_vl llava" "llava qwen2_5_vl"; do
        run_of 1 "${models% *}" other "reward: {functions: [{name: r,
  type: model, path: ${models#* }/reward}]}"
        line=$(planned other)
        echo "$models: $line"
        grep "memory of a rank: rewards .*, weights" quiet.log
        grep "memory of a rank: $line of " quiet.log
        grep "more memory than was planned" quiet.log && return 1
        rm -r other.out
    done
}

@test "the log of samples names images, and no pixels" {
    run_of 1 llava log "data: {train: llava/prompts.jsonl, image_root: llava,
  max_length: 140, max_prompt_length: 128, shuffle: false}"
    run head -n 1 log.out/logs/samples-1.jsonl
    echo "$output"
    [[ $output == *'"images":[{"sha256":"'*'","path":"p0.png"},{"sha256":"'*'","path":"p1.png"}],"completion":'* ]]
    [[ $output == *'"columns":{}'* ]]
    grep '"images":\[\],\|"prompt":.*"images":null' log.out/logs/samples-1.jsonl &&
        return 1
    grep 'a micro-batch has at most [1-9] pictures and [0-9]* patches' quiet.log
}

@test "an image of a prompt that is damaged is named by its line" {
    head -c -30 llava/p0.png >llava/cut.png
    echo '{"images":["cut.png"],"prompt":[{"role":"user","content":"Look."}]}' \
        >llava/cut.jsonl
    rl llava cut "data: {train: llava/cut.jsonl, image_root: llava,
  max_length: 140, max_prompt_length: 128}"
    run -65 train 1 cut
    echo "$output"
    [[ $output == *"llava/cut.jsonl:1: image 1: a damaged PNG file: it is cut short"* ]]
}

@test "the module for GPUs samples and trains as the CPU does" {
    local device
    export DISTTRAIN_CUDA_MODULE=${DT_CUDA_MODULE:-$DT_BUILDDIR/tests/simt/disttrain-cuda.so}
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    for device in cpu cuda; do
        rl llava $device "precision: {compute: fp32}" \
            "training: {train_batch_size: 16, max_steps: 1}"
        sed -i "s/device: cpu/device: $device, deterministic: true/" $device.yaml
        quietly train 1 $device
    done
    same_begin cpu cuda
}
