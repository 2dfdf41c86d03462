#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# resume.bats - runs without Slurm: resumed runs have the same bits

bats_require_minimum_version 1.5.0

load helpers

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
    examples 36 >all.jsonl
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    rm -rf ./*.out
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

# config NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out. A LINE
# replaces that of its section.
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

# train RANKS NAME: as a world of one, or with mpirun.
train() {
    local launcher=()
    (($1 == 1)) || launcher=(mpirun --allow-run-as-root --oversubscribe -n "$1")
    timeout 120 "${launcher[@]}" "$DT_BUILDDIR/disttrain" train "$2.yaml"
}

need_mpirun() {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
}

need_faults() {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

# metrics NAME [FIRST]: metrics.jsonl of the steps after FIRST, without times.
metrics() {
    local times='tokens_per_s|time|wall|mem|mem_peak|mfu|energy_j'
    times+='|tokens_per_j|[a-z_]*_s|rank_step_s/[a-z]*'
    sed -E "s#, \"($times)\": ([-+.e0-9]+|null)##g" \
        "$1.out/logs/metrics.jsonl" |
        awk -F '[:,]' -v first="${2:-0}" '$2 > first'
}

# losses NAME [SPLIT]: the losses, one per line.
losses() {
    sed -n "s/.*\"split\": \"${2:-train}\".*\"loss\": \([-+.e0-9]*\).*/\1/p" \
        "$1.out/logs/metrics.jsonl"
}

# same_curve A B [SPLIT]: losses differ at most by rounding.
same_curve() {
    paste <(losses "$1" "${3-}") <(losses "$2" "${3-}") | awk '
        { d = $2 ? $1 / $2 - 1 : 1; if (d < 0) d = -d; if (d > max) max = d }
        END { print "largest relative difference", max
              exit !(NR > 0 && max < 1e-6) }'
}

# resumes RANKS STEPS COUNT LINE...: runs STEPS steps, then resumes from the
# checkpoints of COUNT random steps.
resumes() {
    local ranks=$1 steps=$2 count=$3 step file
    shift 3
    config whole "$@" "checkpoint: {steps: 1}"
    train "$ranks" whole
    for step in $(shuf -i "1-$((steps - 1))" -n "$count"); do
        echo "from step $step"
        config rest "$@" "checkpoint: {steps: 1000000}"
        echo "training.resume: whole.out/checkpoints/checkpoint-$step" \
            >>rest.yaml
        train "$ranks" rest &>rest.log || { cat rest.log && return 1; }
        cat rest.log
        [[ $(<rest.log) != *"going on with other settings"* ]]
        diff <(metrics whole "$step") <(metrics rest)
        for file in whole.out/checkpoints/latest/*.safetensors \
            whole.out/checkpoints/latest/trainer_state.json; do
            cmp "$file" "rest${file#whole}"
        done
        rm -r rest.out
    done
}

# Features that a run can have besides its precision.
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

@test "resume at any step is bit-identical: zero3 on three ranks" {
    need_mpirun
    resumes 3 24 2 "${everything[@]/size: 2, gradient_accumulation_steps: 3/size: 2}" \
        "precision: {compute: bf16}" "distributed.strategy: zero3"
}

@test "eval_only: the held-out loss of a finished run, which is not changed" {
    local data="data: {train: train.jsonl, eval: eval.jsonl, max_length: 48}"
    config whole "$data" "training: {per_device_batch_size: 4, max_steps: 3,
  eval_strategy: steps, eval_steps: 3}"
    train 1 whole
    local before
    before=$(cksum whole.out/checkpoints/checkpoint-3/*)
    config held "$data" "training: {per_device_batch_size: 4, resume: auto,
  eval_only: true}"
    sed -i 's/held.out/whole.out, overwrite: true/' held.yaml
    run train 1 held
    echo "$output"
    ((status == 0))
    [[ $output == *"step 3  held-out loss 5."*"(91 tokens)"* ]]
    [[ $output == *"done: 0 steps in "[0-9:]*", peak memory"* ]]
    [[ $output != *"->"* && $output != *"model: "* ]]
    run ! grep -w nan <<<"$output" # -w, as $WORK may have these letters
    # both measurements are equal, and nothing else has changed
    (($(metrics whole | grep -c '"split": "train"') == 3))
    (($(losses whole eval | wc -l) == 2))
    (($(losses whole eval | uniq | wc -l) == 1))
    [[ $(cksum whole.out/checkpoints/checkpoint-3/*) == "$before" ]]
    # this time of the model named in the config, not of the checkpoint
    sed -i 's/resume: auto,//' held.yaml
    run train 1 held
    ((status == 0))
    [[ $output == *"step 0  held-out loss 5."* ]]
    [[ $(cksum whole.out/checkpoints/checkpoint-3/*) == "$before" ]]
}

@test "held-out rows are counted once, whatever the batch and the ranks" {
    need_mpirun
    local n name
    # 5 rows are not a multiple of any of these
    for n in "1 1" "1 2" "1 16" "2 1" "2 2" "4 1" "4 3"; do
        name=eval${n/ /x}
        config "$name" "data: {train: train.jsonl, eval: eval.jsonl,
  max_length: 48}" "training: {train_batch_size: 4, eval_only: true,
  per_device_eval_batch_size: ${n#* }}"
        train "${n% *}" "$name" &>log || { cat log && return 1; }
        grep -q '(91 tokens)' log
        same_curve eval1x1 "$name" eval
    done
    config packed "data: {train: train.jsonl, eval: eval.jsonl,
  max_length: 48, packing: bfd}" \
        "training: {train_batch_size: 4, eval_only: true}"
    train 2 packed
    same_curve eval1x1 packed eval
}

@test "checkpoint.only_model: no optimizer, and no run resumes from it" {
    # what strategy: no leaves at the end is the model alone, too
    config final "checkpoint: {strategy: no}"
    train 1 final
    [[ -e final.out/checkpoints/checkpoint-3/model.safetensors ]]
    [[ ! -e final.out/checkpoints/checkpoint-3/trainer_state.json ]]
    config only "checkpoint: {only_model: true}"
    train 1 only
    [[ ! -e only.out/checkpoints/latest/trainer_state.json ]]
    run ls only.out/checkpoints/latest
    [[ $output == *model.safetensors* && $output != *optim* ]]
    sed -i '/^checkpoint/s/.*/training.resume: auto/' only.yaml
    run train 1 only
    echo "$output"
    ((status == 66))
    [[ $output == *"checkpoint-3: has no optimizer state"* ]]
    [[ $output == *"(checkpoint.only_model was set, or checkpoint.strategy was no): name it in model.path"* ]]
    # stopped by a signal, the run says what that means
    config stopped "checkpoint: {only_model: true}" \
        "training: {train_batch_size: 4, max_steps: 100000000}"
    dt_background log "$DT_BUILDDIR/disttrain" train stopped.yaml
    dt_wait_for 60 dt_lines 1 'step 1/' log
    kill -USR1 $!
    status=0
    wait $! || status=$?
    ((status == 75))
    output=$(<log)
    [[ $output == *"saved; checkpoint.only_model leaves no optimizer state"* ]]
    config next "model: {path: only.out/checkpoints/latest, tokenizer: byte}"
    train 1 next
}

