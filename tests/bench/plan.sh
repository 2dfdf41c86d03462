#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# plan.sh - the steps that disttrain plan predicts, against those of a run
#
# Usage: plan.sh [--nodes N] [--width C] [--layers N] [--accumulate N]
#                [--steps N] [--rounds N] [RATE]...
#
# A GPT-2 of that many channels and layers, fp32, 4 x 64 tokens a rank, one rank
# of one thread on each node of a devcluster whose links have the RATE (10gbit
# and 1gbit unless given). Each round measures rates with doctor --rates, and then
# trains with each strategy; the prediction is that of these rates. Prints
# medians over rounds, of predictions and of the mean step of a run without its
# first two, and the best of both, which is what to compare on a machine with other
# work. Needs root.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

nodes=2 width=768 layers=4 accumulate=1 steps=6 rounds=3
while [[ ${1-} == --* ]]; do
    (($# > 1)) || die "$1 needs a value"
    case $1 in
    --nodes) nodes=$2 ;;
    --width) width=$2 ;;
    --layers) layers=$2 ;;
    --accumulate) accumulate=$2 ;;
    --steps) steps=$2 ;;
    --rounds) rounds=$2 ;;
    *) die "there is no option $1" ;;
    esac
    shift 2
done
(($# > 0)) || set -- 10gbit 1gbit

tune
export OMP_NUM_THREADS=1
tokens "$work/tokens.bin" 8192

# config STRATEGY: writes c.yaml.
config() {
    cat >"$work/c.yaml" <<END
algorithm: sft
run: {output_dir: "$work/out", overwrite: true, device: cpu}
model: {vocab_size: 8192, n_positions: 64, n_embd: $width, n_layer: $layers,
        n_head: $((width / 64))}
data: {train: "$work/tokens.bin", format: tokens_bin, max_length: 64}
training: {per_device_batch_size: 4, max_steps: $steps,
           gradient_accumulation_steps: $accumulate}
distributed: {strategy: $1}
checkpoint: {strategy: "no", only_model: true}
logging: {steps: 1, report_to: jsonl, dir: "$work/logs"}
END
}

# predicted: the step of the plan that is marked, in seconds.
predicted() {
    "$builddir/disttrain" plan --json --nodes "$nodes" --rates "$work/rates" \
        "$work/c.yaml" | python3 -c '
import json, sys
for one in json.load(sys.stdin)["candidates"]:
    if one["taken"]:
        print(one["seconds"]["step"])'
}

# measured: the mean step of the run, in seconds: a single one has more or less of
# the waiting for weights that its neighbours wait for, too.
measured() {
    rm -rf "$work/logs"
    cluster_run srun -N"$nodes" --disttrain="$work/c.yaml" >&2
    python3 -c '
import json, sys
times = [json.loads(line)["time"] for line in open(sys.argv[1], encoding="utf-8")]
print((times[-1] - times[1]) / (len(times) - 2))' "$work/logs/metrics.jsonl"
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

best() {
    sort -g "$1" | head -n 1
}

echo "| link | strategy | predicted s | measured s | ratio | best predicted |" \
    "best measured | ratio |"
echo "|---|---|---|---|---|---|---|---|"
for rate; do
    cluster_up --nodes "$nodes" --cpus 1 --rate "$rate"
    rm -f "$work"/*.predicted "$work"/*.measured
    for ((round = 0; round < rounds; round++)); do
        rm -f "$work/rates"
        config ddp
        cluster_run srun --mpi=pmix -N"$nodes" "$builddir/disttrain" doctor \
            --rates "$work/rates" "$work/c.yaml" >&2
        for strategy in ddp zero1 zero2 zero3; do
            config "$strategy"
            predicted >>"$work/$strategy.predicted"
            measured >>"$work/$strategy.measured"
        done
    done
    for strategy in ddp zero1 zero2 zero3; do
        awk -v link="$rate" -v strategy="$strategy" \
            -v predicted="$(median "$work/$strategy.predicted")" \
            -v measured="$(median "$work/$strategy.measured")" \
            -v least="$(best "$work/$strategy.predicted")" \
            -v best="$(best "$work/$strategy.measured")" '
            BEGIN {
                printf "| %s | %s | %.3f | %.3f | %.2f | %.3f | %.3f | %.2f |\n",
                    link, strategy, predicted, measured, predicted / measured,
                    least, best, least / best
            }'
    done
    "$devcluster" down --name "$cluster" >&2
    cluster=
done
