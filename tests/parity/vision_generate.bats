#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# vision_generate.bats - `disttrain generate` sees images, or says why not

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"

load ../job/vision

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    make_vision llava llava
    make_vision qwen2_5_vl qwen2_vl
    mkdir text tmp
    cat >text.yaml <<'END_OF_FILE'
algorithm: sft
run: {name: text, output_dir: text, device: cpu}
model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: text.yaml, max_length: 16}
training: {per_device_batch_size: 1, max_steps: 1}
END_OF_FILE
    "$DT_BUILDDIR/disttrain" train text.yaml
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    export OMP_NUM_THREADS=1 TMPDIR=$PWD/tmp
}

teardown() {
    [[ -z $(ls tmp) ]] # no file of an image has a name
}

# answer MODEL WORD...: the likeliest 12 tokens.
answer() {
    "$DT_BUILDDIR/disttrain" generate --model "$1/model" --temperature 0 \
        --max-tokens 12 "${@:2}"
}

# completion: the completions of lines.
completion() {
    sed 's/.*"completion":\("[^"]*"\)}$/\1/'
}

# refused STATUS TEXT WORD...: by the LLaVA model.
refused() {
    run "-$1" --separate-stderr answer llava "${@:3}"
    echo "$stderr"
    [[ $stderr == "disttrain: $2"* && -z $output ]]
}

@test "what a model says depends on the image that it sees" {
    local model
    for model in llava qwen2_5_vl; do
        answer "$model" --image "$model/p0.png" --prompt "Is it red?" >first
        answer "$model" --image "$model/p1.png" --prompt "Is it red?" >second
        answer "$model" --chat --prompt "Is it red?" >none
        run ! cmp first second
        run ! cmp first none
        # the same, said with a marker, and again
        answer "$model" --image "$model/p0.png" \
            --prompt "<image>Is it red?" | cmp first
        answer "$model" --chat --image "$model/p0.png" \
            --prompt "Is it red?" | cmp first
    done
}

@test "images have the order of the options, and the places of markers" {
    local two=(--image qwen2_5_vl/p0.png --image qwen2_5_vl/p1.png)
    answer qwen2_5_vl "${two[@]}" --prompt "Same?" >before
    answer qwen2_5_vl "${two[@]}" --prompt "<image><image>Same?" | cmp before
    answer qwen2_5_vl --image qwen2_5_vl/p1.png --image qwen2_5_vl/p0.png \
        --prompt "Same?" >other
    answer qwen2_5_vl "${two[@]}" --prompt "<image>Same?<image>" >around
    run ! cmp before other
    run ! cmp before around
}

@test "lines of a file have images as rows of training do" {
    local model image url
    for model in llava qwen2_5_vl; do
        image=$(answer "$model" --image "$model/p2.png" --prompt "What?" |
            base64)
        url="data:image/png;base64,$(base64 -w0 "$model/p2.png")"
        cat >lines.jsonl <<END_OF_FILE
{"messages":[{"role":"user","content":"What?"}],"images":["p2.png"]}
{"messages":[{"role":"user","content":"What?"}],"images":[]}
{"messages":[{"role":"user","content":[{"type":"image","image":"p2.png"},\
{"type":"text","text":"What?"}]}]}
{"messages":[{"role":"user","content":"What?"}],"image":"p1.png"}
{"prompt":"What?"}
{"messages":[{"role":"user","content":"What? <image>"}],"images":["p2.png"]}
{"messages":[{"role":"user","content":"What?"}],"images":["$url"]}
END_OF_FILE
        answer "$model" --image-root "$model" --prompts lines.jsonl >all
        answer "$model" --image-root "$model" --prompts lines.jsonl \
            --batch 1 | cmp all
        completion <all >said
        (($(wc -l <said) == 7))
        [[ $(sed -n 1p said) == "$(sed -n 3p said)" ]]
        [[ $(sed -n 1p said) == "$(sed -n 7p said)" ]]
        # five different prompts
        (($(sort -u said | wc -l) == 5))
        # a message alone is the first line, where a terminal can show it
        [[ $(sed -n 1p all | json_text | base64) == "$image" ]]
    done
}

# json_text: the completion of a line, as a terminal shows it.
json_text() {
    perl -MJSON::PP -CO -e '$_ = decode_json(<STDIN>)->{completion};
        s/[\x00-\x08\x0b-\x1f\x7f-\x9f]/\x{fffd}/g; print "$_\n"'
}

