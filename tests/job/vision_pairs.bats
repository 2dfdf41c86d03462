#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# vision_pairs.bats - dpo and reward models on images without Slurm: the same
# bits however ranks share them, whatever the reference is, and when they resume

bats_require_minimum_version 1.5.0

load helpers
load vision

ALL="train_vision: true"
LANGUAGE="train_vision: false"

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-pairs.XXXXXX)
    export WORK
    cd "$WORK" || return
    local model
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    for model in llava qwen2_5_vl; do
        # rows of rank 0 of two have no image, those of rank 1 do
        awk '/"images":\[\]/ { text[n++] = $0; next }
            { images[m++] = $0 }
            END { for (i = 0; i < m; i++) { print text[i % n]; print images[i] } }' \
            "$model/pairs.jsonl" >"$model/apart.jsonl"
        head -n 5 "$model/pairs.jsonl" >"$model/eval.jsonl"
    done
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    rm -rf ./*.out
    export OMP_NUM_THREADS=1
    need_mpirun
}

# pairs_of RANKS NAME KEYS [LINE]...: a run of $algorithm on pairs of $model,
# from $start or model.
pairs_of() {
    ALGORITHM=$algorithm config "$model" "$2" \
        "model: {path: $model/${start:-model}, $3}" "$(rows_of apart)" \
        "training: {per_device_batch_size: 1, max_steps: 5}" "${@:4}"
    quietly train "$1" "$2"
}

# rows_of FILE [KEYS]: the data of $model.
rows_of() {
    echo "data: {train: $model/$1.jsonl, image_root: $model, max_length: 128,
  shuffle: false${2:+, $2}}"
}

# each COMMAND: calls it for an algorithm and a model at a time.
each() {
    local algorithm model keys
    while read -r algorithm model keys; do
        echo "$algorithm, $model: $keys"
        "$@"
        rm -rf ./*.out
    done <<EOF
dpo llava $ALL
dpo qwen2_5_vl $LANGUAGE
rm qwen2_5_vl $ALL
rm llava $LANGUAGE
EOF
}

shared() {
    local strategy
    for strategy in ddp zero1 zero2 zero3; do
        pairs_of 2 $strategy "$keys" "distributed.strategy: $strategy"
        same_end ddp $strategy
    done
    pairs_of 1 alone "$keys" "training: {per_device_batch_size: 2, max_steps: 5}"
    same_curve alone ddp
}

@test "every strategy has the bits of ddp, with a rank that has no image" {
    each shared
}

unevenly() {
    local ranks
    for ranks in 1 2; do
        # five pairs: the second rank has none of the last ones
        pairs_of $ranks held$ranks "$keys" \
            "$(rows_of pairs "eval: $model/eval.jsonl")" \
            "training: {train_batch_size: 4, max_steps: 5, eval_strategy: steps,
  eval_steps: 2, per_device_eval_batch_size: 2}" "distributed.strategy: zero3"
    done
    same_curve held1 held2
    same_curve held1 held2 eval
}

@test "the last batch of held-out pairs may be empty on a rank" {
    each unevenly
}

kept() {
    pairs_of 4 keeps "$keys" "precision: {compute: bf16}" \
        "distributed: {strategy: zero2, shard_group: 2}"
    pairs_of 4 again "$keys, gradient_checkpointing: true" \
        "precision: {compute: bf16}" \
        "distributed: {strategy: zero3, shard_group: 2}"
    same_end keeps again
}

@test "groups of ranks and recomputed activations have the same bits, in bf16" {
    each kept
}

# on_a_drive LINE: runs of $algorithm, of which rank 1 has all images.
on_a_drive() {
    local drive="{device: nvme, path: $WORK/nvme"
    pairs_of 2 here "$keys" "distributed.strategy: zero3" "$1"
    pairs_of 2 state "$keys" "distributed: {strategy: zero1,
  offload_optimizer: $drive, tile_size: 65536}}" "$1"
    pairs_of 2 both "$keys" "distributed: {strategy: zero3,
  offload_optimizer: $drive, tile_size: 65536}, offload_param: $drive}}" "$1"
    same_end here state
    same_end here both
}

@test "an optimizer, and weights, on a drive have the same bits on image pairs" {
    need_drive
    local algorithm model=llava keys=$ALL
    algorithm="dpo" on_a_drive "dpo: {sync_ref: {enabled: true, alpha: 0.6,
  steps: 2}}"
    rm -rf ./*.out
    algorithm="rm" on_a_drive "logging: {steps: 1}"
    rm -rf ./*.out
    algorithm=dpo model=qwen2_5_vl keys=$LANGUAGE
    on_a_drive "logging: {steps: 1}"
}

@test "a reference that is computed before has the losses of one beside the model" {
    local algorithm=dpo model keys
    for model in llava qwen2_5_vl; do
        for keys in "$ALL" "$LANGUAGE"; do
            pairs_of 2 beside "$keys" "distributed.strategy: zero3"
            pairs_of 2 before "$keys" "dpo.reference.mode: precompute"
            grep 'log-probabilities of the reference' quiet.log
            same_curve beside before
            rm -rf ./*.out
        done
    done
}

@test "a reference that follows the model has the same bits on any strategy" {
    local algorithm=dpo model=llava keys
    local follow="dpo: {sync_ref: {enabled: true, alpha: 0.6, steps: 2}}"
    for keys in "$ALL" "$LANGUAGE"; do
        pairs_of 2 ddp "$keys" "$follow"
        pairs_of 2 zero3 "$keys" "$follow" "distributed.strategy: zero3"
        same_end ddp zero3
        pairs_of 2 still "$keys"
        run ! diff <(losses ddp) <(losses still)
        rm -rf ./*.out
    done
}

# adapted NAME: whether the adapter is of the run's parts.
adapted() {
    local name
    name=$("$DT_BUILDDIR/tests/job/tensors" \
        "$1.out/checkpoints/latest/adapter_model.safetensors")
    [[ $name == *"language_model"*"lora_A"* ]]
    [[ $name == *"vision_tower"* ]] || [[ $keys == "$LANGUAGE" ]]
}

@test "adapters are trained on pairs, and the model without them is the reference" {
    local algorithm model=llava keys
    local lora="adapter: {type: lora, r: 4, alpha: 8}"
    for algorithm in dpo rm; do
        for keys in "$ALL" "$LANGUAGE"; do
            pairs_of 2 ddp "$keys" "$lora"
            pairs_of 2 zero3 "$keys" "$lora" "distributed.strategy: zero3"
            same_end ddp zero3 adapter_model
            adapted ddp
            pairs_of 1 alone "$keys" "$lora" \
                "training: {per_device_batch_size: 2, max_steps: 5}"
            same_curve alone ddp
            rm -rf ./*.out
        done
    done
}

as_planned() {
    local strategy line
    for strategy in ddp zero3; do
        pairs_of 2 shared "$keys" "distributed.strategy: $strategy"
        line=$(planned shared --ntasks-per-node 2)
        echo "$strategy: $line"
        grep "memory of a rank: $line of " quiet.log
        rm -r shared.out
    done
}

@test "bytes are those of a plan" {
    each as_planned
}

killed() {
    pairs_of 2 whole "$keys" "distributed.strategy: zero3"
    ALGORITHM=$algorithm config "$model" part "model: {path: $model/model, $keys}" \
        "$(rows_of apart)" "checkpoint: {steps: 1}" \
        "distributed.strategy: zero3" \
        "training: {per_device_batch_size: 1, max_steps: 5, resume: auto}"
    DISTTRAIN_FAULT=train.step:rank=1:step=4:kill train 2 part &>part.log &&
        return 1
    quietly train 2 part
    grep 'resuming from .*/checkpoint-' quiet.log
    diff <(losses whole) <(losses part)
    cmp {whole,part}.out/checkpoints/checkpoint-5/model.safetensors
    [[ $algorithm == dpo ]] ||
        cmp {whole,part}.out/checkpoints/checkpoint-5/value_head.safetensors
}

