#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lora.sh - the time of a step of LoRA, of 2 threads
#
# Usage: lora.sh [--precision fp32|bf16] [--tokens N] [--rounds N] [--steps N]
#                [--out FILE] PEER...
#
# GPT-2 124M with random weights, r 16 beside all linear layers, 4 rows of N
# tokens (256) a step. PEER is disttrain, or trl=PYTHON: TRL's SFTTrainer with
# PEFT, the first of which writes the model that all read. Each round runs each
# peer once, in the order given. With --out, results are added to those in FILE;
# the table is of all of them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--precision --tokens --rounds --steps --out" --tokens 256 "$@"

[[ $precision == @(fp32|bf16) ]] || die "fp32 or bf16, not $precision"

export OMP_NUM_THREADS=2
tune
args=(--tokens "$row_tokens" --steps "$steps" --precision "$precision")
args+=(--work "$work")
for peer in "${peers[@]}"; do
    [[ -e $work/model || $peer != trl=* ]] ||
        "${peer#trl=}" "$bench/trl_lora.py" --make "${args[@]}"
done
[[ -e $work/model ]] || die "no trl=PYTHON, which makes the model"
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain)
            "$bench/disttrain_lora.py" --disttrain "$builddir/disttrain" \
                "${args[@]}"
            ;;
        trl=*)
            env "${malloc[@]}" "${peer#trl=}" "$bench/trl_lora.py" "${args[@]}"
            ;;
        *) die "there is no peer $peer" ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