# signalled SIGNAL [OPTION]: starts a run with this OPTION of env, sends the
# signal in its second step, and prints its status.
signalled() {
    local status=0 pid
    rm -rf signal.out
    DISTTRAIN_FAULT=train.step:step=2:stop dt_background log \
        env "${2:---default-signal=HUP}" "$DT_BUILDDIR/disttrain" train signal.yaml
    pid=$!
    dt_wait_for 60 grep -q '^State:.*T (stopped)' "/proc/$pid/status"
    kill "-$1" "$pid"
    kill -CONT "$pid"
    wait "$pid" || status=$?
    echo "$status"
}

@test "every signal of launch.signal saves, and nohup's SIGHUP does not" {
    need_faults
    local name
    config signal "training: {train_batch_size: 4, max_steps: 4}"
    for name in USR1 USR2 TERM HUP; do
        run -0 signalled $name
        cat log
        [[ "$name $output" == "$name 75" ]]
        grep -q 'stopped by a signal after step 2' log
        [[ -e signal.out/checkpoints/checkpoint-2/model.safetensors ]]
    done
    for name in '' takes_hangup.so; do
        LD_PRELOAD=${name:+$DT_BUILDDIR/tests/job/$name} \
            run -0 signalled HUP --ignore-signal=HUP
        [[ $output == 0 && -e signal.out/checkpoints/checkpoint-4 ]]
    done
}

@test "checkpoint.save_dtype and max_shard_size: files, and the same resume" {
    local kind resumed
    for kind in fp32 bf16 fp16; do
        config "$kind" "checkpoint: {steps: 2, save_dtype: $kind,
  max_shard_size: 20KB}" "training: {train_batch_size: 4, max_steps: 4}"
        train 1 "$kind"
        config "$kind-next" "checkpoint: {save_dtype: $kind}" \
            "training: {train_batch_size: 4, max_steps: 4,
  resume: $kind.out/checkpoints/checkpoint-2}"
        train 1 "$kind-next"
        diff <(metrics "$kind" 2) <(metrics "$kind-next")
        [[ -e $kind.out/checkpoints/latest/model.safetensors.index.json ]]
        [[ ! -e $kind.out/checkpoints/latest/model.safetensors ]]
        [[ -e $kind-next.out/checkpoints/latest/model.safetensors ]]
        stat -c %s "$kind".out/checkpoints/latest/model-*.safetensors |
            awk '$1 > 22000 { bad = 1 } END { exit bad || NR < 2 }'
    done
    # two bytes per weight instead of four; training itself does not round
    grep -q '"F32"' -a fp32-next.out/checkpoints/latest/model.safetensors
    grep -q '"BF16"' -a bf16-next.out/checkpoints/latest/model.safetensors
    grep -q '"F16"' -a fp16-next.out/checkpoints/latest/model.safetensors
    diff <(metrics fp32) <(metrics bf16)
    diff <(metrics fp32) <(metrics fp16)
    for resumed in bf16 fp16; do
        cmp {fp32,$resumed}-next.out/checkpoints/latest/trainer_state.json
    done
}

@test "model.gradient_checkpointing: the same bits" {
    local compute name
    for compute in fp32 bf16 fp16; do
        for name in keeps again; do
            config $name "${everything[@]}" "precision: {compute: $compute}" \
                "model: {config_path: model, gradient_checkpointing: $(
                    [[ $name == keeps ]] && echo false || echo true)}"
            train 1 $name
        done
        diff <(metrics keeps) <(metrics again)
        cmp {keeps,again}.out/checkpoints/latest/model.safetensors
        rm -r {keeps,again}.out
    done
}

@test "model.disable_dropout: the same as a config.json without dropout" {
    mkdir -p dry
    sed 's/0\.1/0.0/g' model/config.json >dry/config.json
    config with
    config without "model: {config_path: model, disable_dropout: true}"
    config dry "model: {config_path: dry}"
    train 1 with
    train 1 without
    train 1 dry
    diff <(metrics without) <(metrics dry)
    run diff <(metrics with) <(metrics dry)
    ((status == 1))
}

# Each step sees all examples, so their order does not matter.
@test "padding, packing and any B x A x ranks have the same loss curve" {
    need_mpirun
    local dry="model: {config_path: model, disable_dropout: true}" split name
    local ranks B A
    # ranks, rows per forward pass, forward passes
    for split in "1 36 1" "1 1 36" "1 4 9" "2 9 2" "4 3 3"; do
        read -r ranks B A <<<"$split"
        name=padded${split// /x}
        config "$name" "$dry" "data: {train: all.jsonl, max_length: 48}" \
            "training: {per_device_batch_size: $B, max_steps: 8,
  gradient_accumulation_steps: $A}"
        train "$ranks" "$name" &>log || { cat log && return 1; }
        grep -q '36 examples in 36 rows' log
        same_curve padded1x36x1 "$name"
    done
    for split in "1 16 1" "1 1 16" "2 2 4" "4 4 1"; do
        read -r ranks B A <<<"$split"
        name=packed${split// /x}
        config "$name" "$dry" "data: {train: all.jsonl, max_length: 48,
  packing: bfd}" "training: {per_device_batch_size: $B, max_steps: 8,
  gradient_accumulation_steps: $A}"
        train "$ranks" "$name" &>log || { cat log && return 1; }
        grep -q '36 examples in 16 rows' log
        same_curve padded1x36x1 "$name"
    done
    losses padded1x36x1 | awk 'NR == 1 { a = $1 }
        END { exit !(NR == 8 && $1 < a - 0.02) }'
}

