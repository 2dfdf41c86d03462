#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# vision.bats - runs on text and images without Slurm: the same bits however
# ranks share them, whatever is frozen, and when they resume

bats_require_minimum_version 1.5.0

load helpers
load vision

MODELS=(llava qwen2_5_vl qwen3_vl gemma3)
# Keys that choose what is trained.
ALL="train_vision: true"
LANGUAGE="train_vision: false"
PROJECTOR="train_vision: false, train_language: false"
VISION="train_vision: true, train_projector: false, train_language: false"
CHOICES=("$ALL" "$LANGUAGE" "$PROJECTOR" "$VISION")

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-vision.XXXXXX)
    export WORK
    cd "$WORK" || return
    local model
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    make_vision qwen3_vl qwen3_vl
    make_vision gemma3 gemma3
    for model in "${MODELS[@]}"; do
        grep '"images":\[\]' "$model/train.jsonl" >"$model/text.jsonl"
        grep -v '"images":\[\]' "$model/train.jsonl" >"$model/images.jsonl"
        # rows of rank 0 of two have no image, those of rank 1 do
        awk 'NR == FNR { text[n++] = $0; next }
            { print text[FNR % n]; print }' \
            "$model/text.jsonl" "$model/images.jsonl" >"$model/apart.jsonl"
        head -n 5 "$model/train.jsonl" >"$model/eval.jsonl"
    done
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
    rm -rf ./*.out
    export OMP_NUM_THREADS=1
}

# rows FILE [LENGTH [KEYS]]: the data of a model.
rows() {
    echo "data: {train: $model/$1.jsonl, image_root: $model,
  max_length: ${2:-128}, shuffle: false, packing: none${3:+, $3}}"
}

# run_of RANKS NAME KEYS [LINE]...: a run of $model with these keys of its own.
run_of() {
    config "$model" "$2" "model: {path: $model/model, $3}" "${@:4}"
    quietly train "$1" "$2"
}

# one MODEL KEYS COMMAND [WORD]...: calls it for this model and these parts.
one() {
    local model=$1 keys=$2
    echo "$model: $keys"
    "${@:3}"
    rm -rf ./*.out
}

# some COMMAND [WORD]...: calls it for each choice, of one model or another.
some() {
    one qwen3_vl "$ALL" "$@"
    one qwen2_5_vl "$LANGUAGE" "$@"
    one gemma3 "$PROJECTOR" "$@"
    one llava "$VISION" "$@"
}

shared() {
    local strategy
    for strategy in ddp zero1 zero2 zero3; do
        run_of 2 $strategy "$keys" "distributed.strategy: $strategy"
        same_end ddp $strategy
    done
    run_of 1 alone "$keys" "training: {per_device_batch_size: 4, max_steps: 5}"
    same_curve alone ddp
}

@test "every strategy has the bits of ddp, whatever is frozen" {
    need_mpirun
    some shared
}

in_groups() {
    local strategy
    for strategy in zero2 zero3; do
        run_of 4 $strategy "$keys" "distributed: {strategy: $strategy,
  shard_group: 2}" "training: {per_device_batch_size: 1, max_steps: 5}"
        same_end zero2 $strategy
    done
}

@test "groups of ranks that share weights have one result" {
    need_mpirun
    some in_groups
}

apart() {
    local strategy
    for strategy in ddp zero1 zero2 zero3; do
        run_of 2 $strategy "$keys" "$(rows apart)" \
            "distributed.strategy: $strategy" \
            "training: {per_device_batch_size: 1, max_steps: 5}"
        same_end ddp $strategy
    done
    run_of 1 alone "$keys" "$(rows apart)"
    same_curve alone ddp
}

@test "a rank whose rows have no image waits for nobody, and adds nothing" {
    need_mpirun
    some apart
}

text_alone() {
    local strategy
    for strategy in ddp zero3; do
        run_of 2 $strategy "$keys" "$(rows text)" \
            "distributed.strategy: $strategy" \
            "training: {per_device_batch_size: 1, max_steps: 5}"
        same_end ddp $strategy
    done
}

@test "data without any image train what they can" {
    need_mpirun
    some text_alone
    # nothing goes into a tower: its weights are those of the start
    local model=llava
    run_of 1 alone "$VISION" "$(rows text)"
    cmp {llava/model,alone.out/checkpoints/latest}/model.safetensors
}

unevenly() {
    local ranks
    for ranks in 1 2; do
        # five rows: the second rank has none of the last ones
        run_of $ranks held$ranks "$keys" "data: {train: $model/train.jsonl,
  eval: $model/eval.jsonl, image_root: $model, max_length: 128, shuffle: false,
  packing: none}" "training: {train_batch_size: 4, max_steps: 5,
  eval_strategy: steps, eval_steps: 2, per_device_eval_batch_size: 2}" \
            "distributed.strategy: zero3"
    done
    same_curve held1 held2
    same_curve held1 held2 eval
}

@test "the last batch of held-out rows may be empty on a rank" {
    need_mpirun
    some unevenly
}

kept() {
    local precision="precision: {compute: bf16}"
    run_of 2 keeps "$keys" "$precision"
    run_of 2 again "$keys, gradient_checkpointing: true" "$precision" \
        "distributed.strategy: zero3"
    same_end keeps again
    run_of 2 away "$keys, gradient_checkpointing: offload" "$precision" \
        "distributed.strategy: zero2"
    same_end keeps away
}

@test "model.gradient_checkpointing: the same bits, in bf16" {
    need_mpirun
    some kept
}

offloaded() {
    run_of 2 here "$keys" "distributed.strategy: zero3"
    run_of 2 there "$keys" "distributed: {strategy: zero3,
  offload_optimizer: {device: nvme, path: $WORK/nvme, tile_size: 65536}}"
    same_end here there
}

@test "an optimizer on a drive has the same bits" {
    need_mpirun
    need_drive
    some offloaded
}

# --- parts ---

# tensors FILE: a line "name dtype hash" for each.
tensors() {
    "$DT_BUILDDIR/tests/job/tensors" "$1"
}

# frozen_names: the beginnings of the names of what $keys freeze in $model.
frozen_names() {
    local vision=vision_tower projector=multi_modal_projector
    local language=language_model
    case $model in
    qwen2_5_vl)
        vision='visual\.(patch_embed|blocks)' projector='visual\.merger'
        language='model|lm_head'
        ;;
    qwen3_vl)
        vision='model\.visual\.(patch_embed|pos_embed|blocks)'
        projector='model\.visual\.(merger|deepstack_merger_list)'
        language='model\.language_model|lm_head'
        ;;
    esac
    case $keys in
    "$ALL") echo '(none)' ;;
    "$LANGUAGE") echo "($vision)\." ;;
    "$PROJECTOR") echo "($vision|$language)\." ;;
    "$VISION") echo "($projector|$language)\." ;;
    esac
}

# What is frozen is as it was, with its dtype; of the rest, all is new.
parts_kept() {
    local names file
    names=$(frozen_names)
    # what LLaVA does not compute with is as it was, too
    [[ $model != llava ]] ||
        names="($names|.*encoder\.layers\.2\.|.*post_layernorm)"
    run_of 2 parts "$keys" "$start" "distributed.strategy: zero2"
    tensors "$from/model.safetensors" | sort >was
    tensors parts.out/checkpoints/latest/model.safetensors | sort >is
    diff <(cut -d' ' -f1,2 was) <(cut -d' ' -f1,2 is)
    diff <(grep -E "^$names" was) <(grep -E "^$names" is)
    comm -12 was is | cut -d' ' -f1 >same
    grep -E "^$names" was | cut -d' ' -f1 >frozen
    diff same frozen
    # the state of the optimizer is of what is trained alone
    grep -vE "^$names" was | cut -d' ' -f1 >trained
    for file in parts.out/checkpoints/latest/optim-*.safetensors; do
        tensors "$file"
    done | sed -E 's/^[a-z_]*\/([^ []*).*/\1/' | sort -u >state
    [[ -s state ]]
    diff state trained
    rm -r parts.out
}

