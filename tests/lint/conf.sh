#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# conf.sh - the manual knows every key, and every example is good

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
disttrain=${DT_BUILDDIR:-.}/disttrain
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# Keys that the manual of this build lacks, and others that it has.
manual() {
    "$disttrain" check --keys | awk -F '\t' '$2 != "later" { print $1 }' |
        sort >"$data/keys"
    awk '/^\.SH / { keys = /KEYS$/; list = 0 } /^\.SS/ { list = keys }
        list && sub(/^\.B /, "")' "${DT_BUILDDIR:-.}/man/disttrain.yaml.5" |
        sed 's/\\-/-/g' | sort |
        diff "$data/keys" -
}

# One that is good says so in one line, and warns of nothing.
examples() {
    for file in configs/*.yaml; do
        set -- # the tower here has no weights
        [ "$file" != configs/vlm-pretrain.yaml ] ||
            set -- --set model.init=random
        DATA=$data MODEL=$data CHATS=$data/chats.jsonl \
            PAIRS=$data/pairs.jsonl PROMPTS=$data/prompts.jsonl REWARD=$data \
            TOWER=$data/tower CAPTIONS=$data/captions.jsonl IMAGES=$data \
            VLM=$data/vlm/composed \
            OUTPUT=$data/$(basename "$file" .yaml) \
            "$disttrain" check --world 8 "$@" "$file" 2>&1 |
            grep -vFx "$file: no mistakes"
    done
}

# A tower and a model of images and text with random weights, for examples.
towers() {
    mkdir "$data/tower"
    echo '{"model_type": "clip_vision_model", "hidden_size": 4,
        "intermediate_size": 4, "num_hidden_layers": 2,
        "num_attention_heads": 1, "image_size": 4, "patch_size": 2}' \
        >"$data/tower/config.json"
    echo '{"messages": [{"role": "user", "content": [{"type": "image"}]},
        {"role": "assistant", "content": "a"}], "image": "a.png"}' |
        tr -d '\n' >"$data/captions.jsonl"
    TOWER=$data/tower MODEL=$data CAPTIONS=$data/captions.jsonl IMAGES=$data \
        OUTPUT=$data/vlm "$disttrain" prepare --set model.init=random \
        --set data.bad_lines=1 --config configs/vlm-pretrain.yaml \
        >/dev/null 2>&1
}

# Writes each block of README.md and docs/ that is marked as yaml to a file
# named after its place.
blocks() {
    awk '
        /^```yaml$/ { file = dir "/" FILENAME ":" FNR; gsub(/docs\//, "", file)
                      next }
        /^```$/ { file = ""; next }
        file != "" { print >file }' dir="$data" README.md docs/*.md
}

documented() {
    blocks
    for file in "$data"/*.md:*; do
        "$disttrain" check --world 8 "$file" 2>&1 | grep -v ': no mistakes'
    done
}

expect_none "disttrain.yaml(5) lists every key of the schema" "$(manual)"
printf ab | tee "$data/train.bin" >"$data/val.bin"
echo '{"messages": []}' >"$data/chats.jsonl"
echo '{"chosen": "a", "rejected": "b"}' >"$data/pairs.jsonl"
echo '{"prompt": "a", "answer": "1"}' >"$data/prompts.jsonl"
cp tests/parity/models/llama/model.safetensors "$data"
sed 's/"max_position_embeddings": .*/"max_position_embeddings": 2048,/' \
    tests/parity/models/llama/config.json >"$data/config.json"
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}' \
    >"$data/tokenizer.json"
echo '{"eos_token": "b"}' >"$data/tokenizer_config.json"
sed -n '/^{% for message/p' tests/job/sft.bats >"$data/chat_template.jinja"
towers
ln -s . "$data/Qwen2.5-0.5B"
expect_none "every block of yaml in README.md and docs/ is good" \
    "$(documented)"
if [ -d /usr/share/common-licenses ]; then
    expect_none "every example is good, also on 8 ranks" "$(examples)"
else
    skip "every example is good: no /usr/share/common-licenses here"
fi
done_testing
