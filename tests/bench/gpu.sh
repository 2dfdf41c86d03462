#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - everything that is to be known of a machine with a GPU
#
# Usage: gpu.sh OUT [PART]...
#
# PART is build, test, gpt2, llama-1.5b, ops or train, by default all of them in
# this order, which has the most valuable first. No part takes more than ten
# minutes, or stops the next one; each writes OUT/PART.log, and what it found to
# OUT/SUMMARY.md and the terminal.
#
# The source tree is best one that contrib/portable has made: then nothing but
# gcc, make and the toolkit of CUDA must be installed. $BUILD is the folder with
# the program, by default `build` in the tree; $PYTHON has PyTorch, by default
# python3. Its cuDNN is taken where the toolkit has none.
#
# With MODEL=tiny, and the module of tests/simt as DISTTRAIN_CUDA_MODULE, the
# script tries itself on a machine without a GPU.

set -uo pipefail

bench=$(dirname "$(readlink -f "$0")")
source_dir=$(readlink -f "$bench/../..")
build=$(readlink -m "${BUILD:-$source_dir/build}")
python=$(command -v "${PYTHON:-python3}")
tiny=${MODEL:-}

(($# > 0)) || {
    sed -n '4,/^$/s/^# \{0,1\}//p' "$0"
    exit 64
}
out=$(readlink -m "$1")
shift
(($# > 0)) || set -- build test gpt2 llama-1.5b ops train
mkdir -p "$out" || exit
export DT_BUILDDIR=$build OMP_WAIT_POLICY=passive

# cuDNN as it comes with PyTorch
dnn=$("$python" -c '
import nvidia.cudnn
print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null)
[[ -z $dnn ]] || export LD_LIBRARY_PATH=$dnn/lib:${LD_LIBRARY_PATH-}

programs=(tests/bench/gemm tests/bench/ops tests/gpu/test_device
    tests/ops/test_ops tests/parity/test_model_dropout
    tests/parity/test_model_gradients tests/parity/test_model_logits
    tests/parity/test_model_sft)

# Machine code for this GPU only: each other architecture takes as long again.
build() {
    local options=() arch
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
        sed -n '1s/\.//p')
    [[ -z $arch ]] || options+=(--with-cuda-arch="$arch")
    [[ -z $dnn || -e /usr/local/cuda/include/cudnn.h ]] ||
        options+=(--with-cudnn="$dnn")
    if [[ -z ${BUILD-} && ! -e $build/Makefile &&
        -x $source_dir/portable/build ]]; then
        "$source_dir/portable/build" "${options[@]}" || return
    elif [[ ! -e $build/Makefile ]]; then
        mkdir -p "$build" && cd "$build" || return
        "$source_dir/configure" "${options[@]}" || return
    fi
    make -C "$build" -j"$(nproc)" all "${programs[@]}" || return
    nvidia-smi
    "$build/disttrain" info
}

# What make check-gpu runs first, line by line
check() {
    cd "$build" && sh "$source_dir/tests/gpu/gpu.sh"
}

train() {
    cd "$build" || return
    sh "$source_dir/tests/gpu/train.sh"
    ! command -v bats >/dev/null ||
        DT_SRCDIR=$source_dir \
            DT_CUDA_MODULE=${DISTTRAIN_CUDA_MODULE:-$build/disttrain-cuda.so} \
            bats "$source_dir/tests/job/cuda.bats"
}

# step MODEL: beside PyTorch
step() {
    rm -f "$out/$1.jsonl"
    "$bench/gpu_step.sh" --model "${tiny:-$1}" --rounds 2 --limit 570 \
        --out "$out/$1.jsonl" disttrain ${python:+"torch=$python"}
}

# operations MODEL SIZE B T STEPS: a table of what a step consists of
operations() {
    local config=$out/$1.json
    "$bench/disttrain_step.py" --model "$1" --print-model >"$config"
    printf '\n%s, %s x %s tokens, bf16\n\n' "$1" "$3" "$4"
    "$build/tests/bench/ops" -d cuda -t bf16 -K -r "$2" -c "$config" "${@:3}"
}

ops() {
    if [[ $tiny ]]; then
        operations tiny 32 1 16 3
        return
    fi
    operations gpt2 8192 32 1024 9
    operations llama-1.5b 8192 8 2048 5
}

# What is worth a look in the log of a part
digest() {
    case $1 in
    build) grep -E '^(CUDA|GPU|cu|attention)' "$2" ;;
    test | train) grep -E '^(ok|not ok|1\.\.|#)' "$2" ;;
    gpt2 | llama-1.5b)
        grep -E '^(\||ceiling|copies|micro|bf16|no time|exit|[^ ]*, [0-9]+ tok)' \
            "$2"
        ;;
    ops) grep -vE '^[0-9:.]+ ' "$2" ;;
    esac
}

if [[ ${DT_GPU_PART-} ]]; then # called by itself, under timeout
    case $DT_GPU_PART in
    build) build ;;
    test) check ;;
    gpt2 | llama-1.5b) step "$DT_GPU_PART" ;;
    ops) ops ;;
    train) train ;;
    esac
    exit
fi

for part; do
    [[ $part == @(build|test|gpt2|llama-1.5b|ops|train) ]] || {
        echo "gpu.sh: there is no part $part" >&2
        exit 64
    }
done
failed=0
for part; do
    status=0
    start=$SECONDS
    log=$out/$part.log
    DT_GPU_PART=$part timeout --kill-after 5 590 "$0" "$out" >"$log" 2>&1 ||
        status=$?
    ((status != 0)) || ! grep -q '^not ok' "$log" || status=1
    ((status == 0)) || failed=1
    {
        printf '\n## %s: exit status %d after %d s\n\n' "$part" "$status" \
            $((SECONDS - start))
        digest "$part" "$log"
        ((status == 0)) || [[ $part == @(test|train) ]] || tail -n 20 "$log"
    } | tee -a "$out/SUMMARY.md"
done
exit $failed