@test "a run that is killed in a step resumes to the same bits" {
    need_faults
    each killed
}

@test "a reward model goes on where another ended" {
    local algorithm=rm model=llava start=reward
    pairs_of 1 whole "$ALL" "scheduler.name: constant"
    pairs_of 1 part "$ALL" "scheduler.name: constant" \
        "training: {per_device_batch_size: 1, max_steps: 2}"
    run -0 cat part.out/checkpoints/latest/config.json
    [[ $output == *'"LlavaModel"'* && $output == *'"id2label"'* ]]
    # the model of a policy is another one
    algorithm=dpo start=reward
    run pairs_of 1 wrong "$ALL"
    ((status != 0))
    [[ $output == *"a reward model, but algorithm dpo trains a language model"* ]]
    run -65 "$DT_BUILDDIR/disttrain" generate --model part.out --prompt a
    [[ $output == *"a reward model, which cannot continue a text"* ]]
}

@test "keys for parts and rates are those of sft" {
    local algorithm=dpo model=llava
    pairs_of 1 first "train_projector: true, train_language: false"
    grep 'vision and language frozen, projector trained' quiet.log
    pairs_of 1 rates "$ALL" "optimizer: {lr: 1.0e-3, vision_lr: 2.0e-3}"
    run pairs_of 1 wrong "stage: pretrain"
    ((status != 0))
    [[ $output == *"model.stage: only algorithm sft uses it"* ]]
}

