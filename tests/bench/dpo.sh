#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dpo.sh - the time of a step of direct preference optimization, of 2 threads
#
# Usage: dpo.sh [--precision fp32|bf16] [--tokens N] [--rounds N] [--steps N]
#               [--out FILE] PEER...
#
# GPT-2 124M with random weights, 4 pairs a step, whose sides have N tokens (256)
# each, half of them the prompt's. PEER is disttrain or trl=PYTHON, with the
# reference computed before the first step, or disttrain-live and
# trl-live=PYTHON, which compute it in every step. trl-default=PYTHON is TRL with
# gradient checkpointing, which is its default. Each round runs each peer once,
# in the order given. With --out, results are added to those in FILE; the table
# is of all of them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--precision --tokens --rounds --steps --out" --tokens 256 "$@"

[[ $precision == @(fp32|bf16) ]] || die "fp32 or bf16, not $precision"

export OMP_NUM_THREADS=2
tune
args=(--tokens "$row_tokens" --steps "$steps" --precision "$precision")
args+=(--data "$work/pairs.jsonl")
"$bench/disttrain_dpo.py" --make "${args[@]}"
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        python=${peer#*=}
        case $peer in
        disttrain | disttrain-live)
            "$bench/disttrain_dpo.py" "--reference=${peer#disttrain}" \
                --disttrain "$builddir/disttrain" "${args[@]}"
            ;;
        trl=* | trl-live=* | trl-default=*)
            peer=${peer%%=*}
            env "${malloc[@]}" "$python" "$bench/trl_dpo.py" \
                "--reference=${peer#trl}" "${args[@]}"
            ;;
        *) die "there is no peer $peer" ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