@test "what is frozen stays as it was, and has neither gradients nor state" {
    need_mpirun
    local keys model start="precision: {compute: fp32}"
    for keys in "${CHOICES[@]}"; do
        for model in llava qwen2_5_vl; do
            from=$model/model one "$model" "$keys" parts_kept
        done
    done
    from=qwen3_vl/model one qwen3_vl "$PROJECTOR" parts_kept
    from=gemma3/model one gemma3 "$LANGUAGE" parts_kept
}

# step_of NAME [KEY]...: one step with these keys of the optimizer; the hashes of
# tensors that it leaves.
step_of() {
    run_of 1 "$1" "$ALL" "optimizer: {weight_decay: 0, $2}" \
        "scheduler.name: constant" \
        "training: {per_device_batch_size: 2, max_steps: 1}"
    tensors "$1.out/checkpoints/latest/model.safetensors" | sort >"$1.sums"
}

@test "each part is updated at its own rate" {
    local model=llava part
    step_of parts "lr: 1.0e-3, vision_lr: 2.0e-3, projector_lr: 4.0e-3"
    step_of language_model "lr: 1.0e-3"
    step_of vision_tower "lr: 2.0e-3"
    step_of multi_modal_projector "lr: 4.0e-3"
    for part in language_model vision_tower multi_modal_projector; do
        diff <(grep "^$part" parts.sums) <(grep "^$part" $part.sums)
    done
    # and the rates make a difference
    run ! diff <(grep ^vision_tower vision_tower.sums) \
        <(grep ^vision_tower language_model.sums)
}

