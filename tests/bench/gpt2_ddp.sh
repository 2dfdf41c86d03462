#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_ddp.sh - GPT-2 124M on two nodes: ranks of 1 thread, 4 x 64 tokens each
#
# Usage: gpt2_ddp.sh [--rounds N] [--steps N] [--rate RATE] [--per-node N]
#                    [--tokens N] [--accumulate N] [--out FILE] PEER...
#
# As step.sh, but each peer runs under srun on a devcluster that lives as
# long as the benchmark, with the variables that --disttrain=FILE gives to its
# tasks: torch=PYTHON, malloc=PYTHON and compile=PYTHON train by
# DistributedDataParallel over gloo, fsdp=PYTHON by FSDP2. disttrain=zero3 is
# disttrain with that strategy, and 'disttrain=zero3, shard_group: world' with
# another key of distributed, too. Needs root.
#
#   --rate RATE      of the links between nodes: 10gbit, say
#   --per-node N     ranks of a node (default: 1)
#   --tokens N       of a row (default: 64)
#   --accumulate N   micro-batches a step (default: 1)

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds --steps --rate --per-node --tokens --accumulate --out" "$@"

tune
cluster_up --nodes 2 --cpus "$per_node" ${rate:+--rate "$rate"}
tokens "$work/tokens.bin" 50257
args=(--data "$work/tokens.bin" --steps "$steps" --tokens "$row_tokens"
    --accumulate "$accumulate")
ranks=$((2 * per_node))
small_config "$work/c.yaml" "$work/tokens.bin"
srun=(cluster_run srun -N2 "-n$ranks" --disttrain="$work/c.yaml")
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain)
            cluster_run "$bench/disttrain_step.py" --ranks "$ranks" --nodes 2 \
                "${args[@]}"
            ;;
        disttrain=*)
            cluster_run "$bench/disttrain_step.py" --ranks "$ranks" --nodes 2 \
                "${args[@]}" --strategy "${peer#*=}"
            ;;
        fsdp=*)
            "${srun[@]}" env "${malloc[@]}" "${peer#*=}" \
                "$bench/torch_gpt2.py" "${args[@]}" --fsdp \
                --suffix " FSDP2, malloc tuned"
            ;;
        *)
            torch_peer "$peer" "$bench/torch_gpt2.py" "${args[@]}"
            "${srun[@]}" "${command[@]}"
            ;;
        esac >>"$out"
    done
done
"$bench/summary.py" "$out"