@test "an error of one rank is reported once, and ends all ranks" {
    need_mpirun
    need_faults
    config fault
    DISTTRAIN_FAULT=train.step:rank=1:step=2:error run train 2 fault
    echo "$output"
    ((status == 70))
    [[ $output == *"rank 1 of 2 on "*" failed: failed on purpose"* ]]
    (($(grep -c 'disttrain: ' <<<"$output") == 1))
    (($(losses fault | wc -l) == 1))
}

@test "too many bad lines: no rank starts, the error has file and line" {
    need_mpirun
    local ranks
    { examples 9 && echo '{"prompt": "a", "completion": 1}' && examples 10; } \
        >bad.jsonl
    for ranks in 1 2; do
        config bad "data: {train: bad.jsonl, max_length: 48, bad_lines: 0.04}"
        run train "$ranks" bad
        echo "$output"
        ((status == 65))
        [[ $output == *"/bad.jsonl:10:"* ]]
        (($(grep -c '^disttrain: ' <<<"$output") == 1))
        [[ $output != *"rows per rank"* && ! -e bad.out ]]
    done
    config bad "data: {train: bad.jsonl, max_length: 48, bad_lines: 0.05}"
    run train 2 bad
    echo "$output"
    ((status == 0))
    (($(grep -c '/bad.jsonl:10:' <<<"$output") == 1))
    [[ $output == *"19 examples in 19 rows"* ]]
}

@test "of runs that start together in one output_dir, one continues" {
    local i status=0
    config shared "training: {train_batch_size: 4, max_steps: 100000000}" \
        "checkpoint: {steps: 2, total_limit: 2}"
    sed -i '/^run/s/}/, overwrite: true}/' shared.yaml
    for i in {1..12}; do
        train 1 shared &>"shared.$i" &
    done
    for i in {1..11}; do
        wait -n || status=$?
        ((status == 73))
    done
    cat shared.[0-9]*
    (($(grep -l 'shared.out: another run writes to this directory: process '\
'[0-9]* on .*, since .*; wait until it ends, or name another run.output_dir' \
        shared.[0-9]* | wc -l) == 11))
    # the remaining run was not disturbed, and stops in the usual way
    kill -USR1 "$(sed -n 's/^pid //p' shared.out/.owner)"
    wait -n || status=$?
    ((status == 75))
    (($(grep -l 'stopped by a signal' shared.[0-9]* | wc -l) == 1))
    [[ ! -e shared.out/.owner ]]
    config shared "training: {train_batch_size: 4, max_steps: 1, resume: auto}"
    run train 1 shared
    echo "$output"
    [[ $output != *interrupted* && $output != *damaged* ]]
}

@test "a run that was killed leaves its output_dir to the next one" {
    config killed "training: {train_batch_size: 4, max_steps: 100000000}" \
        "checkpoint: {steps: 5}"
    dt_background killed.log "$DT_BUILDDIR/disttrain" train killed.yaml
    local pid=$!
    dt_wait_for 60 test -e killed.out/checkpoints/latest
    kill -9 $pid
    wait $pid || :
    [[ -e killed.out/.owner ]]
    config killed "training: {train_batch_size: 4, max_steps: 100000000,
  resume: auto, eval_only: true}" \
        "data: {train: train.jsonl, eval: eval.jsonl, max_length: 48}"
    run train 1 killed
    echo "$output"
    ((status == 0))
    [[ $output == *"resuming from "* && $output != *"still alive"* ]]
    [[ ! -e killed.out/.owner ]]
}