@test "stage pretrain trains the projector on captions" {
    local model=llava keys="stage: pretrain" i
    for i in 0 1 2 3; do
        echo '{"messages": [{"role": "user", "content": [{"type": "image"}]},' \
            '{"role": "assistant", "content": "It is red."}],' \
            "\"images\": [\"p$i.png\"]}"
    done >llava/captions.jsonl
    run_of 1 stage "$keys" "$(rows captions)"
    grep 'vision and language frozen, projector trained: ' quiet.log
    # a model that marks images in another way has its own template
    model=qwen2_5_vl
    run_of 1 other "$keys"
    # what the stage stands for is the same run
    config qwen2_5_vl next "model: {path: qwen2_5_vl/model, $PROJECTOR}" \
        "training.resume: other.out/checkpoints/checkpoint-5"
    quietly train 1 next
}

# --- what is refused ---

# mistake TEXT LINE...: whether a configuration of these lines has this mistake,
# for check and for train.
mistake() {
    local command
    printf '%s\n' "run: {output_dir: wrong.out}" "${@:2}" >wrong.yaml
    for command in check train; do
        run "$DT_BUILDDIR/disttrain" $command wrong.yaml
        echo "$output"
        ((status == 78))
        [[ $output == *": $1"* && ! -e wrong.out ]]
    done
}

