#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# startup.sh - from srun to the first finished step: 8 ranks on 4 nodes
#
# Usage: startup.sh [--rounds N] PEER...
#
# A model of 2 layers and 64 channels, so that next to nothing but the start is
# measured, on a devcluster that lives as long as the benchmark. PEER is
# disttrain or torch=PYTHON (DistributedDataParallel over gloo); each round runs
# each peer once. Needs root.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"

# first_step COMMAND...: seconds until it says that step 1 is done.
first_step() {
    local start=${EPOCHREALTIME/./} line took=''
    while read -r line; do
        if [[ -z $took && $line == *"step 1"* ]]; then
            took=$((${EPOCHREALTIME/./} - start))
        fi
    done < <(cluster_run srun -N4 --ntasks-per-node=2 \
        --disttrain="$work/c.yaml" "$@" 2>&1 | tee "$work/log")
    if [[ -z $took ]]; then
        tail "$work/log" >&2
        return 1
    fi
    printf '%d.%06d\n' $((took / 1000000)) $((took % 1000000))
}

tune
cluster_up --nodes 4 --cpus 2
tokens "$work/tokens.bin" 256
small_config "$work/c.yaml" "$work/tokens.bin"
small=(--data "$work/tokens.bin" --vocab 256 --positions 64 --width 64
    --layers 2 --heads 2 --warmup 0 --steps 3)
for ((round = 0; round < rounds; round++)); do
    for peer in "${peers[@]}"; do
        case $peer in
        disttrain) took=$(first_step) ;;
        torch=*)
            took=$(first_step "${peer#*=}" "$bench/torch_gpt2.py" "${small[@]}")
            ;;
        *) die "there is no peer $peer" ;;
        esac
        echo "$peer $took"
    done
done | table peer s
