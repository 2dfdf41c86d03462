#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# transformers.bats - model directories go both ways
#
# Needs a Python with transformers: python3, or $DT_REFERENCE_PYTHON.

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"
: "${DT_REFERENCE_PYTHON:=python3}"

FAMILIES=(gpt2 llama llama_linear mistral qwen2 qwen3)
# Of families.json, made when they are needed: with a classifier, and without.
VARIANTS=(gemma2 gemma3 olmo2 phi3 smollm3)
OTHERS=(granite)
IDS="7 0 3 78 24 24 51 4 1 15 41 16 13 60 2 9 33 70 5 5"

setup() {
    echo "import transformers, torch" | "$DT_REFERENCE_PYTHON" - 2>/dev/null ||
        skip "$DT_REFERENCE_PYTHON has no transformers"
    cd "$BATS_TEST_TMPDIR" || return
    export OMP_NUM_THREADS=1
}

peer() {
    "$DT_REFERENCE_PYTHON" - "$@" <"$DT_SRCDIR/tests/parity/peer.py"
}

# same DIR...: disttrain and transformers find the same logits in each.
same() {
    local dir
    for dir; do
        # shellcheck disable=SC2086 # a list
        "$DT_BUILDDIR/tests/parity/logits_probe" "$dir" $IDS >"$dir.logits"
    done
    peer compare "$IDS" "${@/#/$PWD/}"
}

# models NAME...: random models of these variants in models/.
models() {
    peer make "$DT_SRCDIR/tests/parity/families.json" models "$@"
}

# model NAME: where it is.
model() {
    local dir=$DT_SRCDIR/tests/parity/models/$1
    [[ -d $dir ]] || dir=$PWD/models/$1
    echo "$dir"
}

# train FAMILY [LINE]...: two steps, checkpoint in FAMILY.out; LINEs come last.
train() {
    tr -dc '!-@' <"$DT_SRCDIR/LICENSE" | sed 's/./&\x00/g' | tr -d '\n' \
        >tokens.bin
    cat >"$1.yaml" <<END
algorithm: sft
run: {output_dir: $1.out}
model: {path: $(model "$1")}
data: {train: tokens.bin, format: tokens_bin, max_length: 16}
optimizer: {lr: 1.0e-2}
scheduler: {name: constant}
training: {train_batch_size: 4, max_steps: 2}
END
    printf '%s\n' "${@:2}" >>"$1.yaml"
    "$DT_BUILDDIR/disttrain" train "$1.yaml"
}

@test "transformers gives the logits of what was trained here" {
    local family all=("${FAMILIES[@]}" "${VARIANTS[@]}" "${OTHERS[@]}")
    models "${VARIANTS[@]}" "${OTHERS[@]}"
    for family in "${all[@]}"; do
        train "$family"
        mv "$(realpath "$family.out/checkpoints/latest")" "$family"
        run ! cmp -s "$(model "$family")/model.safetensors" \
            "$family/model.safetensors"
    done
    same "${all[@]}"
}

@test "transformers gives the logits of what was exported" {
    local type family
    for type in fp32 bf16 fp16; do
        "$DT_BUILDDIR/disttrain" export --dtype "$type" \
            --max-shard-size 40KB "$DT_SRCDIR/tests/parity/models/qwen3" "$type"
    done
    [[ -e bf16/model.safetensors.index.json ]]
    models "${VARIANTS[@]}" "${OTHERS[@]}"
    for family in "${VARIANTS[@]}" "${OTHERS[@]}"; do
        "$DT_BUILDDIR/disttrain" export --dtype bf16 "models/$family" "$family"
    done
    same fp32 bf16 fp16 "${VARIANTS[@]}" "${OTHERS[@]}"
}

@test "what transformers saves is read: in parts, in 16 bits" {
    cp -r "$DT_SRCDIR/tests/parity/models" .
    peer save "$PWD" 40KB "${FAMILIES[@]/#/$PWD/models/}"
    [[ -e qwen3.bf16/model.safetensors.index.json ]]
    same "${FAMILIES[@]/%/.f32}" "${FAMILIES[@]/%/.bf16}" "${FAMILIES[@]/%/.f16}"
}

# tokenizer: for a model with 79 tokens, which has nothing to do.
tokenizer() {
    awk 'BEGIN {
        printf "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {"
        for (i = 0; i < 79; i++)
            printf "%s\"t%d\": %d", i ? ", " : "", i, i
        print "}}, \"added_tokens\": []}"
    }' >tokenizer.json
}

# The head is new, and is trained from the models for texts.
@test "transformers gives the scores of reward models that were trained here" {
    local family runs=$DT_SRCDIR/tests/parity/preference_runs.json
    local all=("${FAMILIES[@]}" "${VARIANTS[@]}")
    models "${VARIANTS[@]}"
    tokenizer
    grep -o '"prompt_ids".*"margin"' "$runs" |
        sed 's/.*/{&: 0}/' | head -n 16 >pairs.jsonl
    sed 's/.*"chosen_ids"/{"input_ids"/; s/,"rejected_ids.*/}/' pairs.jsonl \
        >texts.jsonl
    for family in "${all[@]}"; do
        cat >"$family.yaml" <<END
algorithm: rm
run: {output_dir: $family.out}
model: {path: $(model "$family"), tokenizer: $PWD}
data: {train: pairs.jsonl, max_length: 24}
optimizer: {lr: 1.0e-2}
scheduler: {name: constant}
training: {train_batch_size: 4, max_steps: 3}
END
        "$DT_BUILDDIR/disttrain" train "$family.yaml"
        "$DT_BUILDDIR/disttrain" export "$family.out" "$family"
        "$DT_BUILDDIR/disttrain" generate --model "$family" \
            --score texts.jsonl >"$family.scores"
    done
    peer score texts.jsonl "${all[@]/#/$PWD/}"
}

