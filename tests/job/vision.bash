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

# metrics_of NAME [KEY]...: "loss norm lr" of each step, and those of KEYs.
metrics_of() {
    local key n=0 files=()
    for key in loss grad_norm lr "${@:2}"; do
        files+=("$1.$((++n))")
        sed -n "s|.*\"split\": \"train\".*\"$key\": \([-+.e0-9]*\).*|\1|p" \
            "$1.out/logs/metrics.jsonl" >"$1.$n"
    done
    paste -d ' ' "${files[@]}"
}

need_mpirun() {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
}

# need_drive: state can be offloaded to $WORK/nvme.
need_drive() {
    grep -q '^#define HAVE_URING' "$DT_BUILDDIR/config.h" ||
        skip "built without liburing"
    mkdir -p nvme
    dd if=/dev/zero of=nvme/probe bs=4096 count=1 oflag=direct status=none ||
        skip "$WORK has no direct I/O"
}

need_faults() {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

# quietly COMMAND [WORD]...: its output only if it fails.
quietly() {
    "$@" &>quiet.log || { cat quiet.log && return 1; }
}

# losses NAME [SPLIT]: the losses, one per line.
losses() {
    sed -n "s/.*\"split\": \"${2:-train}\".*\"loss\": \([-+.e0-9]*\).*/\1/p" \
        "$1.out/logs/metrics.jsonl"
}

# same_end A B [FILE]: the same losses and the same weights at the end.
same_end() {
    (($(losses "$1" | wc -l) == 5))
    diff <(losses "$1") <(losses "$2")
    cmp {"$1","$2"}.out/checkpoints/latest/"${3:-model}".safetensors
}

# same_curve A B [SPLIT]: losses differ at most by rounding.
same_curve() {
    paste <(losses "$1" "${3-}") <(losses "$2" "${3-}") | awk '
        { d = $2 ? $1 / $2 - 1 : 1; if (d < 0) d = -d; if (d > max) max = d }
        END { print "largest relative difference", max
              exit !(NR > 0 && max < 1e-6) }'
}

# planned NAME [OPTION]...: the sizes of the strategy of the file, as a run says
# them: with its weights, gradients, state and all.
planned() {
    "$DT_BUILDDIR/disttrain" plan --json "${@:2}" "$1.yaml" | awk '
        function mb(bytes) { return sprintf("%.1f MB", bytes / 1e6) }
        /"taken"/ { taken = /true/ }
        taken && /"(weights|master|gradients|optimizer|tiles|activations)":/ ||
            taken && /"(reference|rewards|batches|total)":/ {
            gsub(/[",:]/, "")
            bytes[$1] = $2
        }
        END {
            if (bytes["reference"])
                printf "reference %s, ", mb(bytes["reference"])
            if (bytes["rewards"])
                printf "rewards %s, ", mb(bytes["rewards"])
            print "weights " mb(bytes["weights"] + bytes["master"]) \
                ", gradients " mb(bytes["gradients"]) ", optimizer " \
                mb(bytes["optimizer"] + bytes["tiles"]) ", activations " \
                mb(bytes["activations"]) ", batches " \
                mb(bytes["batches"]) ": " mb(bytes["total"])
        }'
}
