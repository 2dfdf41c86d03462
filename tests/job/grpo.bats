#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# grpo.bats - runs that sample completions, without Slurm: ranks that are lost,
# and runs that resume

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-grpo.XXXXXX)
    export WORK
    cd "$WORK" || return
    awk 'BEGIN { for (i = 0; i < 12; i++)
        printf "{\"prompt\": \"%d:\", \"answer\": \"%d\"}\n", i, i }' \
        >prompts.jsonl
    config whole
    config cut
    command -v mpirun >/dev/null || return 0
    train whole
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    rm -rf cut.out
}

# config NAME: writes NAME.yaml, whose output goes to NAME.out. A generation is
# used twice.
config() {
    cat >"$1.yaml" <<END
algorithm: grpo
run: {name: $1, output_dir: $1.out}
model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: prompts.jsonl, max_length: 16, max_prompt_length: 4}
rollout: {max_completion_length: 8}
grpo: {num_generations: 4, num_iterations: 2}
reward: {functions: [{type: regex, pattern: "(?s)[ -~].*"}]}
training: {train_batch_size: 16, max_steps: 6, resume: auto}
checkpoint: {steps: 1}
optimizer: {lr: 1.0e-2}
logging: {steps: 1}
END
}

# train NAME: with two ranks.
train() {
    OMP_NUM_THREADS=1 timeout 120 mpirun --allow-run-as-root --oversubscribe \
        -n 2 "$DT_BUILDDIR/disttrain" train "$1.yaml"
}

# A rank is killed at a point of a step; the run then resumes with the bits of
# one that was not cut.
killed_at() {
    DISTTRAIN_FAULT=$1 run train cut
    [ "$status" -ne 0 ]
    run -0 train cut
    cmp whole.out/checkpoints/latest/model.safetensors \
        cut.out/checkpoints/latest/model.safetensors
}

@test "a rank that is killed in a rollout costs no bit" {
    killed_at rollout:rank=1:step=3:kill
}

@test "a rank that is killed while rewards are computed costs no bit" {
    killed_at scoring:rank=0:step=3:kill
}

@test "a rank that is killed within a generation costs no bit" {
    killed_at train.step:rank=1:step=4:kill
}