@test "a model of text refuses parts and images" {
    local data="data: {train: llava/train.jsonl, max_length: 64,
  chat_template: chatml" line
    local rows="training: {train_batch_size: 1, max_steps: 1}"
    local text="the model (llama) sees only text: remove it, or train a model with a vision tower"
    cp "$DT_SRCDIR"/tests/parity/models/llama/* .
    for line in "model.stage: pretrain" "model.train_language: false" \
        "model.train_vision: true" "model.train_projector: true" \
        "optimizer.projector_lr: 1.0e-3"; do
        mistake "${line%%:*}: $text" "algorithm: sft" \
            "model: {config_path: .}" "$data}" "$rows" "$line"
    done
    mistake "data.image_root: $text" "algorithm: sft" \
        "model: {config_path: .}" "$data, image_root: llava}" "$rows"
    mistake "model.train_language: nothing is trained: model.train_vision, train_projector and train_language are all false" \
        "algorithm: sft" "model: {path: llava/model, train_projector: false,
  train_language: false}" "$data}" "$rows"
    config llava text "model: {n_positions: 128, n_embd: 24, n_layer: 1, n_head: 2}" \
        "$data}"
    run train 1 text
    echo "$output"
    ((status == 65))
    [[ $output == *"train.jsonl:1: "*"a part of type image: only text is trained on"* ]]
}

# --- what is said ---

@test "the first lines say what is trained, and what becomes of images" {
    local model
    model=llava run_of 1 first "$LANGUAGE"
    run cat quiet.log
    echo "$output"
    [[ $output == *"16 examples in 16 rows, "*"; 17 images, 0 left out where examples were cut"* ]]
    [[ $output == *"a micro-batch has at most 4 pictures and 64 patches"* ]]
    [[ $output == *"vision frozen, projector and language trained: 22008 of 28504 parameters"* ]]
    [[ $output == *"images: the shorter side 8, the center 8 x 8, resized as torchvision does"* ]]
    model=qwen2_5_vl
    run_of 1 second "$VISION" "$(rows train 128 \
        'image_backend: pillow, image_max_pixels: 256')"
    run cat quiet.log
    echo "$output"
    [[ $output == *"projector and language frozen, vision trained: "*" of 69392 parameters"* ]]
    [[ $output == *"images: multiples of 4 x 4, 16 to 256 pixels, resized as Pillow does"* ]]
    # an example that is cut loses its image as a whole
    run_of 1 third "$ALL" "$(rows train 48)"
    grep '; [1-9][0-9]* images, [1-9][0-9]* left out where examples were cut' quiet.log
}

@test "a checkpoint says what became of images in training" {
    local model=llava
    config llava first "model: {path: llava/model, $LANGUAGE}" \
        "$(rows train 128 'image_pad: true')"
    quietly train 1 first
    grep -x 'images: .*, padded to a square, .*' quiet.log
    config llava second "model: {path: first.out, $LANGUAGE}"
    quietly train 1 second
    grep -x 'images: .*, padded to a square, .*' quiet.log
    cmp {first,second}.out/checkpoints/latest/processor_config.json
    # no class of transformers pads images of Gemma
    model=gemma3
    config gemma3 third "model: {path: gemma3/model, $LANGUAGE}" \
        "$(rows train 128 'image_pad: true')"
    quietly train 1 third
    (($(grep -c 'data.image_pad: transformers pads no images of such a model (gemma3)' \
        quiet.log) == 1))
    cmp {gemma3/model,third.out/checkpoints/latest}/processor_config.json
    model=qwen2_5_vl
    run_of 1 fourth "$LANGUAGE" "$(rows train 128 'image_max_pixels: 256')"
    config $model fifth "model: {path: fourth.out, $LANGUAGE}"
    quietly train 1 fifth
    grep 'images: multiples of 4 x 4, 16 to 256 pixels' quiet.log
}

@test "the image processor of a checkpoint is never that of the tokenizer" {
    local model=llava
    cp -r llava/model apart
    cp -r llava/model other
    rm apart/processor_config.json
    echo '{"image_processor_type": "CLIPImageProcessor", "do_center_crop": true,
        "size": {"shortest_edge": 8}, "crop_size": {"height": 8, "width": 8}}' \
        >apart/preprocessor_config.json
    config llava padded "model: {path: apart, tokenizer: other, $LANGUAGE}" \
        "$(rows train 128 'image_pad: true')"
    quietly train 1 padded
    [[ ! -e padded.out/checkpoints/latest/processor_config.json ]]
    config llava after "model: {path: padded.out, $LANGUAGE}"
    quietly train 1 after
    grep -x 'images: .*, padded to a square, .*' quiet.log
}

@test "a run saves its image processor when its model's files have gone" {
    need_faults
    local model=llava pid
    cp -r llava/model leaving
    config llava kept "model: {path: leaving, $LANGUAGE}" \
        "$(rows train 128 'image_pad: true')" "checkpoint: {steps: 1}"
    DISTTRAIN_FAULT=train.step:step=3:stop dt_background log \
        "$DT_BUILDDIR/disttrain" train kept.yaml
    pid=$!
    dt_wait_for 30 grep -q '^State:.T' "/proc/$pid/status"
    rm -r leaving
    kill -CONT "$pid"
    wait "$pid" || { cat log && return 1; }
    cmp kept.out/checkpoints/checkpoint-{1,5}/processor_config.json
    grep '"do_pad": true' kept.out/checkpoints/latest/processor_config.json
}

@test "an adapter sees images as it was trained, whatever its model says" {
    local model=llava
    cp -r llava/model base
    config llava adapted "model: {path: base, $LANGUAGE}" \
        "$(rows train 128 'image_pad: true')" \
        "adapter: {type: lora, r: 2, alpha: 4, target_modules: all-linear}"
    quietly train 1 adapted
    # also in training that goes on from it, however that is written
    local start keys="train_vision: false}"
    for start in "model: {path: adapted.out/checkpoints/latest, $keys" \
        "model: {path: base, $keys
adapter: {path: adapted.out}"; do
        rm -rf on.out
        config llava on "$start"
        quietly "$DT_BUILDDIR/disttrain" check on.yaml
        quietly "$DT_BUILDDIR/disttrain" prepare --config on.yaml
        quietly train 1 on
        grep -x 'images: .*, padded to a square, .*' quiet.log
        cmp {adapted,on}.out/checkpoints/latest/processor_config.json
    done
    rm base/*processor_config.json
    "$DT_BUILDDIR/disttrain" generate --model adapted.out --max-tokens 2 \
        --image "$(echo "$PWD"/llava/*.png | cut -d ' ' -f 1)" --prompt Hello
    grep '"do_pad": true' adapted.out/checkpoints/latest/processor_config.json
}

# flops NAME: of a token.
flops() {
    sed -n 's/.*"flops_per_token": \([-+.e0-9]*\).*/\1/p' "$1.out/logs/run.json"
}

