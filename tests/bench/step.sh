#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# step.sh - the time of an optimizer step of one rank of 2 threads
#
# Usage: step.sh [--model gpt2|llama] [--precision fp32|bf16] [--tokens N]
#                [--rounds N] [--steps N] [--out FILE] PEER...
#
# GPT-2 124M or a model of the shape of Qwen2.5-0.5B, by default GPT-2 in fp32
# with 4 x 64 tokens. PEER is disttrain, torch=PYTHON, malloc=PYTHON (torch, with
# tuned malloc), compile=PYTHON (malloc, with torch.compile), llmc=DIRECTORY
# (GPT-2 in fp32 with 4 x 64 tokens only) or gemm: the limit, which is what the
# matrix multiplications of a step take by themselves. Each round runs each peer
# once, in the order given. With --out, results are added to those in FILE; the
# table is of all of them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--model --precision --tokens --rounds --steps --out" "$@"

[[ $model == @(gpt2|llama) ]] || die "there is no model $model"
case $precision in
fp32) torch=() ;;
bf16) torch=(--bf16) ;;
*) die "PyTorch and disttrain are compared in fp32 and bf16, not $precision" ;;
esac

export OMP_NUM_THREADS=2
tune
tokens "$work/tokens.bin" 50257
args=(--data "$work/tokens.bin" --steps "$steps")
torch+=("${args[@]}" --tokens "$row_tokens")
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain)
            "$bench/disttrain_step.py" --disttrain "$builddir/disttrain" \
                --model "$model" --precision "$precision" --tokens "$row_tokens" \
                "${args[@]}"
            ;;
        gemm)
            "$bench/disttrain_step.py" --model "$model" --print-model \
                >"$work/model.json"
            gemm_peer "$work/model.json"
            ;;
        llmc=*) "$bench/llmc_gpt2.py" --llmc "${peer#*=}" "${args[@]}" ;;
        *)
            torch_peer "$peer" "$bench/torch_$model.py" "${torch[@]}"
            "${command[@]}"
            ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
