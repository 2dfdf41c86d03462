#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# cuda_sampled.bats - runs that sample completions on a GPU: a real one with
# $DT_CUDA_MODULE, otherwise that of tests/simt, which runs the module's kernels
# on the CPU

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-cuda-sampled.XXXXXX)
    export WORK
    cd "$WORK" || return
    awk 'BEGIN { for (i = 0; i < 12; i++) {
        printf "{\"prompt\": \"%d:\"}\n", i >"prompts.jsonl"
        printf "{\"prompt\": \"%d:\", \"chosen\": \"a%d\", \"rejected\": \"B\"}\n",
            i, i >"pairs.jsonl" } }'
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    export DISTTRAIN_CUDA_MODULE=${DT_CUDA_MODULE:-$DT_BUILDDIR/tests/simt/disttrain-cuda.so}
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    cd "$WORK" || return
    rm -rf one.out two.out gpu.out cpu.out
    export OMP_NUM_THREADS=1
}

SMALL="model: {n_positions: 32, n_embd: 16, n_layer: 2, n_head: 2}"

# config NAME DEVICE ALGORITHM [LINE]...: writes NAME.yaml, whose output goes to
# NAME.out; the model is SMALL's.
config() {
    cat >"$1.yaml" <<END
algorithm: $3
run: {name: $1, output_dir: $1.out, device: $2, deterministic: true}
$SMALL
precision.compute: fp32
checkpoint.steps: 1
logging: {steps: 1}
optimizer: {lr: 1.0e-2, weight_decay: 0}
scheduler.name: constant
END
    printf '%s\n' "${@:4}" >>"$1.yaml"
}

train() {
    timeout 120 "$DT_BUILDDIR/disttrain" train "$1.yaml"
}

# Each generation is used in four optimizer steps.
SAMPLED=(
    "data: {train: prompts.jsonl, max_length: 16, max_prompt_length: 4}"
    "rollout: {max_completion_length: 8, temperature: 1, slots: 6}"
)
GRPO=(
    "${SAMPLED[@]}"
    "training: {train_batch_size: 8, max_steps: 6, resume: auto}"
    "grpo: {num_generations: 4, steps_per_generation: 2, num_iterations: 2,
        beta: 0.1, entropy_coef: 0.01, top_entropy_quantile: 0.5}"
    'reward: {functions: [{type: regex, pattern: "(?s)[ -~].*"}]}'
)
PPO=(
    "${SAMPLED[@]}"
    "training: {train_batch_size: 16, max_steps: 6, resume: auto}"
    "ppo: {epochs: 2, num_mini_batches: 2, kl_coef: 0.1, ent_coef: 0.01}"
    "reward: {functions: [{type: model, name: rm, path: rm.out}]}"
)

# make_rm: a reward model, made on the CPU, unless it is there.
make_rm() {
    [[ -e rm.out ]] && return
    config rm cpu rm "data: {train: pairs.jsonl, max_length: 16}" \
        "training: {train_batch_size: 4, max_steps: 2}"
    train rm
}

numbers() {
    grep -oE '"(loss|grad_norm|reward|kl|entropy|objective/[a-z_]*|loss/[a-z_]*)": ?[-0-9.e]+' \
        "$1.out/logs/metrics.jsonl"
}

# same_curve A B TOLERANCE: the largest difference between the numbers of two
# runs, relative or below 1, is within TOLERANCE.
same_curve() {
    paste -d' ' <(numbers "$1") <(numbers "$2") | awk -v most="$3" '
        NF != 4 || $1 != $3 { print "other lines: " $0; bad = 1 }
        {
            off = ($2 - $4) / ($2 > 1 ? $2 : $2 < -1 ? -$2 : 1)
            off = off < 0 ? -off : off
            if (off > worst) { worst = off; where = $0 }
        }
        END {
            print NR " numbers, largest difference " worst " of " where
            exit bad || NR < 15 || worst > most
        }'
}

# like_cpu ALGORITHM LINE...: a run on the GPU has the numbers of the CPU.
like_cpu() {
    config gpu cuda "$@"
    config cpu cpu "$@"
    run -0 train gpu
    [[ $output == *"on "*" GiB, sm_"* ]]
    run -0 train cpu
    run -0 same_curve gpu cpu 2e-3
    echo "$output"
}

# resumes ALGORITHM LINE...: a run that is killed within a generation resumes to
# the bits of one that is not.
resumes() {
    rm -rf one.out two.out
    config one cuda "$@"
    config two cuda "$@"
    run -0 train one
    DISTTRAIN_FAULT=train.step:step=3:kill run train two
    [[ $status == 137 ]] || skip "this disttrain obeys no DISTTRAIN_FAULT"
    run -0 train two
    [[ $output == *"checkpoint-2"* ]]
    cmp one.out/checkpoints/latest/model.safetensors \
        two.out/checkpoints/latest/model.safetensors
}

@test "completions are sampled and learned from as on the CPU: GRPO" {
    like_cpu grpo "${GRPO[@]}"
}

@test "so are those of PPO, with a critic and a reward model on the GPU" {
    make_rm
    like_cpu ppo "${PPO[@]}"
}

@test "a critic that is a head of the policy, too" {
    make_rm
    like_cpu ppo "${PPO[@]}" "ppo.critic.share_backbone: true"
}

# recorded ALGORITHM LINE...: where the number of tokens that are learned from
# is above 64 in one micro-batch and below in another of its shape, recorded
# passes have the bits of others, and the numbers of the CPU.
recorded() {
    local SMALL="model: {n_positions: 128, n_embd: 16, n_layer: 1, n_head: 2}"
    local graphs keys=("$@"
        "data: {train: prompts.jsonl, max_length: 80, max_prompt_length: 4}"
        "rollout: {max_completion_length: 70, temperature: 1, slots: 6,
            stop_ids: [65, 66, 67, 68]}")
    rm -rf cpu.out gpu0.out gpu1.out
    config cpu cpu "${keys[@]}"
    run -0 train cpu
    for graphs in 0 1; do
        config gpu$graphs cuda "${keys[@]}"
        DISTTRAIN_CUDA_GRAPHS=$graphs run -0 train gpu$graphs
        run -0 same_curve gpu$graphs cpu 2e-3
    done
    run -0 same_curve gpu0 gpu1 0
}

@test "recorded passes have the bits of others, however long completions are" {
    recorded grpo \
        "training: {per_device_batch_size: 1, train_batch_size: 4, max_steps: 3}" \
        "grpo: {num_generations: 4, beta: 0.1}" \
        'reward: {functions: [{type: regex, pattern: "(?s)[ -~].*"}]}'
    make_rm
    recorded ppo \
        "training: {per_device_batch_size: 1, train_batch_size: 4, max_steps: 3}" \
        "ppo: {epochs: 2, kl_coef: 0.1}" \
        "reward: {functions: [{type: model, name: rm, path: rm.out}]}"
}

@test "a run that was killed within a generation resumes to the same bits" {
    resumes grpo "${GRPO[@]}"
    make_rm
    resumes ppo "${PPO[@]}"
    cmp one.out/checkpoints/latest/critic/model.safetensors \
        two.out/checkpoints/latest/critic/model.safetensors
}

@test "completions that end early have their score behind the last token" {
    make_rm
    like_cpu ppo "${PPO[@]}" "ppo.score_at: trl_next" \
        "rollout.stop_ids: [65, 66, 67, 68, 69, 70, 97, 98, 99, 100, 101, 102]"
}
