#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031
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
# used twice, and prompts that teach nothing are replaced.
config() {
    cat >"$1.yaml" <<END
algorithm: grpo
run: {name: $1, output_dir: $1.out}
model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: prompts.jsonl, eval: prompts.jsonl, max_length: 16,
  max_prompt_length: 4}
rollout: {max_completion_length: 8}
grpo:
  num_generations: 4
  num_iterations: 2
  dynamic_sampling: {enabled: true}
reward: {functions: [{type: regex, pattern: "(?s)[ -~].*"}]}
training: {train_batch_size: 16, max_steps: 6, resume: auto,
  eval_strategy: steps, eval_steps: 3}
checkpoint: {steps: 1}
optimizer: {lr: 1.0e-2}
logging: {steps: 1}
END
}

# train NAME [RANKS]: with two ranks, or so many.
train() {
    OMP_NUM_THREADS=1 timeout 120 mpirun --allow-run-as-root --oversubscribe \
        -n "${2:-2}" "$DT_BUILDDIR/disttrain" train "$1.yaml"
}

@test "without a reference the divergence from it is not known" {
    (($(grep -c '"kl": null' whole.out/logs/metrics.jsonl) == 6))
    run ! grep '"kl": [0-9]' whole.out/logs/metrics.jsonl
    config cut
    sed -i 's/^grpo:/&\n  beta: 0.1/; s/max_steps: 6/max_steps: 1/' cut.yaml
    run -0 train cut 1
    grep '"kl": [0-9]' cut.out/logs/metrics.jsonl
    config cut
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

@test "held-out prompts are evaluated every few steps, and at the end" {
    grep -c '"split": "eval", "completions": 12, "reward": [01]' \
        whole.out/logs/metrics.jsonl | grep -x 2
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

# digits KEY: all pairs of digits; with `completion` each has both as examples,
# with `answer` the larger one.
digits() {
    awk -v key="$1" '
    function line(a, b, digit) {
        printf "{\"prompt\": \"%d %d:\", \"%s\": \"%d\"}\n", a, b, key, digit
    }
    BEGIN {
        for (i = 0; i < 100; i++) {
            a = int(i / 10)
            b = i % 10
            if (a == b)
                continue
            if (key == "completion")
                line(a, b, a)
            line(a, b, key == "completion" || a < b ? b : a)
        }
    }' >"$1.jsonl"
}

@test "a model that is right half of the time learns to be right" {
    digits completion
    digits answer
    cat >sft.yaml <<'END'
algorithm: sft
run: {name: sft, output_dir: sft}
model: {n_positions: 16, n_embd: 64, n_layer: 1, n_head: 2}
data: {train: completion.jsonl, max_length: 8}
training: {train_batch_size: 60, max_steps: 300}
optimizer.lr: 5.0e-3
logging.steps: 100
END
    cat >right.yaml <<'END'
algorithm: grpo
run: {name: right, output_dir: right, overwrite: true}
model.path: sft
data: {train: answer.jsonl, max_length: 8, max_prompt_length: 4}
rollout.max_completion_length: 3
reward.functions: [{type: exact}]
training: {train_batch_size: 128, max_steps: 80}
optimizer.lr: 2.0e-3
logging.steps: 20
END
    OMP_NUM_THREADS=1 "$DT_BUILDDIR/disttrain" train sft.yaml
    local ranks before after first
    for ranks in 1 2; do
        run -0 train right "$ranks"
        echo "$output"
        [[ $output == *"model.path: $WORK/sft: its newest checkpoint is checkpoint-300"* ]]
        read -r before after < <(
            sed -n 's/.*reward \([0-9.]*\) -> \([0-9.]*\).*/\1 \2/p' <<<"$output")
        awk -v before="$before" -v after="$after" 'BEGIN {
            exit !(before > 0.35 && before < 0.6 && after >= 0.95) }'
        [[ $before == "${first:=$before}" ]] # completions do not depend on ranks
    done
}

# A reward program that tells everything it knows.
@test "no file of a run and no line of its output has a secret" {
    local name left
    cat >judge.sh <<'END'
read -r line
echo "config: $line, arguments: $*" >&2
echo "HF_TOKEN is $HF_TOKEN, and JUDGE is $JUDGE" >&2
echo '{"ready":true,"abi":1}'
read -r line
echo "{\"error\":\"JUDGE $JUDGE, $HF_TOKEN, $PGPASSWORD, $1, (pw=secret-5)\"}"
END
    echo "JUDGE=secret-0 of-a-file" >judge.secrets
    chmod 600 judge.secrets
    config secrets
    sed -i '/^reward/d; /^logging/d' secrets.yaml
    cat >>secrets.yaml <<'END'
logging: {steps: 1, report_to: all}
env: {PGPASSWORD: secret-1, X_PASS: secret-2, PLAIN: "http://me:secret-3@h"}
reward:
  functions:
    - {type: regex, pattern: "(?s)[ -~].*"}
    - {type: http, url: ["http://me:secret-4@127.0.0.1:1/?api_key=secret-5"],
       retries: 0, on_error: nan, max_failed: 1}
    - type: command
      name: judge
      command: [sh, judge.sh, --token, secret-6, --api-key=secret-7]
      config: {api_key: secret-8, nested: [{passwords: [secret-9, 5]}]}
      secrets_from: judge.secrets
      retries: 0
      on_error: nan
      max_failed: 1
END
    HF_TOKEN=secret-10-of-env PGPASSWORD=secret-1 run train secrets 1
    echo "$output"
    ((status == 0))
    [[ $output == *"judge: HF_TOKEN is (removed), and JUDGE is (removed)"* ]]
    [[ $output == *"reward http: http://(removed)@127.0.0.1:1/?api_key=(removed)"* ]]
    [[ $output != *secret-* ]]
    for name in trainer_state.json run.json events.jsonl status.json \
        report.html tfevents; do
        left=$(find secrets.out -name "*$name*" | wc -l)
        ((left > 0)) || { echo "no $name" && false; }
    done
    run ! grep -r secret- secrets.out
    # another password is no other run
    sed -i 's/secret-/other-/' secrets.yaml
    run -0 train secrets 1
    [[ $output != *"changed settings"* ]]
}

# TRL trains with the dropout of the model, unless it is told not to.
@test "a dropout that the model asks for and a default turns off is named" {
    mkdir -p asks
    cat >asks/config.json <<END
{"model_type": "gpt2", "n_positions": 32, "n_embd": 16, "n_layer": 1,
 "n_head": 2, "vocab_size": 257, "attn_pdrop": 0.1, "resid_pdrop": 0,
 "embd_pdrop": 0}
END
    config drops
    sed -i -e 's/^model:.*/model: {config_path: asks}/' \
        -e 's/max_steps: 6/max_steps: 1/' drops.yaml
    run -0 train drops 1
    [[ $output == *"dropout: none, though the model asks for 0.1 (model."* ]]
    echo 'model.disable_dropout: true' >>drops.yaml
    sed -i 's/drops.out/given.out/' drops.yaml
    run -0 train drops 1
    [[ $output != *"dropout: none"* ]]
}
