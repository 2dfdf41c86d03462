#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_step.sh - GPT-2 124M, 4 x 64 tokens, fp32, 2 threads, one rank: step time
#
# Usage: gpt2_step.sh [--rounds N] [--steps N] [--out FILE] PEER...
#
# PEER is disttrain, torch=PYTHON, malloc=PYTHON (torch, with tuned malloc) or
# llmc=DIRECTORY. Each round runs each peer once, in the order given. With
# --out, results are added to those in FILE; the table is of all of them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds --steps --out" "$@"

export OMP_NUM_THREADS=2
tune
tokens "$work/tokens.bin" 50257
args=(--data "$work/tokens.bin" --steps "$steps")
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain)
            "$bench/disttrain_gpt2.py" --disttrain "$builddir/disttrain" \
                "${args[@]}"
            ;;
        torch=*) "${peer#*=}" "$bench/torch_gpt2.py" "${args[@]}" ;;
        malloc=*)
            env "${malloc[@]}" "${peer#*=}" "$bench/torch_gpt2.py" \
                "${args[@]}" --suffix ", malloc tuned"
            ;;
        llmc=*) "$bench/llmc_gpt2.py" --llmc "${peer#*=}" "${args[@]}" ;;
        *) die "there is no peer $peer" ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
