#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# families.sh - the time of an optimizer step of a model of each family
#
# Usage: families.sh [--model FAMILY] [--precision fp32|bf16] [--tokens N]
#                    [--rounds N] [--steps N] PEER...
#
# Models of 8 layers of 512 channels and 16384 tokens, one rank of 2 threads, 4
# rows; by default all families, in fp32. PEER as in step.sh: disttrain, gemm,
# and with transformers torch=PYTHON, malloc=PYTHON and compile=PYTHON. Prints a
# table for each family; each round runs each peer once.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--model --precision --tokens --rounds --steps" "$@"
families=(gemma2 gemma3_text granite olmo2 phi3 smollm3)
[[ $model == gpt2 ]] || families=("$model")
case $precision in
fp32) torch=() ;;
bf16) torch=(--bf16) ;;
*) die "PyTorch and disttrain are compared in fp32 and bf16, not $precision" ;;
esac

export OMP_NUM_THREADS=2
tune
tokens "$work/tokens.bin" 16384
args=(--data "$work/tokens.bin" --steps "$steps" --tokens "$row_tokens")
for family in "${families[@]}"; do
    cat >"$work/model.json" <<END_OF_MODEL
{"model_type": "$family", "vocab_size": 16384, "hidden_size": 512,
 "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8,
 "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 2048,
 "sliding_window": 128, "pad_token_id": 0, "tie_word_embeddings": true}
END_OF_MODEL
    : >"$out"
    for ((round = 0; round < rounds; round++)); do
        for peer in "${peers[@]}"; do
            case $peer in
            disttrain)
                "$bench/disttrain_step.py" --config "$work/model.json" \
                    --disttrain "$builddir/disttrain" \
                    --precision "$precision" "${args[@]}"
                ;;
            gemm) gemm_peer "$work/model.json" ;;
            *)
                torch_peer "$peer" "$bench/torch_family.py" \
                    "$work/model.json" "${torch[@]}" "${args[@]}"
                "${command[@]}"
                ;;
            esac >>"$out"
        done
    done
    echo "$family:"
    "$bench/summary.py" "$out"
done
