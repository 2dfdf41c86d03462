#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# preference.bats - reward models and policies on two nodes, from pairs to scores

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-preference.XXXXXX)
    export WORK OMP_NUM_THREADS=1
    make_pairs 0 600 >"$WORK/train.jsonl"
    make_pairs 600 50 >"$WORK/eval.jsonl"
    dt_cluster_up --nodes 2 --cpus 2
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
}

# make_pairs FIRST COUNT: the preferred word has more vowels.
make_pairs() {
    awk -v first="$1" -v count="$2" '
    function word(vowels, seed,    i, text) {
        for (i = 0; i < 6; i++)
            if ((i * 5 + seed) % 6 < vowels)
                text = text substr("aeiou", 1 + (seed + i) % 5, 1)
            else
                text = text substr("bcdfg", 1 + (seed * 3 + i) % 5, 1)
        return text
    }
    BEGIN {
        for (i = first; i < first + count; i++) {
            more = 1 + i * 7 % 6
            printf "{\"prompt\": \"w\", \"chosen\": \"%s\", " \
                "\"rejected\": \"%s\"}\n", word(more, i % 31),
                word(i % more, i % 29)
        }
    }'
}

# config NAME ALGORITHM [LINE]...: writes NAME.yaml, for NAME.out.
config() {
    cat >"$1.yaml" <<END
algorithm: $2
run: {name: $1, output_dir: $1.out}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: train.jsonl, eval: eval.jsonl, max_length: 32}
training: {train_batch_size: 16, max_steps: 60, eval_strategy: steps,
           eval_steps: 60, resume: auto}
optimizer: {lr: 3.0e-3}
scheduler: {name: constant}
checkpoint: {steps: 10}
logging: {steps: 1}
END
    printf '%s\n' "${@:3}" >>"$1.yaml"
}

# train NAME: on two nodes.
train() {
    dt_srun -N2 --ntasks-per-node=1 --disttrain="$1.yaml"
}

# metric SPLIT KEY NAME: the values of a run, one per line.
metric() {
    sed -n "s,.*\"split\": \"$1\".*\"$2\": \([-+.e0-9]*\).*,\1,p" \
        "$3.out/logs/metrics.jsonl"
}

# alike KEY NAME NAME: both runs begin with the same values up to rounding, which
# later steps enlarge.
alike() {
    paste <(metric train "$1" "$2" | head -n 15) \
        <(metric train "$1" "$3" | head -n 15) | awk -v key="$1" '
        { d = $1 - $2; if (d * d > 1e-6 * ($1 * $1 + 1)) {
            print key, "of step", NR ":", $1, $2; bad = 1 } }
        END { exit bad || NR != 15 }'
}

@test "a reward model of two nodes is that of one rank" {
    config rm2 rm
    config rm1 rm
    run train rm2
    echo "$output"
    ((status == 0))
    "$DT_BUILDDIR/disttrain" train rm1.yaml
    alike loss rm1 rm2
    alike accuracy rm1 rm2
    alike margin rm1 rm2
    metric eval accuracy rm2 | awk '{ exit !($1 >= 0.95) }'
}

@test "a reward model gives files the scores that it had in training" {
    local side
    for side in chosen rejected; do
        sed "s/\"$side\"/\"completion\"/" eval.jsonl >"$side.jsonl"
        "$DT_BUILDDIR/disttrain" generate --model rm2.out \
            --score "$side.jsonl" >"$side.scores"
    done
    paste chosen.scores rejected.scores | awk -v margin="$(metric eval margin rm2)" '
        { sum += $1 - $2 }
        END { print sum / NR, margin
              d = sum / NR - margin; exit NR != 50 || d * d > 1e-8 }'
    TMPDIR=/nowhere run -73 "$DT_BUILDDIR/disttrain" generate --model rm2.out \
        --score chosen.jsonl
    [[ $output == *"/nowhere/disttrain-score-"*": cannot create: No such file"* ]]
    run -65 "$DT_BUILDDIR/disttrain" generate --model rm2.out --prompt a
    [[ $output == *"a reward model, which cannot continue a text: --score"* ]]
}

@test "a reward model stays one when it is exported" {
    "$DT_BUILDDIR/disttrain" export rm2.out exported
    grep -q GPT2ForSequenceClassification exported/config.json
    cmp <("$DT_BUILDDIR/disttrain" generate --model exported \
        --score chosen.jsonl) chosen.scores
}

@test "a policy whose weights two nodes share is that of one rank" {
    config dpo2 dpo "distributed: {strategy: zero3}" "logging.logits: true"
    config dpo1 dpo
    run train dpo2
    echo "$output"
    ((status == 0))
    [[ $output == *"memory of a rank: reference "* ]]
    "$DT_BUILDDIR/disttrain" train dpo1.yaml
    alike loss dpo1 dpo2
    alike rewards/margins dpo1 dpo2
    metric eval rewards/accuracies dpo2 | awk '{ exit !($1 >= 0.95) }'
    metric eval rewards/margins dpo2 | awk '{ exit !($1 > 1) }'
    (($(metric train logits/chosen dpo2 | wc -l) == 60))
    (($(metric train logits/chosen dpo1 | wc -l) == 0))
}

@test "runs on pairs that are killed resume to the same bits" {
    dt_need_pmix
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
    local run
    for run in rm dpo; do
        local lines=()
        [[ $run == rm ]] || lines=("distributed: {strategy: zero3}")
        config "killed-$run" "$run" "${lines[@]}" "launch: {keeper: off}"
        DISTTRAIN_FAULT=train.step:rank=1:step=17:kill \
            run ! train "killed-$run"
        [[ $(readlink "killed-$run.out/checkpoints/latest") == checkpoint-10 ]]
        run train "killed-$run"
        echo "$output"
        ((status == 0))
        cmp {"killed-$run","${run}2"}.out/checkpoints/latest/model.safetensors
        cmp <(metric train loss "killed-$run") <(metric train loss "${run}2")
    done
}

@test "a reference of another shape is found before anything is queued" {
    config other dpo "model.reference_path: exported"
    run ! train other
    echo "$output"
    [[ $output == *"other.yaml:"*": model.reference_path: "* ]]
    run -78 "$DT_BUILDDIR/disttrain" check other.yaml
    [[ $output == *"its architectures is not that of the model"* ]]
}
