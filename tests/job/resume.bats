#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# resume.bats - runs without Slurm: the same bits again, whatever is asked for

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-resume.XXXXXX)
    export WORK
    cd "$WORK" || return
    mkdir model
    cat >model/config.json <<END
{"model_type": "gpt2", "vocab_size": 257, "n_positions": 48, "n_embd": 16,
 "n_layer": 2, "n_head": 2, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
 "resid_pdrop": 0.1}
END
    examples 48 >train.jsonl
    examples 5 >eval.jsonl
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    export OMP_NUM_THREADS=1
}

# examples COUNT: lines of prompt and completion, of 7 to 40 tokens.
examples() {
    awk -v n="$1" 'BEGIN {
        for (i = 0; i < n; i++) {
            text = substr("abcdefghijklmnopqrstuvwxyzabcdefgh", 1,
                          1 + i * 11 % 34)
            printf "{\"prompt\": \"%d:\", \"completion\": \" %s\"}\n",
                   i % 7, text
        }
    }'
}

# config NAME [LINE]...: NAME.yaml writes to NAME.out. A LINE replaces that of
# its section.
config() {
    local name=$1 line
    local -A lines=(
        [model]="{config_path: model, init: random}"
        [data]="{train: train.jsonl, max_length: 48}"
        [training]="{train_batch_size: 4, max_steps: 3}"
        [optimizer]="{lr: 1.0e-3, weight_decay: 0.1}"
        [logging]="{steps: 1}"
    )
    shift
    for line; do
        lines[${line%%:*}]=${line#*: }
    done
    {
        echo "algorithm: sft"
        echo "run: {name: $name, output_dir: $name.out}"
        for line in "${!lines[@]}"; do
            echo "$line: ${lines[$line]}"
        done
    } >"$name.yaml"
}

# train RANKS NAME: as a world of one, or by mpirun.
train() {
    local launcher=()
    (($1 == 1)) || launcher=(mpirun --allow-run-as-root --oversubscribe -n "$1")
    timeout 120 "${launcher[@]}" "$DT_BUILDDIR/disttrain" train "$2.yaml"
}

need_mpirun() {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
}

# metrics NAME [FIRST]: what metrics.jsonl says of steps after FIRST, but for
# times.
metrics() {
    sed -E 's/, "(tokens_per_s|time)": [-+.e0-9]+//g' \
        "$1.out/logs/metrics.jsonl" |
        awk -F '[:,]' -v first="${2:-0}" '$2 > first'
}

# losses NAME [SPLIT]: one a line.
losses() {
    sed -n "s/.*\"split\": \"${2:-train}\".*\"loss\": \([-+.e0-9]*\).*/\1/p" \
        "$1.out/logs/metrics.jsonl"
}

# same_curve A B [BOUND]: losses that differ by rounding.
same_curve() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="${3:-3e-6}" '
        { d = $1 / $2 - 1; if (d < 0) d = -d; if (d > max) max = d }
        END { print "largest relative difference", max
              exit !(NR > 1 && NF == 2 && max < bound) }'
}

# resumes RANKS STEPS COUNT LINE...: a run of STEPS steps, then the rest of it
# from the checkpoints of COUNT random ones.
resumes() {
    local ranks=$1 steps=$2 count=$3 step file
    shift 3
    rm -rf whole.out
    config whole "$@" "checkpoint: {steps: 1}"
    train "$ranks" whole
    for step in $(shuf -i "1-$((steps - 1))" -n "$count"); do
        echo "from step $step"
        config rest "$@" "checkpoint: {strategy: no}"
        echo "training.resume: whole.out/checkpoints/checkpoint-$step" \
            >>rest.yaml
        train "$ranks" rest
        diff <(metrics whole "$step") <(metrics rest)
        for file in model.safetensors trainer_state.json \
            optim-rank-00000-of-00001.safetensors; do
            cmp {whole,rest}.out/checkpoints/latest/"$file"
        done
        rm -r rest.out
    done
}

# What a run can have beside its precision.
everything=(
    "data: {train: train.jsonl, eval: eval.jsonl, max_length: 48,
  packing: bfd, num_workers: 3}"
    "training: {per_device_batch_size: 2, gradient_accumulation_steps: 3,
  max_steps: 24, label_smoothing: 0.1, eval_strategy: steps, eval_steps: 4}"
    "scheduler: {name: cosine, warmup_steps: 3}"
    "logging: {steps: 3}"
)

@test "resume at any step is bit-identical: fp32" {
    resumes 1 24 10 "${everything[@]}"
}

@test "resume at any step is bit-identical: bf16" {
    resumes 1 24 10 "${everything[@]}" "precision: {compute: bf16}"
}

@test "resume at any step is bit-identical: fp16 with overflows" {
    resumes 1 24 10 "${everything[@]}" "precision: {compute: fp16,
  initial_scale_power: 30, loss_scale_window: 4, hysteresis: 2}" &>log
    cat log
    grep -q 'step 1 skipped: the gradient norm is not finite' log
    grep -q 'step 2[0-9] skipped: the gradient norm is not finite' log
    [[ $(metrics whole | tail -n 2) =~ '"grad_norm": '[0-9] ]]
}

@test "resume at any step is bit-identical: two ranks" {
    need_mpirun
    resumes 2 24 3 "${everything[@]}" "precision: {compute: bf16}"
}