@test "a family without classifiers is no reward model" {
    models "${OTHERS[@]}"
    tokenizer
    echo '{"prompt": "a", "chosen": "b", "rejected": "c"}' >pairs.jsonl
    cat >granite.yaml <<END
algorithm: rm
run: {output_dir: granite.out}
model: {path: models/granite, tokenizer: $PWD}
data: {train: pairs.jsonl, max_length: 24}
training: {train_batch_size: 1, max_steps: 1}
END
    run "$DT_BUILDDIR/disttrain" train granite.yaml
    ((status == 78))
    [[ $output == *"has no sequence classifiers of the family granite"* ]]
}

# What follows is computed with a cache here, and without one there.
@test "transformers continues prompts with the same tokens" {
    local family
    models "${VARIANTS[@]}" "${OTHERS[@]}"
    tokenizer
    for family in "${VARIANTS[@]}" "${OTHERS[@]}"; do
        cp tokenizer.json "models/$family"
        "$DT_BUILDDIR/disttrain" generate --model "models/$family" \
            --tokens "${IDS// /,}" --max-tokens 24 --temperature 0 \
            >"models/$family.ids"
    done
    peer continue "$IDS" 24 "${VARIANTS[@]/#/$PWD/models/}" \
        "${OTHERS[@]/#/$PWD/models/}"
}

# Without its cache, which keeps all keys where it should keep none.
@test "transformers gives the logits of a window of one token" {
    cp -r "$DT_SRCDIR/tests/parity/models/mistral" window
    sed -i 's/"sliding_window": 8/"sliding_window": 1/' window/config.json
    grep -q '"sliding_window": 1,' window/config.json
    same window
}

@test "transformers loads models that were made of a tower and a language model" {
    local tower family made=()
    peer towers towers
    tokenizer
    for family in llama qwen2; do
        cp -r "$(model "$family")" "$family"
        cp tokenizer.json "$family"
        echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "t2"}' \
            >"$family/tokenizer_config.json"
    done
    cat >made.yaml <<'END'
algorithm: sft
run: {name: made}
model: {vision: towers/clip, language: llama}
data: {train: data.jsonl, max_length: 64}
training.train_batch_size: 1
END
    printf '{"messages": [{"role": "user", "content": "t7"}, %s]}\n' \
        '{"role": "assistant", "content": "t8"}' >data.jsonl
    for tower in clip clip_tower siglip siglip_tower; do
        family=llama
        [[ $tower != *_tower ]] || family=qwen2
        "$DT_BUILDDIR/disttrain" prepare --config made.yaml \
            --set "run.output_dir=$tower" --set "model.vision=towers/$tower" \
            --set "model.language=$family"
        made+=("$tower/composed" "towers/$tower" "$family")
    done
    peer halves "${made[@]}"
}

# The lines of docs/images.md, with DIR and conversations.
@test "the manual's lines give the scores of reward models of images" {
    load ../job/vision
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    local model
    for model in llava qwen2_5_vl; do
        ALGORITHM="rm" config $model $model "model: {path: $model/reward}" \
            "data: {train: $model/pairs.jsonl, image_root: $model, max_length: 128}"
        train 1 $model
        sed -E 's/"prompt":\[(.*)\],"chosen":\[(.*)\],"rejected":.*,("images":.*)/"messages":[\1,\2],\3/' \
            $model/pairs.jsonl >chosen.jsonl
        "$DT_BUILDDIR/disttrain" generate --model $model.out --image-root $model \
            --score chosen.jsonl >ours
        {
            echo "import json, sys"
            echo "DIR, folder = sys.argv[1:]"
            awk -v mark='```' '$0 == mark { here = 0 } here { print }
                $0 == mark "python" { here = 1 }' "$DT_SRCDIR/docs/images.md"
            cat <<'END'
for line in open("chosen.jsonl"):
    row = json.loads(line)
    for message in row["messages"]:
        for part in message["content"]:
            if part["type"] == "image":
                part["path"] = f"{folder}/{row['images'].pop(0)}"
    print(score(row["messages"]))
END
        } >score.py
        "$DT_REFERENCE_PYTHON" score.py $model.out/checkpoints/latest $model >theirs
        paste ours theirs | awk '
            { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d }
            END { print "largest difference", most; exit !(NR == 16 && most < 1e-5) }'
    done
}

@test "transformers has each weight of a reward model of Gemma 3" {
    load ../job/vision
    make_vision gemma3 gemma3
    ALGORITHM="rm" config gemma3 gemma3 "model: {path: gemma3/reward}" \
        "data: {train: gemma3/pairs.jsonl, image_root: gemma3, max_length: 128}"
    train 1 gemma3
    cat >weights.py <<'END'
from transformers import AutoModelForSequenceClassification as M
model, found = M.from_pretrained(
    "gemma3.out/checkpoints/latest", output_loading_info=True)
assert type(model).__name__ == "Gemma3ForSequenceClassification"
assert not any(found.values()), found
END
    "$DT_REFERENCE_PYTHON" weights.py
}
