#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - everything that is to be known of a machine with a GPU
#
# Usage: gpu.sh OUT [PART]...
#
# PART is one of those below, by default all of them in their order: what could
# be wrong comes before what could be slow, and what much depends on first. A
# part fails if a test does, or if a figure is not what it has to be. Nothing
# follows a part that failed: what came after it could not be believed. To go on
# all the same, name the parts that are left. No part takes more than five
# minutes, but the build and a step, which may take ten.
#
# Each writes OUT/PART.log, and what it found to OUT/SUMMARY.md and the terminal:
# results beside what a model of an H200 predicts, the clocks meanwhile, and
# behind "->" likely causes with what to do.
#
#   build       configure, make, what the libraries are and which graphs they take
#   sanitize    our own kernels under the tools of compute-sanitizer
#   test        a device, each operation, models of all families
#   recorded    pairs and completions of many lengths: graphs have eager bits
#   train       whole runs, 100 steps of GPT-2 124M beside the CPU
#   sampled     runs that sample completions
#   kinds       20 steps of each kind of training; packed rows at plain rows' rate
#   ops         each operation of a step beside the roof
#   gpt2        a step of GPT-2 124M beside PyTorch
#   llama-1.5b  a step of the shape of Qwen2.5-1.5B, at 50,000 tokens/s or more
#   rates       packed rows, pairs and completions at that shape
#   decode      rollouts at that shape, beside vLLM
#   start       seconds to the first step, memory beside the plan
#   profile     each kernel of a step by name
#   ranks       a rank on each GPU: strategies, collectives, a rank that dies
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
parts=(build sanitize test recorded train sampled kinds ops gpt2 llama-1.5b
    rates decode start profile ranks)
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
        tests/bench/ops tests/bench/decode || return
    choose_cudnn
    nvidia-smi
    info
    info | grep -q '^GPU 0:' || {
        echo "not ok - there is a GPU that can be used"
        return 1
    }
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

# jobs FILE [NAME]: a file of job tests that needs no Slurm, or those of a name
jobs() {
    local bats=$source_dir/portable/bin/bats
    [[ -x $bats ]] || bats=$(command -v bats) || {
        echo "not ok - $1: there is no bats here, nor in $source_dir/portable"
        return 1
    }
    DT_SRCDIR=$source_dir \
        DT_CUDA_MODULE=${DISTTRAIN_CUDA_MODULE:-$build/disttrain-cuda.so} \
        "$bats" --tap ${2:+-f "$2"} "$source_dir/tests/job/$1.bats"
}

# step MODEL: beside PyTorch
step() {
    rm -f "$out/$1.jsonl"
    "$bench/gpu_step.sh" --model "${tiny:-$1}" --rounds 2 --limit 570 \
        --out "$out/$1.jsonl" disttrain ${python:+"torch=$python"}
}

# Whether this is the kind of GPU that rates are promised for.
hopper() {
    info 2>/dev/null | grep -qE '^GPU 0:.*(H100|H200|GH200)'
}

# fast MODEL LOG: the rate that is promised, as a line of TAP
fast() {
    local rate
    rate=$(step_rate "$2")
    [[ $1 != llama-1.5b ]] || ! hopper ||
        at_least "tokens/s of $1" "${rate:-0}" 50000
}

# decode: beside vLLM, where that Python has it
decode() {
    local vllm=()
    ! "${python:-false}" -c 'import vllm' 2>/dev/null || vllm=("vllm=$python")
    "$bench/gpu_decode.sh" --model "${tiny:-llama-1.5b}" --limit 280 \
        disttrain "${vllm[@]}"
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
    test | sanitize | recorded | train | sampled)
        grep -E '^(ok|not ok|1\.\.|#)' "$2"
        ;;
    gpt2 | llama-1.5b)
        grep -E '^(\||ceiling|copies|micro|bf16|no time|exit|ok|not ok)|^[^ ]*, [0-9]+ tok' \
            "$2"
        [[ $tiny ]] || compare_step "$1" "$2"
        ;;
    ops)
        grep -vE '^([0-9:.]+|autotune:) ' "$2" # which are kept in the log
        compare_ops "$2"
        ;;
    profile) grep -E '^(\||not ok|kernels)' "$2" ;;
    kinds | rates | decode | start | ranks)
        grep -E '^(\||ok|not ok|1\.\.0|#|exit|no time)' "$2"
        ;;
    esac
    explain "$2"
}

others='^([^r]|r[^e]|re[^c])' # tests but the "recorded passes"
if [[ ${DT_GPU_PART-} ]]; then # called by itself, under timeout
    [[ $DT_GPU_PART == build ]] || choose_cudnn
    case $DT_GPU_PART in
    build) build ;;
    test) check gpu ;;
    sanitize) LIMIT=280 check sanitize ;;
    recorded)
        jobs cuda "recorded passes"
        jobs cuda_sampled "recorded passes"
        ;;
    train)
        check train
        check curve
        jobs cuda "$others"
        ;;
    sampled) jobs cuda_sampled "$others" ;;
    kinds) check kinds ;;
    ops) ops ;;
    gpt2 | llama-1.5b)
        step "$DT_GPU_PART" | tee "$out/$DT_GPU_PART.step" &&
            fast "$DT_GPU_PART" "$out/$DT_GPU_PART.step"
        ;;
    rates) MODEL=${tiny:-llama-1.5b} check kinds ;;
    decode) decode ;;
    start) "$bench/gpu_start.sh" --model "${tiny:-gpt2}" ;;
    profile) "$bench/gpu_profile.sh" --model "${tiny:-gpt2}" "$out" ;;
    ranks) check ranks ;;
    esac
    exit
fi

# Seconds that a part may take
most() {
    case $1 in
    build | gpt2 | llama-1.5b) echo 590 ;;
    *) echo 300 ;;
    esac
}

measured='gpt2|llama-1.5b|ops|rates|decode'
while (($# > 0)); do
    part=$1
    shift
    status=0
    start=$SECONDS
    log=$out/$part.log
    [[ $part =~ ^($measured)$ ]] && clocks_begin "$out/$part.clocks"
    DT_GPU_PART=$part timeout --kill-after 5 "$(most "$part")" "$0" "$out" \
        >"$log" 2>&1 || status=$?
    [[ $part =~ ^($measured)$ ]] && clocks_end
    failed='^not ok|^1\.\.0' # a part that tests nothing, as well
    [[ $part != ranks ]] || failed='^not ok'
    ((status != 0)) || ! grep -qE "$failed" "$log" || status=1
    {
        printf '\n## %s: exit status %d after %d s\n\n' "$part" "$status" \
            $((SECONDS - start))
        digest "$part" "$log"
        clocks "$out/$part.clocks"
        ((status == 0)) || grep -q '^not ok' "$log" || tail -n 20 "$log"
        ((status == 0 || $# == 0)) ||
            echo "-> nothing more is done. To go on: gpu.sh $out $*"
    } | tee -a "$out/SUMMARY.md"
    ((status == 0)) || exit 1
done
