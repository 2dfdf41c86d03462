#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# compose.bats - runs whose model is made of a tower and a language model

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-compose.XXXXXX)
    export WORK OMP_NUM_THREADS=1
    dt_cluster_up --nodes 2 --cpus 2
    cd "$WORK" || return
    make_halves
    make_data
    make_config
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
}

# make_halves: two towers and a language model, without weights.
make_halves() {
    mkdir clip siglip text
    cp "$DT_SRCDIR"/tests/parity/chat_tokenizer/* text
    cat >text/config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
 "vocab_size": 338, "hidden_size": 16, "intermediate_size": 16,
 "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "bos_token_id": 332, "eos_token_id": 331}
END
    local tower
    for tower in clip siglip; do
        cat >$tower/config.json <<END
{"model_type": "${tower}_vision_model", "hidden_size": 8,
 "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
 "image_size": 8, "patch_size": 4}
END
    done
}

# make_data: four pictures of a pixel and their captions.
make_data() {
    base64 -d >dot.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==
END
    local i
    for i in 1 2 3 4; do
        printf '{"images": ["dot.png"], "messages": [{"role": "user", '
        printf '"content": [{"type": "image"}]}, {"role": "assistant", '
        printf '"content": "A dot, the %d. of its kind."}]}\n' "$i"
    done >data.jsonl
}

make_config() {
    cat >run.yaml <<'END'
algorithm: sft
run: {name: run, output_dir: out}
model: {vision: clip, language: text, init: random, stage: pretrain}
data: {train: data.jsonl, image_root: ., max_length: 64}
training: {train_batch_size: 2, max_steps: 4}
checkpoint: {strategy: steps, steps: 2}
optimizer.lr: 1.0e-3
logging.steps: 1
END
}

disttrain() {
    "$DT_BUILDDIR/disttrain" "$@"
}

@test "a model that is not made yet is checked and planned" {
    run -0 disttrain check run.yaml
    [[ $output == *"run.yaml: no mistakes" ]]
    run -0 disttrain plan run.yaml
    [[ $output == *"run.yaml: llava, "* ]]
    [[ ! -e out ]]
    run -78 disttrain check --set model.init=pretrained run.yaml
    [[ $output == *": model.language: $WORK/text: "*"; model.init: random makes new ones" ]]
}

@test "a configuration is dumped without the directory that it will make" {
    disttrain check --resolved run.yaml >resolved.yaml
    run -1 grep -q composed resolved.yaml
    disttrain check resolved.yaml
}

@test "keys that do not fit a model of two halves are refused" {
    run -78 disttrain check --set model.path=text run.yaml
    [[ $output == *": model.vision: cannot be used with model.path: write the directory of the language model as model.language" ]]
    sed 's/, language: text//' run.yaml >half.yaml
    run -78 disttrain check half.yaml
    [[ $output == *": model.vision: needs model.language: "* ]]
    run -78 disttrain check --set model.tokenizer=byte run.yaml
    [[ $output == *": model.tokenizer: cannot be used with model.vision: "* ]]
    sed 's/vision: clip, language: text, init: random, stage: pretrain/path: text, vision_feature_layer: -1/' \
        run.yaml >whole.yaml
    run -78 disttrain check whole.yaml
    [[ $output == *": model.vision_feature_layer: needs model.vision: "* ]]
}

@test "the names of LLaVA's scripts mean the same" {
    sed 's/^model: .*/model: {init: random, stage: pretrain, language: text}/' \
        run.yaml >llava.yaml
    printf '%s\n' 'vision_tower: clip' 'mm_vision_select_layer: -1' \
        'mm_vision_select_feature: cls_patch' >>llava.yaml
    run -0 disttrain check --resolved llava.yaml
    [[ $output == *"vision: \"$WORK/clip\""* ]]
    [[ $output == *"vision_feature_layer: -1"* ]]
    [[ $output == *"vision_feature_select_strategy: full"* ]]
}

@test "a run makes its model once, and resumes from there" {
    run -0 disttrain train --set training.max_steps=2 run.yaml
    [[ $output == *"$WORK/out/composed: made of the tower of $WORK/clip and the language model of $WORK/text; "* ]]
    [[ $output == *"its vocabulary has 384 tokens, 46 more than the language model"* ]]
    made=$(stat -c '%n %Y %i' out/composed/*)
    run -0 disttrain train --set training.resume=auto run.yaml
    [[ $output != *"made of the tower"* ]]
    [[ $output == *"done: 2 steps"* ]]
    [[ $(stat -c '%n %Y %i' out/composed/*) == "$made" ]]
    cmp out/composed/tokenizer.json out/checkpoints/latest/tokenizer.json
    cmp out/composed/processor_config.json \
        out/checkpoints/latest/processor_config.json
}

@test "a model that was made of other directories is refused, or made again" {
    run -78 disttrain train --set training.resume=auto \
        --set model.vision=siglip run.yaml
    [[ $output == *"$WORK/out/composed was made with model.vision $WORK/clip, not $WORK/siglip: set it back, or "* ]]
    run -78 disttrain check --set model.vision=siglip run.yaml
    [[ $output == *": model.vision: $WORK/out/composed was made with "* ]]
    run -0 disttrain train --set run.overwrite=true \
        --set model.vision=siglip run.yaml
    [[ $output == *"made of the tower of $WORK/siglip "* ]]
    grep -q siglip out/composed/config.json
}

@test "a run that is refused makes no model" {
    mkdir full
    touch full/file
    run -73 disttrain train --set run.output_dir=full run.yaml
    [[ $output == *"run.output_dir is not empty"* ]]
    [[ ! -e full/composed ]]
}

@test "the model of prepare is that of the run, with one rank and with two" {
    disttrain train --set run.output_dir=one run.yaml
    run -0 disttrain prepare --config run.yaml --set run.output_dir=two
    [[ $output == *"data.jsonl: 4 examples, "* ]]
    cmp one/composed/model.safetensors two/composed/model.safetensors
    dt_setup
    run -0 dt_srun -N2 --ntasks-per-node=1 --disttrain=run.yaml \
        --disttrain-set=run.output_dir=two
    [[ $output != *"made of the tower"* ]]
    run -0 dt_srun -N2 --ntasks-per-node=1 --disttrain=run.yaml \
        --disttrain-set=run.output_dir=both
    [[ $(grep -c "made of the tower" <<<"$output") == 1 ]]
    cmp one/composed/model.safetensors both/composed/model.safetensors
    cmp two/checkpoints/latest/model.safetensors \
        both/checkpoints/latest/model.safetensors
}

@test "a trained model is exported, and is the path of a second stage" {
    disttrain export one second
    [[ -f second/preprocessor_config.json && -f second/chat_template.jinja ]]
    sed 's/vision: clip, language: text, init: random, stage: pretrain/path: one, stage: sft/' \
        run.yaml >second.yaml
    run -0 disttrain train --set run.output_dir=third \
        --set data.max_length=256 second.yaml
    [[ $output == *"model.path: $WORK/one: its newest checkpoint is checkpoint-4"* ]]
}

@test "lines of text alone train a model of images and text" {
    sed 's/"images": .*"content": \[.*\]}, /"messages": [{"role": "user", "content": "What?"}, /' \
        data.jsonl >text.jsonl
    run -0 disttrain train --set run.output_dir=fourth \
        --set data.train=text.jsonl second.yaml
    [[ $output == *"done: 4 steps"* ]]
}