@test "a plan counts the images of data that are prepared" {
    local model=llava memory
    config llava plan "model: {path: llava/model, $ALL}" \
        "data: {train: llava/train.jsonl, image_root: llava, max_length: 128,
  packing: none, cache_dir: cache}"
    run -0 "$DT_BUILDDIR/disttrain" plan plan.yaml
    echo "$output"
    [[ $output == *"vision, projector and language trained: 28504 of 28504 parameters"* ]]
    [[ $output == *"a micro-batch has at most 256 patches, if all its tokens are images (disttrain prepare counts those of the data)"* ]]
    [[ ! -e cache ]]
    quietly "$DT_BUILDDIR/disttrain" prepare --config plan.yaml
    run -0 "$DT_BUILDDIR/disttrain" plan plan.yaml
    echo "$output"
    [[ $output == *"resized as torchvision does; a micro-batch has at most 64 patches"$'\n'* ]]
    # the run needs what the plan says
    memory=$(sed -n 's/^ddp .* \([0-9.]* [kM]B\) .*<- auto/\1/p' <<<"$output")
    quietly train 1 plan
    grep -E "memory of a rank: .*: $(printf '%.1f' "${memory% *}") MB of " quiet.log
}

as_planned() {
    local strategy line
    for strategy in ddp zero1 zero2 zero3; do
        run_of 2 shared "$keys" "distributed.strategy: $strategy"
        line=$(planned shared --ntasks-per-node 2)
        echo "$strategy: $line"
        grep "memory of a rank: $line of " quiet.log
        rm -r shared.out
    done
}

@test "bytes are those of a plan, whatever is frozen" {
    need_mpirun
    some as_planned
}

@test "a frozen tower costs a third, by the patches of the data" {
    local model=llava
    run_of 1 all "$ALL"
    run_of 1 some "$LANGUAGE"
    # 17 images of 16 patches among 1034 tokens
    awk -v a="$(flops all)" -v b="$(flops some)" 'BEGIN {
        want = 4 * 6496 * 17 * 16 / 1034
        print a, b, want
        d = a - b - want
        exit !(d * d < 1e-6 * want * want) }'
}

# --- resumed runs ---

# killed STEP RANKS FAULT: ends a run by SIGKILL, and lets it resume.
killed() {
    local save="checkpoint: {steps: 1}"
    run_of 2 whole "$keys" "distributed.strategy: zero3"
    config "$model" part "model: {path: $model/model, $keys}" "$save" \
        "distributed.strategy: zero3" \
        "training: {per_device_batch_size: 2, max_steps: 5, resume: auto}"
    DISTTRAIN_FAULT=$1 train 2 part &>part.log && return 1
    quietly train 2 part
    grep 'resuming from .*/checkpoint-' quiet.log
    [[ $(<quiet.log) != *"changed settings"* ]]
    diff <(losses whole) <(losses part)
    cmp {whole,part}.out/checkpoints/checkpoint-5/model.safetensors
    local rank
    for rank in 0 1; do
        cmp {whole,part}.out/checkpoints/checkpoint-5/optim-rank-0000$rank-of-00002.safetensors
    done
}

@test "a run that is killed in a step resumes to the same bits" {
    need_mpirun
    need_faults
    some killed train.step:rank=1:step=4:kill
}

