#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# overlap.sh - how much of a slow reward rollout.overlap hides
#
# Usage: overlap.sh [--model tiny|gpt2] [--rounds N] [--steps N] [SECONDS]...
#
# Steps of grpo.sh, of one rank of 2 threads, whose reward is a program that
# sleeps for SECONDS a step (0 0.05 0.1 0.2 unless given), with rollout.overlap 0
# and 1 by turns. Prints the medians over all rounds, and the seconds of the
# reward that a step with overlap does not wait for: no more than a step takes
# without the reward.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

rounds=3 steps=20 model=tiny
while [[ ${1-} == --* ]]; do
    (($# > 1)) || die "$1 needs a value"
    case $1 in
    --model) model=$2 ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    *) die "there is no option $1" ;;
    esac
    shift 2
done
(($# > 0)) || set -- 0 0.05 0.1 0.2

export OMP_NUM_THREADS=2
tune
for ((round = 0; round < rounds; round++)); do
    for seconds; do
        for overlap in 0 1; do
            "$bench/grpo_step.py" --disttrain "$builddir/disttrain" \
                --model "$model" --steps "$steps" --reward "$seconds" \
                --overlap "$overlap" >>"$work/$seconds-$overlap"
        done
    done
done

echo "| the reward takes s | step s | with overlap s | hidden s |"
echo "|--:|--:|--:|--:|"
python3 - "$work" "$@" <<'END'
import json
import statistics
import sys

work, delays = sys.argv[1], sys.argv[2:]


def median(delay, overlap):
    with open(f"{work}/{delay}-{overlap}", encoding="utf-8") as f:
        return statistics.median(
            s for line in f for s in json.loads(line)["seconds"])


for delay in delays:
    alone, ahead = median(delay, 0), median(delay, 1)
    print(f"| {delay} | {alone:.3f} | {ahead:.3f} | {alone - ahead:.3f} |")
END