# field KEY FILE: numbers of a key, of a side or of the margin, one per line.
field() {
    sed -E "s/.*$1:\[?([-+.e0-9]*).*/\1/" "$2"
}

# seconds MODE KEYS: of a run of dpo, planned.
seconds() {
    ALGORITHM=dpo config llava seconds "model: {path: llava/model, $2}" \
        "$(model=llava rows_of pairs)" "dpo: {reference: {mode: $1}}"
    "$DT_BUILDDIR/disttrain" plan --json seconds.yaml |
        sed -n '/"whole_run"/,/}/s/.*"seconds": //p'
}

@test "a plan counts the tower's pass for a reference of its own alone" {
    local keys none shared own
    for keys in "$LANGUAGE" "$ALL"; do
        none=$(seconds precompute "$keys")
        shared=$(seconds live "$keys")
        own=$(seconds live "$keys, reference_path: llava/model")
        echo "$keys: $none $shared $own"
        # a trained tower differs from that of any reference
        awk "BEGIN { exit !($none < $shared &&
            (\"$keys\" == \"$ALL\" ? $shared == $own : $shared < $own)) }"
    done
}

@test "a text is scored as training reads it, control tokens included" {
    printf '{"prompt": "a", "completion": "%s"}\n' 'b' 'b</s>' 'b</ s>' \
        'b<|im_end|>c' 'b<|im_ end|>c' >llava/spelled.jsonl
    # </s> ends a text, whether it is written or not
    "$DT_BUILDDIR/disttrain" generate --model llava/reward \
        --score llava/spelled.jsonl >scores
    awk '{ s[NR] = $1 } END { exit !(NR == 5 && s[1] == s[2] &&
        s[2] != s[3] && s[4] != s[5]) }' scores
    # and a mark of an image is text in any completion
    echo '{"prompt": "a", "completion": "b<image>"}' >>llava/spelled.jsonl
    "$DT_BUILDDIR/disttrain" generate --model llava/reward \
        --score llava/spelled.jsonl >more.txt
    (($(wc -l <more.txt) == 6))
    diff scores <(head -n 5 more.txt)
    sed 's/"chosen":\[{[^]]*"text":"/&<image>/' llava/pairs.jsonl \
        >llava/marked.jsonl
    "$DT_BUILDDIR/disttrain" prepare --score llava/reward --image-root llava \
        --out llava/judged.jsonl llava/marked.jsonl
    grep -q '<image>' llava/judged.jsonl
}

