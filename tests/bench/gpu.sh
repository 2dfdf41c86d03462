#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - everything that is to be known of a machine with a GPU
#
# Usage: gpu.sh OUT [PART]...
#
# PART is build, test, sanitize, train, sampled, gpt2, ops, llama-1.5b, profile
# or kinds, by default all of them in this order, which finds the likeliest
# mistakes first. No part takes more than ten minutes, or stops the next one,
# except that nothing is done after a build whose cuDNN cannot be used: name the
# other parts to go on without. Each writes OUT/PART.log, and what it found to
# OUT/SUMMARY.md and the terminal: results beside what a model of an H200
# predicts, the clocks meanwhile, and behind "->" likely causes with what to do.
#
# The source tree is best one that contrib/portable has made: then nothing but
# gcc, g++, make, python3 and the CUDA toolkit must be installed. $BUILD is the
# folder with the program, by default `build` in the tree; $PYTHON has PyTorch,
# by default python3. Its cuDNN is taken where no other can be used.
#
# With MODEL=tiny, and the module of tests/simt as DISTTRAIN_CUDA_MODULE, the
# script tries itself on a machine without a GPU.

set -uo pipefail

bench=$(dirname "$(readlink -f "$0")")
source_dir=$(readlink -f "$bench/../..")
build=$(readlink -m "${BUILD:-$source_dir/build}")
python=$(command -v "${PYTHON:-python3}")
tiny=${MODEL:-}
parts=(build test sanitize train sampled gpt2 ops llama-1.5b profile kinds)
# shellcheck source=tests/bench/gpu.bash
. "$bench/gpu.bash"

(($# > 0)) || {
    sed -n '4,/^$/s/^# \{0,1\}//p' "$0"
    exit 64
}
out=$(readlink -m "$1")
shift
for part; do
    [[ " ${parts[*]} " == *" $part "* ]] || {
        echo "gpu.sh: there is no part $part, but ${parts[*]}" >&2
        exit 64
    }
done
(($# > 0)) || set -- "${parts[@]}"
mkdir -p "$out" || exit
export DT_BUILDDIR=$build OMP_WAIT_POLICY=passive

# --- libraries ---

info() {
    "$build/disttrain" info
}

# Whether a run would use cuDNN: nothing stands behind its version.
cudnn_usable() {
    grep -qE '^GPU attention: +cuDNN [0-9.]+$' <<<"$(info 2>/dev/null)"
}

# The folder of cuDNN as it comes with PyTorch
wheel() {
    "${python:-false}" -c '
import nvidia.cudnn
print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null
}

# Adds that folder where no other cuDNN can be used.
choose_cudnn() {
    local folder
    [[ -x $build/disttrain ]] && ! cudnn_usable && folder=$(wheel) || return 0
    export LD_LIBRARY_PATH=$folder/lib:${LD_LIBRARY_PATH-}
    echo "cuDNN: that of $folder"
}

# --- parts ---

# Machine code for this GPU only: each other architecture takes as long again.
configure() {
    local options=() arch folder
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
        sed -n '1s/\.//p')
    [[ -z $arch ]] || options+=(--with-cuda-arch="$arch")
    [[ -e /usr/local/cuda/include/cudnn.h ]] || ! folder=$(wheel) ||
        options+=(--with-cudnn="$folder")
    if [[ -z ${BUILD-} && -x $source_dir/portable/build ]]; then
        "$source_dir/portable/build" "${options[@]}"
    else
        mkdir -p "$build" && cd "$build" &&
            "$source_dir/configure" "${options[@]}"
    fi
}

build() {
    [[ -e $build/Makefile ]] || configure || return
    make -C "$build" -j"$(nproc)" all gpu-programs tests/bench/gemm \
        tests/bench/ops || return
    choose_cudnn
    nvidia-smi
    info
    cd "$build" || return
    [[ ! -x tests/gpu/test_cudnn ]] || # built without CUDA
        CMOCKA_MESSAGE_OUTPUT=TAP sh "$source_dir/tests/cmocka.sh" \
            tests/gpu/test_cudnn || return
    cudnn_usable || {
        echo "cuDNN cannot be used: attention would be slow, and nothing that" \
            "is measured true of it"
        return 1
    }
}

# What make check-gpu runs first, line by line
check() {
    cd "$build" && sh "$source_dir/tests/gpu/$1.sh"
}

# jobs FILE: a file of job tests that needs no Slurm
jobs() {
    local bats=$source_dir/portable/bin/bats
    [[ -x $bats ]] || bats=$(command -v bats) || {
        echo "not ok - $1: there is no bats here, nor in $source_dir/portable"
        return 1
    }
    DT_SRCDIR=$source_dir \
        DT_CUDA_MODULE=${DISTTRAIN_CUDA_MODULE:-$build/disttrain-cuda.so} \
        "$bats" --tap "$source_dir/tests/job/$1.bats"
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
    DISTTRAIN_AUTOTUNE=log,fresh "$build/tests/bench/ops" -d cuda -t bf16 -K \
        -r "$2" -c "$config" "${@:3}"
}

ops() {
    if [[ $tiny ]]; then
        operations tiny 32 1 16 3
        return
    fi
    operations gpt2 8192 32 1024 9
    operations llama-1.5b 8192 8 2048 5
}

# --- what is worth a look in the log of a part ---

digest() {
    case $1 in
    build)
        grep -E '^(CUDA|GPU|cu|attention|ok|not ok|1\.\.)' "$2"
        ;;
    test | sanitize | train | sampled) grep -E '^(ok|not ok|1\.\.|#)' "$2" ;;
    gpt2 | llama-1.5b)
        grep -E '^(\||ceiling|copies|micro|bf16|no time|exit|[^ ]*, [0-9]+ tok)' \
            "$2"
        [[ $tiny ]] || compare_step "$1" "$2"
        ;;
    ops)
        grep -vE '^([0-9:.]+|autotune:) ' "$2" # which are kept in the log
        compare_ops "$2"
        ;;
    profile) grep -E '^(\||not ok|kernels)' "$2" ;;
    kinds) grep -E '^(\||ok|not ok|#|->)' "$2" ;;
    esac
    explain "$2"
}