@test "a run that is killed in a save resumes to the same bits" {
    need_mpirun
    need_faults
    one llava "$LANGUAGE" killed ckpt.write:rank=0:step=3:kill
    one qwen2_5_vl "$ALL" killed ckpt.write:rank=0:step=3:kill
}

# refused KEYS TEXT...: whether a run with these keys does not resume, and says
# all of this.
refused() {
    config llava next "model: {path: llava/model, $1}" \
        "training.resume: whole.out/checkpoints/latest"
    run train 1 next
    echo "$output"
    ((status == 78))
    local text
    for text in "${@:2}"; do
        [[ $output == *"$text"* ]]
    done
}

@test "a run resumes only with the parts that it has trained" {
    local model=llava end="which changes what is trained; set it back, or start"
    run_of 1 whole "$LANGUAGE"
    refused "$ALL" "latest: was trained with model.train_vision false, not true, $end"
    refused "$PROJECTOR" "with model.train_language true, not false, $end"
    refused "train_projector: false" "with model.train_projector true, not false, $end"
    # the default is what the run had
    config llava next "model: {path: llava/model, train_language: true}" \
        "training.resume: whole.out/checkpoints/latest"
    quietly train 1 next
}

# unfit MODEL KEY TEXT [LINE]...: check names the key, and training ends, too.
unfit() {
    local model=$1 key=$2 text=$3
    config "$model" unfit "${@:4}"
    run -78 "$DT_BUILDDIR/disttrain" check unfit.yaml
    [[ $output == *"unfit.yaml:"*": $key: $text"* ]]
    run "$DT_BUILDDIR/disttrain" train unfit.yaml
    ((status != 0)) && [[ $output == *"$text"* ]]
    [[ ! -e unfit.out/checkpoints ]]
}

@test "an image whose pixels are damaged is named by its line" {
    local chat='"messages":[{"role":"user","content":"Look."},
        {"role":"assistant","content":"Yes."}]' good bad
    chat=${chat//$'\n'/}
    good="{\"images\":[\"p0.png\"],$chat}"
    bad="{\"images\":[\"p1.png\",\"cut.png\"],$chat}"
    head -c -30 llava/p0.png >llava/cut.png
    printf '%s\n\n%s\n' "$good" "$bad" >llava/cut.jsonl # line 2 is blank
    printf '[%s,%s]' "$good" "$bad" >llava/cut.json
    config llava cut "data: {train: [llava/cut.jsonl], image_root: llava,
  max_length: 128, shuffle: false, packing: bfd}"
    quietly "$DT_BUILDDIR/disttrain" prepare --config cut.yaml
    run -65 train 1 cut
    echo "$output"
    [[ $output == *"data: $WORK/llava/cut.jsonl:3: image 2: a damaged PNG file: \
it is cut short"* ]]
    config llava row "data: {train: [llava/eval.jsonl, llava/cut.json],
  image_root: llava, max_length: 128, shuffle: false, packing: none}"
    run -65 train 1 row
    echo "$output"
    [[ $output == *"data: $WORK/llava/cut.json: row 2: image 2: a damaged PNG"* ]]
}

@test "keys that do not fit the model's images are found by check" {
    local qwen="model: {path: qwen2_5_vl/model}"
    unfit llava data.image_max_pixels "pictures of this model (llava) have \
one size, 8 x 8 pixels: remove it" \
        "data: {train: llava/train.jsonl, max_length: 64,
  image_max_pixels: 100}"
    unfit llava data.image_min_pixels "pictures of this model (llava)" \
        "data: {train: llava/train.jsonl, max_length: 64,
  image_min_pixels: 100}"
    unfit qwen2_5_vl data.image_pad "images of this model (qwen2_5_vl) keep \
their shape, and are not padded: remove it" "$qwen" \
        "data: {train: qwen2_5_vl/train.jsonl, max_length: 64,
  image_pad: true}"
    cp -r llava/model blind
    rm -f blind/*processor_config.json
    unfit llava model.path "$PWD/blind: no preprocessor_config.json and no \
processor_config.json, which say how a model sees images" \
        "model: {path: blind}"
    cp qwen2_5_vl/model/*processor_config.json blind
    unfit llava model.path "$PWD/blind/p" "model: {path: blind}"
    [[ $output == *"is it the processor of another model?"* ]]
    rm -r blind
}
