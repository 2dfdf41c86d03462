# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# vision.bash - tiny models of images and text, with rows and runs of theirs

# make_vision NAME TEMPLATE: the model of vision_runs.json and its rows, a reward
# model of vision_pairs.json and its pairs, in NAME.
make_vision() {
    local parity=$DT_SRCDIR/tests/parity dir
    mkdir "$1"
    srcdir=$DT_SRCDIR "$DT_BUILDDIR/tests/parity/vision_dir" "$1" "$1"
    for dir in model reward; do
        cp "$parity"/vision_tokenizer/* "$1/$dir"
        cp "$parity/vision_templates/$2.jinja" "$1/$dir/chat_template.jinja"
    done
}

# config MODEL NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out, of
# $ALGORITHM or sft. A LINE replaces that of its section.
config() {
    local model=$1 name=$2 line
    local -A lines=(
        [model]="{path: $model/model, train_vision: true}"
        [data]="{train: $model/train.jsonl, image_root: $model,
  max_length: 128, shuffle: false, packing: none}"
        [training]="{per_device_batch_size: 2, max_steps: 5}"
        [optimizer]="{lr: 2.0e-3, betas: [0.9, 0.99], weight_decay: 0}"
        [logging]="{steps: 1}"
    )
    shift 2
    for line; do
        lines[${line%%:*}]=${line#*: }
    done
    {
        echo "algorithm: ${ALGORITHM:-sft}"
        echo "run: {name: $name, output_dir: $name.out, device: cpu}"
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
