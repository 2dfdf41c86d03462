#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_step.sh - the time of an optimizer step of one rank on a GPU
#
# Usage: gpu_step.sh [--model gpt2|llama-1.5b|tiny] [--rounds N] [--steps N]
#                    [--limit SECONDS] [--out FILE] PEER...
#
# GPT-2 124M, 512 x 1024 tokens a step, or a model of the shape of Qwen2.5-1.5B,
# 32 x 2048 tokens; in bf16. PEER is disttrain or torch=PYTHON. First the ceiling,
# by matrix products in the same minutes. Then each peer takes a few steps
# with each of some micro-batches, and goes on with its best one, in rounds
# that run each peer once; in the end PyTorch tries what its compiler finds in
# max-autotune-no-cudagraphs. --limit is for all of it, 570 s by default:
# what no time is left for is left out, and said so.
#
# tiny tries the script itself, anywhere: with DISTTRAIN_CUDA_MODULE the module
# of tests/simt, and with PyTorch on the CPU.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--model --rounds --steps --limit --out" "$@"
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1

torch=(--bf16 --device cuda)
compile=(--compile default)
vocab=50257
case $model in
gpt2)
    rows=512 row_tokens=1024 batches=(16 32 64) square=8192
    # its best users pad the vocabulary, which is not to be divided by 2
    torch+=(--vocab 50304)
    script=torch_gpt2.py
    ;;
llama-1.5b)
    rows=32 row_tokens=2048 batches=(4 8 16) square=8192
    torch+=(--width 1536 --inner 8960 --layers 28 --heads 12)
    script=torch_llama.py
    ;;
tiny)
    rows=4 row_tokens=16 batches=(1 2) square=32 vocab=256
    torch=(--bf16 --vocab 256 --positions 64 --width 16 --layers 2 --heads 2)
    compile=()
    script=torch_gpt2.py
    ;;
*) die "there is no model $model" ;;
esac

# within COMMAND...: in what is left of the limit.
within() {
    local left=$((limit - SECONDS))
    if ((left < 20)); then
        echo "no time is left for: $*" >&2
        return 0
    fi
    timeout "$left" "$@" || echo "exit status $?: $*" >&2
}

# run PEER BATCH STEPS FILE [OPTION]...: adds a line to FILE; OPTION is for PyTorch
run() {
    local peer=$1 file=$4
    local args=(--data "$work/tokens.bin" --tokens "$row_tokens" --warmup 2
        --batch "$2" --accumulate $((rows / $2)) --steps "$3")
    shift 4
    case $peer in
    disttrain)
        within "$bench/disttrain_step.py" --disttrain "$builddir/disttrain" \
            --device cuda --precision bf16 --model "$model" \
            "${args[@]}"
        ;;
    torch=*)
        within env BENCH_START="$EPOCHREALTIME" "${peer#*=}" \
            "$bench/$script" "${args[@]}" "${torch[@]}" "$@"
        ;;
    *) die "there is no peer $peer" ;;
    esac >>"$file"
}

summary() {
    "$bench/summary.py" --config "$work/config.json" --tokens "$row_tokens" \
        --ceiling "$ceiling" "$@"
}

"$bench/disttrain_step.py" --model "$model" --print-model \
    >"$work/config.json"
tokens "$work/tokens.bin" "$vocab"
touch "$work/search" "$out"
within "$builddir/tests/bench/gemm" -d cuda -s "$square" \
    -c "$work/config.json" "${batches[0]}" "$row_tokens" 3 | tee "$work/gemm"
ceiling=$(sed -n 's/^ceiling: \([0-9.]*\) .*/\1/p' "$work/gemm")
[[ -n $ceiling ]] || die "no rate of matrix products"

for batch in "${batches[@]}"; do
    for peer in "${peers[@]}"; do
        run "$peer" "$batch" 4 "$work/search" "${compile[@]}"
    done
done
printf '\nmicro-batches:\n\n'
summary "$work/search"

# with_best PEER [OPTION]...: as run; nothing if the peer never worked
with_best() {
    local best
    best=$(summary --best "${1%%=*}" "$work/search")
    [[ -z $best ]] || run "$1" "$best" "$steps" "$out" "${@:2}"
}

for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        with_best "$peer" "${compile[@]}"
    done
done
for peer in "${peers[@]}"; do
    if [[ $peer == torch=* ]] && ((${#compile[@]})); then
        with_best "$peer" --compile max-autotune-no-cudagraphs \
            --suffix ", max-autotune"
    fi
done
printf '\n%s, %d tokens a step, the best micro-batch of each:\n\n' "$model" \
    $((rows * row_tokens))
summary "$out"
