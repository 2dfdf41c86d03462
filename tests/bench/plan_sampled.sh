#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# plan_sampled.sh - the steps of GRPO and PPO that disttrain plan predicts,
# against those of a run
#
# Usage: plan_sampled.sh [--rounds N] [--steps N] [--width C] [--layers N]
#                        [--tokens N]
#
# A GPT-2 of that many channels and layers, one rank of 2 threads, fp32: 64
# completions of 32 tokens behind prompts of 32, with a reference; of PPO with a
# critic and a reward model of the same size, two epochs of two mini-batches.
# Each round measures rates with doctor --rates and trains with both algorithms.
# Prints medians of a step, over rounds and all steps but the first generation,
# and what the plan says of the parts. Completions of random weights end early
# by chance, as one in 257 tokens does, and plans know nothing of that.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

rounds=3 steps=24 width=128 layers=2 tokens=32
while [[ ${1-} == --* ]]; do
    (($# > 1)) || die "$1 needs a value"
    case $1 in
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    --width) width=$2 ;;
    --layers) layers=$2 ;;
    --tokens) tokens=$2 ;;
    *) die "there is no option $1" ;;
    esac
    shift 2
done

tune
export OMP_NUM_THREADS=2
cd "$work"

# config ALGORITHM [LINE]...: writes ALGORITHM.yaml.
config() {
    cat >"$1.yaml" <<END
algorithm: $1
run: {name: $1, output_dir: $1, overwrite: true, device: cpu}
model: {n_positions: $((2 * tokens)), n_embd: $width, n_layer: $layers,
        n_head: $((width / 32))}
precision.compute: fp32
checkpoint: {strategy: steps, steps: 100000, total_limit: 1}
logging: {steps: 1, report_to: [stdout, jsonl], dir: $1-logs}
END
    printf '%s\n' "${@:2}" >>"$1.yaml"
}

awk -v tokens="$tokens" 'BEGIN {
    for (i = 0; i < 64; i++) {
        text = sprintf("%0" tokens "d", i)
        printf "{\"prompt\": \"%s\"}\n", text >"prompts.jsonl"
        printf "{\"prompt\": \"1\", \"chosen\": \"%d\", \"rejected\": \"a\"}\n",
            i >"pairs.jsonl"
    }
}'
config rm 'data: {train: pairs.jsonl, max_length: 16}' \
    'training: {train_batch_size: 8, max_steps: 1}'
"$builddir/disttrain" train rm.yaml >&2
sampled=(
    "data: {train: prompts.jsonl, max_prompt_length: $tokens}"
    "rollout: {max_completion_length: $tokens, temperature: 1, log_every: 0}"
    "training: {train_batch_size: 64, max_steps: $steps}"
    'optimizer.lr: 1.0e-6'
)
config grpo "${sampled[@]}" 'grpo: {num_generations: 8, beta: 0.1}' \
    'reward.functions: [{type: length, shape: target, tokens: 8}]'
config ppo "${sampled[@]}" 'ppo: {epochs: 2, num_mini_batches: 2}' \
    'reward.functions: [{type: model, name: rm, path: rm}]'

for ((round = 0; round < rounds; round++)); do
    for algorithm in grpo ppo; do
        rm -rf rates "$algorithm-logs"
        "$builddir/disttrain" doctor --rates rates "$algorithm.yaml" >&2
        "$builddir/disttrain" plan --json --rates rates "$algorithm.yaml" \
            >"$algorithm.plan.$round"
        "$builddir/disttrain" train "$algorithm.yaml" >&2
        cp "$algorithm-logs/metrics.jsonl" "$algorithm.metrics.$round"
    done
done

echo "| algorithm | predicted s | measured s | ratio | prefill | decode |" \
    "scoring | before | steps |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
python3 - "$rounds" <<'END'
import json
import statistics
import sys

PARTS = "prefill", "decode", "scoring", "before"


def measured(algorithm, number, uses):
    with open(f"{algorithm}.metrics.{number}", encoding="utf-8") as f:
        times = [json.loads(line)["time"] for line in f]
    return [(b - a) / uses
            for a, b in zip(times[uses - 1::uses], times[2 * uses - 1::uses])]


for algorithm in "grpo", "ppo":
    rows, steps = [], []
    for i in range(int(sys.argv[1])):
        with open(f"{algorithm}.plan.{i}", encoding="utf-8") as f:
            plan = [c for c in json.load(f)["candidates"] if c["taken"]][0]
        uses = plan["generation"]["optimizer_steps"]
        parts = [plan["generation"]["seconds"][p] / uses for p in PARTS]
        whole = plan["seconds"]["step"]
        rows.append([whole, *parts, whole - sum(parts)])
        steps += measured(algorithm, i, uses)
    middle = [statistics.median(column) for column in zip(*rows)]
    step = statistics.median(steps)
    print(f"| {algorithm} | {middle[0]:.4f} | {step:.4f} | "
          f"{middle[0] / step:.2f} | "
          + " | ".join(f"{x:.4f}" for x in middle[1:]) + " |")
END