@test "a run that diverges saves nothing more, and resumes from a good state" {
    need_mpirun
    local ranks limit saved
    for ranks in 1 2; do
        limit=$((3 - ranks))
        config blown "training: {train_batch_size: 4, max_steps: 4}" \
            "checkpoint: {steps: 2, total_limit: $limit}"
        train "$ranks" blown
        ls blown.out/checkpoints
        [[ ! -e blown.out/checkpoints/checkpoint-2 || $limit == 2 ]]
        # step 5 makes the weights explode, which shows in step 6
        config blown "optimizer: {lr: 1.0e+30}" "training: {resume: auto,
  train_batch_size: 4, max_steps: 100, max_grad_norm: 0}" \
            "checkpoint: {steps: 5, total_limit: $limit}" \
            "scheduler: {name: constant}"
        run train "$ranks" blown
        echo "$output" | tail -n 8
        ((status == 65))
        [[ $output == *"step 10: no checkpoint is saved, because the loss is not finite"* ]]
        [[ $output == *"50 steps in a row had no finite gradient: lower"*"step \
55; the last good checkpoint is "*"/checkpoint-4: training.resume: auto resumes"* ]]
        (($(grep -c 'the last good checkpoint' <<<"$output") == 1))
        metrics blown | grep -q '"step": 50, .*"loss": null'
        [[ $(readlink blown.out/checkpoints/latest) == checkpoint-4 ]]
        [[ -e blown.out/checkpoints/checkpoint-4 ]]
        [[ -e blown.out/checkpoints/checkpoint-5 ]]
        saved=(blown.out/checkpoints/checkpoint-*)
        ((${#saved[@]} <= limit + 1))
        # with another learning rate it resumes from there
        config blown "training: {resume: auto, train_batch_size: 4,
  max_steps: 8}" "checkpoint: {steps: 2, total_limit: $limit}"
        run train "$ranks" blown
        echo "$output"
        ((status == 0))
        [[ $output == *"resuming from "*"/checkpoint-4"* ]]
        saved=(blown.out/checkpoints/checkpoint-*)
        ((${#saved[@]} == limit))
        rm -r blown.out
    done
}

@test "weights that are not finite end the run at once, unsaved" {
    local steps
    # noticed at a save, or when the loss shows it
    for steps in 1 1000; do
        config inf "optimizer: {lr: 1.0e+39}" "scheduler: {name: constant}" \
            "training: {train_batch_size: 4, max_steps: 100}" \
            "checkpoint: {steps: $steps}"
        run train 1 inf
        echo "$output"
        ((status == 65))
        [[ $output == *"the run diverged: after step "[12]" the weights are \
not finite; lower optimizer.lr, or look at the data before global sample "*"; \
there is no earlier good checkpoint"* ]]
        [[ ! -e inf.out/checkpoints/latest ]]
        rm -rf inf.out
    done
}

@test "if the last loss is not finite, nothing is saved, with a message" {
    config last "optimizer: {lr: 1.0e+30}" "scheduler: {name: constant}" \
        "training: {train_batch_size: 4, max_steps: 3, max_grad_norm: 0}"
    run train 1 last
    echo "$output"
    ((status == 65))
    [[ $output == *"the run diverged: the loss of its last step, 3, is not finite"* ]]
    [[ $output != *"done: "* && ! -e last.out/checkpoints/latest ]]
}

@test "fp16 whose loss scale never fits: 50 steps, or the smallest scale" {
    config static "training: {train_batch_size: 4, max_steps: 60}" \
        "precision: {compute: fp16, loss_scale: 1.0e+30}"
    run train 1 static
    ((status == 65))
    [[ $output == *"lower optimizer.lr or precision.loss_scale, or look at"* ]]
    [[ $output == *"step 49/60  loss 5."*"grad norm nan"* ]]
    config least "training: {train_batch_size: 4, max_steps: 60}" \
        "precision: {compute: fp16, initial_scale_power: 60, hysteresis: 1,
  min_loss_scale: 1.0e+12}"
    run train 1 least
    echo "$output" | tail -n 3
    ((status == 65))
    [[ $output == *"loss scale already at its minimum 1e+12: lower opt"* ]]
}

# peak NAME LINE...: prints the planned and the real peak of a short run, in MB.
peak() {
    config "$@" "checkpoint: {only_model: true}"
    train 1 "$1" &>log || { cat log && return 1; }
    sed -nE -e 's/.*plan: memory of a rank: .*: ([0-9.]+) MB of .*/\1/p' \
        -e 's/.*peak memory of rank 0 ([0-9.]+) GiB/\1 1073.7/p' log |
        awk 'NR == 1 { planned = $1 } NR == 2 { real = $1 * $2 }
            END { print "planned", planned, "real", real
                  exit !(NR == 2 && real / planned > 0.8 &&
                         real / planned < 1.2) }'
    rm -r "$1.out"
}

@test "the planned memory is what the run uses: weights, activations, logits" {
    local file=/usr/share/common-licenses/GPL-3
    local text="data: {train: $file, max_length: 512}"
    local acts="n_positions: 512, n_layer: 3, n_head: 2, n_embd: 128"
    local rows="training: {per_device_batch_size: 16, max_steps: 1}"
    [[ -e $file ]] || skip "no license texts"
    peak acts "$text" "$rows" "model: {$acts}"
    peak less "$text" "training: {per_device_batch_size: 32, max_steps: 1}" \
        "model: {$acts, gradient_checkpointing: true}"
    # oneDNN 3 takes 45 MB for itself on some processors
    peak bf16 "$text" "training: {per_device_batch_size: 64, max_steps: 1}" \
        "model: {$acts}" "precision: {compute: bf16}"
    peak logits "$text" "training: {per_device_batch_size: 1, max_steps: 1}" \
        "model: {n_positions: 512, n_layer: 1, n_head: 2, n_embd: 64,
  vocab_size: 100000}"
}

@test "a run that cannot fit stops at once and says once what would fit" {
    need_mpirun
    local rows
    config large "model: {n_positions: 2048, n_layer: 80, n_head: 64,
  n_embd: 8192}" "training: {per_device_batch_size: 8}" \
        "data: {train: train.jsonl, max_length: 2048}" \
        "distributed.strategy: ddp"
    run train 2 large
    echo "$output"
    ((status == 78))
    [[ $output == *"large.yaml: this run needs 1465.36 GB of memory a rank"\
*"(weights 257.81 GB, gradients 257.81 GB, optimizer 515.62 GB, activations"\
*"left for 2 ranks; what would fit: a smaller model, or nodes with more"* ]]
    (($(grep -c 'disttrain: ' <<<"$output") == 1))
    [[ ! -e large.out ]]
    # checking it needs no memory
    "$DT_BUILDDIR/disttrain" check large.yaml

    config rows "model: {n_positions: 2048, n_layer: 2, n_head: 4,
  n_embd: 256}" "training: {per_device_batch_size: 1000000}" \
        "data: {train: train.jsonl, max_length: 2048}"
    run train 1 rows
    echo "$output"
    ((status == 78))
    rows=$(sed -n 's/.*per_device_batch_size: \([0-9]*\) with .*/\1/p' \
        <<<"$output")
    ((rows > 0 && 1000000 % rows == 0))
    [[ $output == *" with $((1000000 / rows)) times the accumulation steps"* ]]
    [[ $output != *eval* ]]
}

# saved NAME: runs NAME with checkpoints 2 and 4 of 6 steps and resume: auto.
saved() {
    config "$1" "training: {train_batch_size: 4, max_steps: 4, resume: auto}" \
        "checkpoint: {steps: 2}"
    train 1 "$1" &>log || { cat log && return 1; }
    sed -i 's/max_steps: 4/max_steps: 6/' "$1.yaml"
}

# state_of NAME: everything that a run has written.
state_of() {
    find "$1.out" -type f -exec cksum {} + | sort -k 3
    find "$1.out" -printf '%p %l\n' | sort
}

