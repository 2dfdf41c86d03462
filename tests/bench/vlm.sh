#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# vlm.sh - the time of a step on text and images, of 2 threads
#
# Usage: vlm.sh [--algorithm sft|dpo] [--parts all|frozen]
#               [--precision fp32|bf16] [--edge N] [--rounds N] [--steps N]
#               [--out FILE] PEER...
#
# A model of the shape of SmolVLM-256M with random weights, 2 rows a step of a
# photograph and of text about it, or 2 pairs, each with a photograph that both
# sides share and a reference in memory. Photographs have an edge of N pixels (512:
# a tile each; 1024: five). Everything is trained, or with `frozen` all but the
# tower. PEER is disttrain, recompute (disttrain with gradient checkpointing),
# precompute (of dpo, that with a precomputed reference), state (disttrain with
# weights, moments and passes in bf16, whatever the precision of the others),
# trl=PYTHON: TRL's trainer with tuned malloc, or compile=PYTHON: the same
# with torch.compile. The first PYTHON writes the model and the rows that all
# read. Each round runs each peer once, in the order given. With --out, results
# are added to those in FILE; the table is of all of them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--algorithm --parts --precision --edge --rounds --steps --out" "$@"

[[ $precision == @(fp32|bf16) ]] || die "fp32 or bf16, not $precision"
[[ $parts == @(all|frozen) ]] || die "all or frozen, not $parts"

[[ $algorithm == @(sft|dpo) ]] || die "sft or dpo, not $algorithm"

export OMP_NUM_THREADS=2 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
tune
args=(--algorithm "$algorithm" --parts "$parts" --edge "$edge" --steps "$steps")
args+=(--precision "$precision" --work "$work")
for peer in "${peers[@]}"; do
    [[ -e $work/model || $peer != *=* ]] ||
        "${peer#*=}" "$bench/trl_vlm.py" --make "${args[@]}"
done
[[ -e $work/model ]] || die "no trl=PYTHON, which makes the model"
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        trl=(env "${malloc[@]}" "${peer#*=}" "$bench/trl_vlm.py" "${args[@]}")
        ours=("$bench/disttrain_vlm.py" --disttrain "$builddir/disttrain")
        ours+=("${args[@]}")
        case $peer in
        disttrain) "${ours[@]}" ;;
        recompute) "${ours[@]}" --recompute ;;
        precompute) "${ours[@]}" --recompute --precompute ;;
        state) "${ours[@]}" --state ;;
        trl=*) "${trl[@]}" ;;
        compile=*) "${trl[@]}" --compile ;;
        *) die "there is no peer $peer" ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
