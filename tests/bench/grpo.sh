#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# grpo.sh - the time of an optimizer step of GRPO, of one rank of 2 threads
#
# Usage: grpo.sh [--model tiny|gpt2] [--rounds N] [--steps N] [--out FILE]
#                PEER...
#
# A step samples 8 completions of each of 8 prompts, scores them by a rule and
# trains on them: a model of 2 layers of width 128 with 16 + 16 tokens, or GPT-2
# 124M with 64 + 64, in fp32. PEER is disttrain, trl=PYTHON, or malloc=PYTHON
# (TRL, with tuned malloc). Rounds and results are as those of step.sh.
#
# A thread of disttrain that waits keeps its CPU busy for a while, which is the
# default: a step has hundreds of short operations, and waking a thread takes as
# long as one of them. Those of TRL sleep at once, as in the other benchmarks.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

[[ " $* " == *" --model "* ]] || set -- --model tiny "$@"
parse "--model --rounds --steps --out" "$@"

[[ $model == @(tiny|gpt2) ]] || die "there is no model $model"

export OMP_NUM_THREADS=2
tune
args=(--model "$model" --steps "$steps")
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain)
            "$bench/grpo_step.py" --disttrain "$builddir/disttrain" \
                "${args[@]}"
            ;;
        trl=*) "${peer#*=}" "$bench/grpo_step.py" "${args[@]}" ;;
        malloc=*)
            env "${malloc[@]}" "${peer#*=}" "$bench/grpo_step.py" \
                "${args[@]}" --suffix ", malloc tuned"
            ;;
        *) die "there is no peer $peer" ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