# as_user COMMAND...: as a user to whom file permissions apply.
as_user() {
    if ((EUID == 0)); then
        chown -R 65534:65534 "$WORK"
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

# spoil FILE: changes one byte of it.
spoil() {
    printf x | dd of="$1" bs=1 seek=400 conv=notrunc status=none
}

@test "resume: auto without a checkpoint starts a new run, and says so" {
    config first "training: {train_batch_size: 4, max_steps: 1, resume: auto}"
    run train 1 first
    echo "$output"
    ((status == 0))
    [[ $output == *"no checkpoint in "*"/first.out/checkpoints: the run starts at \
its first step"* ]]
}

@test "a checkpoint that cannot be read ends the run, and nothing changes" {
    need_faults
    local before ranks
    saved disk
    # a marker for report.html, and a run.json that looks newer than any start
    echo old >disk.out/logs/report.html
    touch -d '1 hour' disk.out/logs/run.json
    before=$(state_of disk)
    for ranks in 1 2; do
        ((ranks == 1)) || command -v mpirun >/dev/null || continue
        DISTTRAIN_FAULT=ckpt.read:error run train "$ranks" disk
        echo "$output"
        ((status == 74))
        [[ $output == *"checkpoint-4/"*": cannot read: Input/output error"* ]]
        (($(grep -c 'disttrain: ' <<<"$output") == 1))
        [[ $(state_of disk) == "$before" ]]
    done
    run train 1 disk
    ((status == 0))
    [[ $output == *"resuming from "*"/disk.out/checkpoints/checkpoint-4"* ]]
}

@test "what any rank finds damaged is passed over by all" {
    need_mpirun
    local dir=ranks.out/checkpoints
    config ranks "training: {train_batch_size: 4, max_steps: 4, resume: auto}" \
        "checkpoint: {steps: 2}" "distributed: {strategy: zero2}"
    train 2 ranks
    sed -i 's/max_steps: 4/max_steps: 6/' ranks.yaml
    spoil $dir/checkpoint-4/optim-rank-00001-of-00002.safetensors
    run train 2 ranks
    echo "$output"
    ((status == 0))
    (($(grep -c passed.over <<<"$output") == 1))
    [[ $output == *"optim-rank-00001-of-00002.safetensors: checksum "*\
"; checkpoint-4 is passed over"*"resuming from "*"/checkpoint-2"* ]]
    rm $dir/checkpoint-6/optim-rank-00001-of-00002.safetensors
    run train 2 ranks
    echo "$output"
    [[ $output == *"; checkpoint-6 is passed over"*"resuming from "*"-4"* ]]
}

@test "one rank that cannot read its share ends the run, with its words" {
    need_mpirun
    need_faults
    local before
    config rank1 "training: {train_batch_size: 4, max_steps: 4, resume: auto}" \
        "checkpoint: {steps: 2}"
    train 2 rank1
    sed -i 's/max_steps: 4/max_steps: 6/' rank1.yaml
    before=$(state_of rank1)
    DISTTRAIN_FAULT=ckpt.read:rank=1:error run train 2 rank1
    echo "$output"
    ((status == 74))
    (($(grep -c 'disttrain: ' <<<"$output") == 1))
    [[ $output == *"$(hostname): "*"/checkpoint-4/"*": cannot read: Input/"* ]]
    [[ $(state_of rank1) == "$before" ]]
}

@test "without permission to read a checkpoint, no older one is used" {
    local before file
    for file in checkpoint-4{,/checksums.txt,/trainer_state.json}; do
        saved rights
        before=$(state_of rights)
        chmod 0 "rights.out/checkpoints/$file"
        run as_user timeout 60 "$DT_BUILDDIR/disttrain" train rights.yaml
        echo "$output"
        chmod 755 "rights.out/checkpoints/$file"
        ((status == 74))
        [[ $output == *"checkpoint-4/"*": cannot open: Permission denied"* ]]
        [[ $(state_of rights) == "$before" ]]
        rm -r rights.out
    done
    saved rights
    chmod 311 rights.out/checkpoints/checkpoint-4
    run as_user timeout 60 "$DT_BUILDDIR/disttrain" train rights.yaml
    chmod 755 rights.out/checkpoints/checkpoint-4
    ((status == 74))
    [[ $output == *"/checkpoint-4: cannot list: Permission denied"* ]]
}

@test "if all checkpoints are damaged, no new run is started automatically" {
    local before
    saved all
    spoil all.out/checkpoints/checkpoint-2/model.safetensors
    rm all.out/checkpoints/checkpoint-4/checksums.txt
    before=$(state_of all)
    run train 1 all
    echo "$output"
    ((status == 65))
    [[ $output == *"all.out/checkpoints: no checkpoint here is whole, the last \
one because of "*"checkpoint-2/model.safetensors: checksum "*"; restore one, \
or start a new run: in another run.output_dir, or here with training.resume: none \
and run.overwrite: true"* ]]
    [[ $(state_of all) == "$before" ]]
    sed -i 's/resume: auto/resume: none/; s/all.out/&, overwrite: true/' \
        all.yaml
    train 1 all
}

@test "training.resume: a damaged directory is an error even beside good ones" {
    saved path
    spoil path.out/checkpoints/checkpoint-4/model.safetensors
    sed -i 's#resume: auto#resume: path.out/checkpoints/checkpoint-4#' path.yaml
    run train 1 path
    echo "$output"
    ((status == 65))
    [[ $output == *"checkpoint-4/model.safetensors: checksum"* ]]
    rm path.out/checkpoints/checkpoint-4/checksums.txt
    run train 1 path
    ((status == 66))
    [[ $output == *"checkpoint-4: not a checkpoint: there is no checksums.txt"* ]]
    sed -i 's#checkpoints/checkpoint-4##' path.yaml
    run train 1 path
    ((status == 66))
    [[ $output == *"path.out: not a checkpoint, but it has some: "*"/checkpoint-4; "* ]]
}

@test "disttrain verify: a line for each checkpoint, and the exit status" {
    local dir=verified.out/checkpoints
    saved verified
    run -0 "$DT_BUILDDIR/disttrain" verify verified.out
    [[ $output == "$dir/checkpoint-4: whole"$'\n'"$dir/checkpoint-2: whole" ]]
    run -0 "$DT_BUILDDIR/disttrain" verify $dir/latest
    [[ $output == "$dir/latest: whole" ]]
    mkdir $dir/.tmp-checkpoint-6 # of a save that goes on
    rm $dir/checkpoint-4/trainer_state.json
    spoil $dir/checkpoint-2/model.safetensors
    run -65 "$DT_BUILDDIR/disttrain" verify $dir
    [[ ${lines[0]} == "$dir/checkpoint-4: incomplete: trainer_state.json: \
cannot open: No such file or directory" ]]
    [[ ${lines[1]} == "$dir/checkpoint-2: damaged: model.safetensors: \
checksum "* ]]
    ((${#lines[@]} == 2))
    rm $dir/checkpoint-4/checksums.txt
    run -65 "$DT_BUILDDIR/disttrain" verify $dir/checkpoint-4
    [[ $output == "$dir/checkpoint-4: incomplete: checksums.txt: "* ]]
    chmod 0 $dir/checkpoint-4
    run as_user "$DT_BUILDDIR/disttrain" verify $dir
    chmod 755 $dir/checkpoint-4
    ((status == 74))
    [[ $output == "$dir/checkpoint-4: unknown: checksums.txt: cannot open: "* ]]
    rm -r $dir/checkpoint-*
    run -66 "$DT_BUILDDIR/disttrain" verify verified.out
    [[ $output == *": not a checkpoint: there is no checksums.txt" ]]
}

@test "a checkpoint of an older version, whose list has no sum, is resumed" {
    saved older
    sed -i '/^#/d' older.out/checkpoints/checkpoint-4/checksums.txt
    run train 1 older
    ((status == 0))
    [[ $output == *"resuming from "*"/older.out/checkpoints/checkpoint-4"* ]]
}

@test "a run that is complete says so" {
    saved complete
    sed -i 's/max_steps: 6/max_steps: 4/' complete.yaml
    run train 1 complete
    echo "$output"
    ((status == 0))
    [[ $output == *"the run is already complete: it is at step 4 of 4; to \
continue, raise training.max_steps or training.epochs"* ]]
}

# holder_of FILE: waits for a process that has it open, and prints its id. One
# with other mounts is seen with a whole path, also from a chroot.
holder_of() {
    local i
    for ((i = 0; i < 600; i++)); do
        find /proc/[0-9]*/fd -lname "*$PWD/*$1" 2>/dev/null | cut -d / -f 3 |
            grep . && return
        sleep 0.1
    done
    return 1
}

@test "SIGTERM ends the reading of a huge checkpoint at once" {
    local ranks pid
    saved huge
    truncate -s 1T huge.out/checkpoints/checkpoint-4/sparse ||
        skip "no sparse files"
    sed -i '/^#/d' huge.out/checkpoints/checkpoint-4/checksums.txt
    echo "XXH3 (sparse) = 0000000000000000" \
        >>huge.out/checkpoints/checkpoint-4/checksums.txt
    for ranks in 1 2; do
        ((ranks == 1)) || command -v mpirun >/dev/null || continue
        train "$ranks" huge &>log &
        pid=$(holder_of sparse)
        kill -TERM "$pid"
        status=0
        wait $! || status=$?
        cat log
        ((status == 75))
        grep -q 'stopped by a signal before the first step' log
        (($(grep -c 'disttrain: ' log) == 1))
    done
}

# A template that renders nothing and takes its time to say so, on 300 lines.
@test "SIGTERM ends the preparing of data at once" {
    local ranks pid
    awk 'BEGIN {
        for (i = 0; i < 300; i++)
            print "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}," \
                  " {\"role\": \"assistant\", \"content\": \"b\"}]}"
    }' >slow.jsonl
    cat >slow.jinja <<'END'
{% for m in messages %}{{ m.content }}{% endfor %}
{% if messages[0].content == "a" and messages|length == 2 %}
{% for i in range(20000) %}{% for j in range(20000) %}{% endfor %}{% endfor %}
{% endif %}
END
    config slow "data: {train: slow.jsonl, chat_template: ./slow.jinja, max_length: 48, bad_lines: 1}"
    for ranks in 1 2; do
        ((ranks == 1)) || command -v mpirun >/dev/null || continue
        train "$ranks" slow &>log &
        pid=$(holder_of lock)
        kill -TERM "$pid"
        status=0
        wait $! || status=$?
        cat log
        ((status == 75))
        grep -q 'stopped by a signal before the first step' log
        [[ ! -e slow.out ]]
    done
}

@test "a save that fails is repeated after half the interval" {
    need_faults
    local ranks point keys=("training: {train_batch_size: 4, max_steps: 12}"
        "checkpoint: {steps: 4}")
    for ranks in 1 2; do
        ((ranks == 1)) || command -v mpirun >/dev/null || continue
        config good "${keys[@]}"
        train "$ranks" good
        for point in write fsync rename; do
            config fails "${keys[@]}"
            DISTTRAIN_FAULT=ckpt.$point:step=4:error run train "$ranks" fails
            echo "$output"
            ((status == 0))
            (($(grep -c ' could not be saved' <<<"$output") == 1))
            [[ $output == *"step 4 could not be saved, and the run continues: "*\
"; failure 1 of 5 in a row (checkpoint.max_failures), next try after step 6"* ]]
            [[ $(echo fails.out/checkpoints/*) == *-12\ *-6\ *-8\ */latest ]]
            diff <(metrics good) <(metrics fails)
            cmp {good,fails}.out/checkpoints/latest/model.safetensors
            rm -r fails.out
        done
        rm -r good.out
    done
}

# in_flight NAME LINE...: a run with a checkpoint of step 2 of 12, whose further
# saves it does not wait for.
in_flight() {
    config "$@" "training: {train_batch_size: 4, max_steps: 2, resume: auto}" \
        "scheduler: {name: constant}" "checkpoint: {steps: 3, async: on}"
    train 1 "$1" &>log || { cat log && return 1; }
    sed -i 's/max_steps: 2/max_steps: 12/' "$1.yaml"
}

@test "checkpoint.async: from each checkpoint the run has the same bits" {
    local dir step
    in_flight whole
    train 1 whole
    for dir in whole.out/checkpoints/checkpoint-*[0-9]; do
        step=${dir##*-}
        ((step > 2 && step < 12)) || continue
        in_flight rest
        sed -i "s#resume: auto#resume: $dir#" rest.yaml
        train 1 rest
        diff <(metrics whole "$step") <(metrics rest "$step")
        cmp {whole,rest}.out/checkpoints/latest/model.safetensors
        cmp {whole,rest}.out/checkpoints/latest/trainer_state.json
        rm -r rest.out
    done
    ((step > 2))
}

@test "a run killed at any point of a save in flight resumes where it was" {
    need_faults
    local ranks point points=(save.staged save.commit ckpt.{write,rename}:nth=3
        ckpt.write:nth=5 ckpt.fsync:nth={9,11,13} ckpt.rename:nth=4)
    for ranks in 1 2; do
        ((ranks == 1)) || command -v mpirun >/dev/null || continue
        in_flight good
        train "$ranks" good
        for point in "${points[@]}"; do
            in_flight killed
            DISTTRAIN_FAULT=$point:kill run train "$ranks" killed
            echo "$point: $output"
            ((status != 0))
            "$DT_BUILDDIR/disttrain" verify killed.out
            train "$ranks" killed
            diff <(metrics good 11) <(metrics killed 11)
            [[ $(ls -A killed.out/checkpoints) != *.tmp* ]]
            rm -r killed.out
        done
        rm -r good.out
    done
}

@test "a write that fails while steps go on is repeated, and costs a warning" {
    need_faults
    local point
    in_flight good
    train 1 good
    for point in save.staged save.commit ckpt.write:nth=3 ckpt.fsync:nth=9; do
        in_flight fails
        DISTTRAIN_FAULT=$point:error run train 1 fails
        echo "$point: $output"
        ((status == 0))
        (($(grep -c ' could not be saved' <<<"$output") == 1))
        [[ $output == *"step 3 could not be saved, and the run continues: "* ]]
        diff <(metrics good) <(metrics fails)
        cmp {good,fails}.out/checkpoints/latest/model.safetensors
        rm -r fails.out
    done
}

@test "SIGTERM waits for the save in flight, and saves" {
    need_faults
    in_flight term
    sed -i 's/max_steps: 12/max_steps: 1000000/' term.yaml
    DISTTRAIN_FAULT=ckpt.write:nth=3:sleep=200 train 1 term &>log &
    kill -TERM "$(holder_of model.safetensors)"
    status=0
    wait $! || status=$?
    tail log
    ((status == 75))
    run -0 "$DT_BUILDDIR/disttrain" verify term.out
    echo "$output"
    ((${#lines[@]} == 3)) # the last one, that in flight, and step 2
    [[ $output == *"/checkpoint-3: whole"* ]]
}

@test "a save that succeeds resets the count of failures" {
    need_faults
    config row "training: {train_batch_size: 4, max_steps: 12}" \
        "checkpoint: {steps: 4, max_failures: 2}"
    DISTTRAIN_FAULT=ckpt.write:step=4:error,ckpt.write:step=8:error \
        run train 1 row
    echo "$output"
    ((status == 0))
    (($(grep -c '; failure 1 of 2 in a row' <<<"$output") == 2))
    [[ $(echo row.out/checkpoints/*) == *-10\ *-12\ *-6\ */latest ]]
}

# Limits files to 20 KiB: the model is larger, everything else is smaller.
limited() {
    (
        ulimit -f 20
        train 1 "$1"
    )
}

@test "checkpoint.max_failures failed saves in a row end the run" {
    local i expected=(32 48 56 60)
    config full "training: {train_batch_size: 4, max_steps: 7, resume: auto}" \
        "checkpoint: {steps: 32, total_limit: 1}"
    train 1 full
    sed -i 's/max_steps: 7/max_steps: 100/' full.yaml
    run limited full
    echo "$output"
    ((status == 74))
    for ((i = 0; i < 4; i++)); do
        [[ $output == *"step ${expected[i]} could not be saved, and the run \
continues: "*"/model.safetensors: cannot write: File too large; failure \
$((i + 1)) of 5 in a row"* ]]
    done
    [[ $output == *"step 64 could not be saved, which was failure 5 of 5 in a \
row (checkpoint.max_failures): "*": cannot write: File too large"* ]]
    [[ $(ls -A full.out/checkpoints) == "checkpoint-7"$'\n'"latest" ]]
    run limited full
    [[ $output == *"resuming from "*"/checkpoint-7"* ]]
}

@test "a full disk: a warning at the start, and the last checkpoint stays" {
    ((EUID == 0)) && unshare -m true || skip "cannot mount a small disk"
    config small "training: {train_batch_size: 4, max_steps: 4}" \
        "checkpoint: {steps: 2}"
    mkdir small.out
    # one checkpoint has 145 KB
    run unshare -m bash -c "mount -t tmpfs -o size=200k none small.out
        $(declare -f train); train 1 small; echo status \$?
        ls -A small.out/checkpoints; cat small.out/checkpoints/latest/ch*"
    echo "$output"
    (($(grep -c " free, and a checkpoint takes " <<<"$output") == 1))
    [[ $output == *"step 4/4 "*"the disk is nearly full, and saving is tried: \
"*" free, and a checkpoint takes "*"step 4, the last one, could not be saved: "*"No space left \
on device"*"status 74"*"checkpoint-2"$'\n'"latest"$'\n'"XXH3 (config"* ]]
    # beside rounded weights a checkpoint has those that are trained
    config small "training: {train_batch_size: 4, max_steps: 4}" \
        "checkpoint: {steps: 2}" "precision: {compute: bf16}"
    run unshare -m bash -c "mount -t tmpfs -o size=100k none small.out
        $(declare -f train); train 1 small"
    ((status == 74))
    [[ $output == *"small.out/checkpoints: 0.1 MB free, and a checkpoint takes \
0.2 MB"*"step 2 could not be saved, and the run continues: "*"No space left on \
device"* ]]
}

@test "metrics that cannot be written are lost, and the run continues" {
    config lines "training: {train_batch_size: 4, max_steps: 600}" \
        "checkpoint: {only_model: true}"
    run bash -c "ulimit -f 150; $(declare -f train); train 1 lines"
    echo "$output" | grep -v '^step'
    ((status == 0))
    # a line that is shorter than others may find room once more
    local lost again
    lost=$(grep -c 'metrics.jsonl: cannot write: File too large; lines are lost' \
        <<<"$output")
    again=$(grep -c 'metrics.jsonl: written again, ' <<<"$output") || true
    ((lost == again + 1))
    (($(losses lines | wc -l) == $(wc -l <lines.out/logs/metrics.jsonl)))
    (($(losses lines | wc -l) > 100 && $(losses lines | wc -l) < 600))
}

@test "a last save that fails is an error, also after a signal" {
    config last "training: {train_batch_size: 4, max_steps: 3}" \
        "logging: {steps: 100000000}"
    run limited last
    echo "$output"
    ((status == 74))
    [[ $output == *"disttrain: step 3, the last one, could not be saved: "*\
": cannot write: File too large"* ]]
    [[ -z $(ls -A last.out/checkpoints) ]]
    sed -i 's/max_steps: 3/max_steps: 100000000, resume: auto/' last.yaml
    limited last &>log &
    kill -TERM "$(holder_of last.out/logs/metrics.jsonl)"
    status=0
    wait $! || status=$?
    cat log
    ((status == 74))
    grep -q 'disttrain: step [0-9]*, the last one, could not be saved: ' log
}

@test "obstacles to saving are found before the first step" {
    config way "training: {train_batch_size: 4, max_steps: 2, resume: auto}"
    mkdir -p way.out/checkpoints/latest
    run train 1 way
    echo "$output"
    ((status == 73))
    [[ $output == *"disttrain: no checkpoint can be saved: "*"/way.out/\
checkpoints/latest: expected a symbolic link, or nothing; move it away"* ]]
    [[ $output != *"step 1"* && ! -e way.out/logs/metrics.jsonl ]]
    # which does not matter to a run that saves nothing
    config only "data: {train: train.jsonl, eval: eval.jsonl, max_length: 48}" \
        "training: {train_batch_size: 4, eval_only: true}"
    sed -i 's/only.out/way.out/' only.yaml
    train 1 only
    rm way.out/logs/metrics.jsonl
    rm -r way.out/checkpoints/latest
    chmod 555 way.out/checkpoints
    run as_user timeout 60 "$DT_BUILDDIR/disttrain" train way.yaml
    echo "$output"
    ((status == 73))
    [[ $output == *"disttrain: no checkpoint can be saved: "*"/way.out/\
checkpoints/.tmp-"*": Permission denied"* ]]
    [[ $output != *"step 1"* ]]
    chmod 755 way.out/checkpoints
    run train 1 way
    ((status == 0))
    [[ $output != *" free, and"* ]]
    [[ $(ls -A way.out/checkpoints) == "checkpoint-2"$'\n'"latest" ]]
}

@test "a checkpoint of another model, or under another name, is refused" {
    local before
    saved other
    before=$(state_of other)
    mkdir -p deeper
    sed 's/"n_layer": 2/"n_layer": 3/' model/config.json >deeper/config.json
    sed -i 's/config_path: model/config_path: deeper/' other.yaml
    run train 1 other
    echo "$output"
    ((status == 78))
    [[ $output == *"/checkpoint-4: was trained with n_layer 2, not 3, which \
changes the model: set it back, or start a new run in another run.output_dir" ]]
    [[ $(state_of other) == "$before" ]]
    sed -i 's/config_path: deeper/config_path: model/' other.yaml
    mv other.out/checkpoints/checkpoint-{4,40}
    run train 1 other
    echo "$output"
    ((status == 65))
    [[ $output == *"/checkpoint-40: the checkpoint of step 4, as its \
trainer_state.json says: rename it back to checkpoint-4"* ]]
    mv other.out/checkpoints/checkpoint-{40,4}
    train 1 other
}

# The run sleeps in each step from the 60th, since it would soon end by itself.
@test "a loss that exploded is said at the end, also after a signal" {
    need_faults
    config blown "training: {train_batch_size: 4, max_steps: 40}" \
        "optimizer: {lr: 1.0e+3}" "scheduler: {name: constant}" \
        "logging: {steps: 5}"
    run train 1 blown
    echo "$output"
    ((status == 0))
    [[ $output == *"the loss exploded: it was 5."*" about step 1 and is "* ]]
    rm -r blown.out
    sed -i 's/max_steps: 40/max_steps: 100000000/' blown.yaml
    DISTTRAIN_FAULT=train.step:nth=60:sleep=1000 train 1 blown &>log &
    dt_wait_for 60 grep -q '^step 55/' log
    kill -TERM "$(holder_of blown.out/logs/metrics.jsonl)"
    status=0
    wait $! || status=$?
    cat log
    ((status == 75))
    grep -q 'the loss exploded: it was 5\..* about step 1 and is ' log
}

@test "a run that was stopped does not write to what another one has taken" {
    need_faults
    ((EUID == 0)) && unshare -pf true || skip "cannot separate processes"
    local pid before
    config taken "training: {train_batch_size: 4, max_steps: 8, resume: auto}" \
        "checkpoint: {steps: 3}"
    # its process is not seen from here, as if it were on another node
    DISTTRAIN_FAULT=train.step:step=5:stop dt_background log \
        unshare -pf --mount-proc sh -c "'$DT_BUILDDIR/disttrain' train \
taken.yaml; exit \$?"
    dt_wait_for 60 grep -q 'rank 0, step 5: train.step' log
    pid=$(holder_of taken.out/logs/metrics.jsonl)
    run train 1 taken
    echo "$output"
    ((status == 0))
    [[ $output == *"is the run of process "*" still alive? Checking for 15 s"*\
"resuming from "*"/checkpoint-3"* ]]
    echo "of the other run" >taken.out/logs/report.html
    before=$(find taken.out -type f -exec cksum {} +)
    kill -CONT "$pid"
    status=0
    wait $! || status=$?
    cat log
    ((status == 73))
    grep -q 'taken.out: while this run was stopped, another one may have' log
    diff - <(find taken.out -type f -exec cksum {} +) <<<"$before"
}

@test "what other saves left, and cannot be removed, costs a warning" {
    ((EUID == 0)) || skip "not root"
    saved left
    chown -R 65534:65534 "$WORK"
    mkdir left.out/checkpoints/.tmp-checkpoint-6
    touch left.out/checkpoints/.tmp-checkpoint-6/model.safetensors
    chown -R 0:0 left.out/checkpoints/checkpoint-2
    sed -i 's/steps: 2}/steps: 2, total_limit: 1}/' left.yaml
    run setpriv --reuid=65534 --regid=65534 --clear-groups \
        timeout 60 "$DT_BUILDDIR/disttrain" train left.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"/.tmp-checkpoint-6: cannot remove: Permission denied; left \
by an earlier save; remove it by hand, or leave it: each save tries again"* ]]
    [[ $output == *"an old checkpoint stays, and each save tries again to \
remove it: "*"/.tmp-checkpoint-2: cannot remove: Permission denied"* ]]
    [[ $output != *"could not be saved"* ]]
    [[ $(readlink left.out/checkpoints/latest) == checkpoint-6 ]]
    [[ ! -e left.out/checkpoints/checkpoint-4 ]]
}
