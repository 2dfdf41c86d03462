#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# chain.bats - fine-tuning, then preferences, then a model for other programs
#
# The last case needs a Python with transformers: python3, or
# $DT_REFERENCE_PYTHON.

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"
: "${DT_REFERENCE_PYTHON:=python3}"

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    export OMP_NUM_THREADS=1
}

# Is a number odd? Fine-tuning learns both answers, preferences the right one.
# questions FROM TO FORMAT EVEN... ODD...: a line for each number.
# shellcheck disable=SC2059 # the format is one
questions() {
    local i
    for ((i = $1; i < $2; i++)); do
        printf "$3\n" "$i?" "${@:4 + i % 2 * 2:2}"
    done
}

make_data() {
    questions 0 400 '{"prompt": "%s", "completion": " %s"}' yes no yes no
    questions 0 400 '{"prompt": "%s", "completion": " %s"}' no yes no yes
}

make_pairs() {
    questions "$1" "$2" '{"prompt": "%s", "chosen": " %s", "rejected": " %s"}' \
        no yes yes no
}

# config NAME ALGORITHM MODEL STEPS DATA [LINE]...
config() {
    cat >"$1.yaml" <<END
algorithm: $2
run: {name: $1, output_dir: $1.out}
model: {$3}
data: {train: $5.jsonl, max_length: 16}
training: {train_batch_size: 32, max_steps: $4}
scheduler: {name: constant}
checkpoint: {strategy: "no"}
END
    printf '%s\n' "${@:6}" >>"$1.yaml"
}

# chain: all of it, as a user would write it.
chain() {
    make_data >sft.jsonl
    make_pairs 0 300 >pairs.jsonl
    make_pairs 300 400 >held-out.jsonl
    config sft sft "n_positions: 16, n_embd: 64, n_layer: 2, n_head: 2" 120 sft \
        "optimizer: {lr: 3.0e-3}"
    config dpo dpo "path: sft.out/checkpoints/latest, tokenizer: byte" 100 \
        pairs "optimizer: {lr: 5.0e-4}" "data.eval: held-out.jsonl" \
        "dpo: {beta: 0.5, loss: [sigmoid, sft]}" \
        "training.eval_strategy: steps" "training.eval_steps: 100"
    "$DT_BUILDDIR/disttrain" train sft.yaml &&
        "$DT_BUILDDIR/disttrain" train dpo.yaml &&
        "$DT_BUILDDIR/disttrain" export dpo.out exported
}

# eval_metric NAME: of the held-out pairs.
eval_metric() {
    sed -n "s,.*\"split\": \"eval\".*\"$1\": \([-+.e0-9]*\).*,\1,p" \
        dpo.out/logs/metrics.jsonl
}

@test "preferences make one of two answers out of a fine-tuned model" {
    chain
    eval_metric rewards/accuracies
    eval_metric rewards/margins
    eval_metric rewards/chosen
    eval_metric rewards/accuracies | awk '{ exit !($1 >= 0.95) }'
    eval_metric rewards/margins | awk '{ exit !($1 > 2) }'
    # the right answer had half of the probability: beta log 2 is all it can gain
    eval_metric rewards/chosen | awk '{ exit !($1 > 0 && $1 < 0.5) }'
}

@test "what was exported gives the preferred answers" {
    local i
    for i in 312 333 358 391; do
        "$DT_BUILDDIR/disttrain" generate --model exported --prompt "$i?" \
            --temperature 0 --max-tokens 4 >answer
        cat answer
        if ((i % 2)); then
            grep -q "yes" answer
        else
            grep -q "no" answer
        fi
    done
}

@test "transformers loads what was exported, and finds the same logits" {
    echo "import transformers, torch" | "$DT_REFERENCE_PYTHON" - 2>/dev/null ||
        skip "$DT_REFERENCE_PYTHON has no transformers"
    local ids="51 52 49 63 32 121 101 115 256"
    # shellcheck disable=SC2086 # a list
    "$DT_BUILDDIR/tests/parity/logits_probe" exported $ids >exported.logits
    "$DT_REFERENCE_PYTHON" - compare "$ids" "$PWD/exported" \
        <"$DT_SRCDIR/tests/parity/peer.py"
}