if [[ ${DT_GPU_PART-} ]]; then # called by itself, under timeout
    [[ $DT_GPU_PART == build ]] || choose_cudnn
    case $DT_GPU_PART in
    build) build ;;
    test) check gpu ;;
    sanitize) check sanitize ;;
    train)
        check train
        jobs cuda
        ;;
    sampled) jobs cuda_sampled ;;
    gpt2 | llama-1.5b) step "$DT_GPU_PART" ;;
    ops) ops ;;
    profile) "$bench/gpu_profile.sh" --model "${tiny:-gpt2}" "$out" ;;
    kinds) check kinds ;;
    esac
    exit
fi

failed=0
for part; do
    status=0
    start=$SECONDS
    log=$out/$part.log
    [[ $part == @(gpt2|llama-1.5b|ops) ]] && clocks_begin "$out/$part.clocks"
    DT_GPU_PART=$part timeout --kill-after 5 590 "$0" "$out" >"$log" 2>&1 ||
        status=$?
    [[ $part == @(gpt2|llama-1.5b|ops) ]] && clocks_end
    ((status != 0)) || ! grep -q '^not ok' "$log" || status=1
    ((status == 0)) || failed=1
    {
        printf '\n## %s: exit status %d after %d s\n\n' "$part" "$status" \
            $((SECONDS - start))
        digest "$part" "$log"
        clocks "$out/$part.clocks"
        ((status == 0)) ||
            [[ $part == @(test|sanitize|train|sampled) ]] || tail -n 20 "$log"
        [[ $part != build ]] || ((status == 0)) ||
            echo "-> nothing more is done. To go on: gpu.sh $out test ..."
    } | tee -a "$out/SUMMARY.md"
    [[ $part != build ]] || ((status == 0)) || break
done
exit $failed