@test "text with marks of images is a prompt, too" {
    local mark="<|vision_start|><|image_pad|><|vision_end|>"
    cat >marks.jsonl <<END_OF_FILE
{"prompt":"${mark}It is","images":["p0.png"]}
{"prompt":"${mark}It is","images":["p1.png"]}
END_OF_FILE
    answer qwen2_5_vl --image-root qwen2_5_vl --prompts marks.jsonl |
        completion >said
    (($(sort -u said | wc -l) == 2))
    echo '{"prompt":"It is","images":["p0.png"]}' >marks.jsonl
    run -65 answer qwen2_5_vl --image-root qwen2_5_vl --prompts marks.jsonl
    [[ $output == *"marks.jsonl:1: its text has not as many <|image_pad|> as \
the pictures of its 1 image: write it once for each image, and nowhere else" ]]
}

@test "the seed decides what is sampled, and no image is drawn" {
    local words=(--image llava/p0.png --prompt "Is it?" --temperature 50
        --max-tokens 200)
    "$DT_BUILDDIR/disttrain" generate --model llava/model "${words[@]}" >first
    "$DT_BUILDDIR/disttrain" generate --model llava/model "${words[@]}" |
        cmp first
    "$DT_BUILDDIR/disttrain" generate --model llava/model "${words[@]}" \
        --seed 1 >second
    run ! cmp first second
    run ! grep -qF "<image>" first second
}

@test "a file that is no image is named" {
    refused 66 "--image nowhere.png: cannot open: No such file" \
        --image nowhere.png --prompt a
    refused 66 "--image: image 1: text.yaml: not a JPEG, PNG or WebP file" \
        --image text.yaml --prompt a
    refused 66 "--image: llava: not a regular file" --image llava --prompt a
    head -c -30 llava/p0.png >cut.png
    refused 65 "--image: image 2: a damaged PNG file: it is cut short" \
        --image llava/p1.png --image cut.png --prompt a
    echo '{"messages":[{"role":"user","content":"a"}],"images":["../text"]}' \
        >out.jsonl
    refused 66 "out.jsonl:1: image 1: ../text: outside of llava" \
        --image-root llava --prompts out.jsonl
}

@test "only an image needs a place, and a signal leaves nothing there" {
    local signal i status
    TMPDIR=/nowhere answer llava --chat --prompt "Is it red?"
    TMPDIR=/nowhere refused 73 "/nowhere: cannot create a file for images: No \
such file or directory: let TMPDIR name" --image llava/p0.png --prompt a
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
    for signal in 15 9; do
        # once it has the first image
        DISTTRAIN_FAULT=image.write:nth=2:stop "$DT_BUILDDIR/disttrain" \
            generate --model llava/model --image llava/p0.png \
            --image llava/p1.png --prompt a 3>&- &
        for ((i = 0; i < 600; i++)); do
            [[ $(cut -d' ' -f3 /proc/$!/stat) != T ]] || break
            sleep 0.1
        done
        ((i < 600))
        kill "-$signal" $!
        kill -CONT $! || true # SIGKILL has not waited for it
        status=0
        wait $! || status=$?
        ((status == 128 + signal))
        [[ -z $(ls tmp) ]]
    done
}

@test "markers and images are as many" {
    refused 65 "--image: 1 image for 2 places in the messages: expected as \
many parts of the type image, or markers <image>, as images" \
        --image llava/p0.png --prompt "<image>a<image>"
    refused 65 "--image: 2 images for 1 place in the messages" \
        --image llava/p0.png --image llava/p1.png --prompt "<image>a"
}

@test "a model without a tower sees no image" {
    mkdir -p plain
    ln -sfn ../text plain/model
    run -65 answer plain --image llava/p0.png --prompt a --chat-template chatml
    [[ $output == *"disttrain: --image: the model sees only text: it has no \
vision tower" ]]
    echo '{"prompt":"a","images":["p0.png"]}' >images.jsonl
    run -65 answer plain --prompts images.jsonl
    [[ $output == "disttrain: images.jsonl:1: images: the model sees only \
text: leave it out, or take a model with a vision tower" ]]
    echo '{"prompt":"a","images":[],"image":null}' >images.jsonl
    run -0 answer plain --prompts images.jsonl
}

@test "an image needs a message, and a root needs lines" {
    run -64 answer llava --image llava/p0.png --tokens 1
    [[ $output == *"--image needs --prompt"* ]]
    run -64 answer llava --image-root llava --prompt a
    [[ $output == *"--image-root needs --prompts or --score"* ]]
}

@test "a model without its image processor is refused by the file's name" {
    cp -r llava/model bare
    rm bare/processor_config.json
    run -66 "$DT_BUILDDIR/disttrain" generate --model bare --prompt a
    [[ $output == "disttrain: "*"/bare: no preprocessor_config.json and no \
processor_config.json, which say how a model sees images: copy those of the \
model into it" ]]
}