@test "prepare --score: pairs are compared anew by weighted reward models" {
    local algorithm=rm model=llava start=reward
    run -0 "$DT_BUILDDIR/disttrain" prepare --image-root llava \
        --score llava/reward=-1 --score llava/reward=0.25 --out llava/new.jsonl \
        llava/pairs.jsonl
    # the side with less of the score is chosen
    paste -d ' ' llava/before.txt <(field '"scores":\{"chosen"' llava/new.jsonl) \
        <(field '"margin"' llava/new.jsonl) | awk '
        { least = $1 < $2 ? $1 : $2; margin = 0.75 * ($1 + $2 - 2 * least)
          changed += $1 > $2
          d = least - $3; e = margin - $4
          if (d * d + e * e > 1e-9) { print; bad = 1 } }
        END { print changed, "changed"; exit bad || NR != 16 || changed < 2 ||
              changed > 14 }'
    [[ $output == "llava/new.jsonl: 16 pairs, of which "*" changed sides" ]]
    [[ ! -e llava/new.jsonl.part ]]
    # the same again changes nothing, and other programs read them
    run -0 "$DT_BUILDDIR/disttrain" prepare --image-root llava \
        --score llava/reward=-1 --score llava/reward=0.25 --out llava/again.jsonl \
        llava/new.jsonl
    [[ $output == *", of which 0 changed sides" ]]
    diff <(sed 's/,"scores".*//' llava/new.jsonl) \
        <(sed 's/,"scores".*//' llava/again.jsonl)
    pairs_of 1 margins "$ALL" "$(rows_of new)"

    # a picture whose pixels are damaged is named by its line
    head -c -30 llava/p0.png >llava/cut.png
    { grep -v '"images":\[\]' llava/pairs.jsonl | head -n 1 && echo &&
        sed -n 's/"images":\["p[0-9]*.png"\]/"images":["cut.png"]/p;T;q' \
            llava/pairs.jsonl; } >llava/cut.jsonl
    run -65 "$DT_BUILDDIR/disttrain" prepare --score llava/reward --out x \
        --image-root llava llava/cut.jsonl
    [[ $output == *"llava/cut.jsonl:3: image 1: a damaged PNG file: it is cut short"* ]]
    run -65 "$DT_BUILDDIR/disttrain" prepare --score llava/model --out x \
        llava/pairs.jsonl
    [[ $output == *"llava/model: a language model: --score needs a reward model"* ]]
    run -78 "$DT_BUILDDIR/disttrain" prepare --score llava/reward --out x \
        llava/pairs.jsonl
    [[ $output == *"llava/pairs.jsonl:1: image 1: p0.png: "* ]]
    run -64 "$DT_BUILDDIR/disttrain" prepare --score llava/reward llava/pairs.jsonl
    [[ $output == *"--score needs --out FILE"* ]]
    run -64 "$DT_BUILDDIR/disttrain" prepare --score llava/reward=much --out x \
        llava/pairs.jsonl
    [[ $output == *"--score: expected DIR=WEIGHT with a number, got 'llava/reward=much'"* ]]
    gzip -k llava/pairs.jsonl
    run -65 "$DT_BUILDDIR/disttrain" prepare --score llava/reward --out x \
        llava/pairs.jsonl.gz
    [[ $output == *"pairs.jsonl.gz: "*": --score writes lines of JSON, and reads them"* ]]
    [[ ! -e x ]]
}

# Pictures differ from step to step, and the number of tokens does not.
@test "the module for GPUs has the losses of the CPU, and the reference's, too" {
    local device
    export DISTTRAIN_CUDA_MODULE=${DT_CUDA_MODULE:-$DT_BUILDDIR/tests/simt/disttrain-cuda.so}
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    for device in cpu cuda; do
        ALGORITHM=dpo config llava $device "model: {path: llava/model, $LANGUAGE}" \
            "$(model=llava rows_of apart)" "precision: {compute: fp32}" \
            "training: {per_device_batch_size: 1, max_steps: 8}"
        sed -i "s/device: cpu/device: $device, deterministic: true/" $device.yaml
        quietly train 1 $device
        metrics_of $device rewards/margins >$device.txt
    done
    paste cpu.txt cuda.txt | tee both.txt
    awk '{ for (i = 1; i <= 4; i++) {
               d = $i - $(i + 4)
               if ((d < 0 ? -d : d) > 1e-4 * ($i < 0 ? -$i : $i) + 1e-5) bad = 1
           } }
        END { exit bad || NR != 8 }' both.txt
}
