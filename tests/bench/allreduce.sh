#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# allreduce.sh - from srun to the first all_reduce of 8 PyTorch ranks on 4 nodes
#
# Usage: allreduce.sh [--rounds N] PYTHON
#
# The same program, started by the plugin and by torchrun (c10d rendezvous on the
# first node) under the same srun. Each round runs each once; the first is not
# counted, so that files are in the cache. Needs root.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}

# first_sum SRUN-WORD...: seconds until rank 0 says that it has the sum.
first_sum() {
    local start=${EPOCHREALTIME/./} line took=''
    while read -r line; do
        [[ $line != "summed 8" ]] || took=$((${EPOCHREALTIME/./} - start))
    done < <(cluster_run srun -N4 "$@" 2>&1 | tee "$work/log")
    if [[ -z $took ]]; then
        tail "$work/log" >&2
        return 1
    fi
    printf '%d.%06d\n' $((took / 1000000)) $((took % 1000000))
}

# The default of these two, 0, makes torchrun 1.13 fail with Python 3.11.
logs=(--log_dir "$work/logs" --redirects 2 --tee 2)

tune
export OMP_NUM_THREADS=1
cluster_up --nodes 4 --cpus 2
for ((round = 0; round <= rounds; round++)); do
    ours=$(first_sum --ntasks-per-node=2 --disttrain=env "$python" \
        "$bench/torch_allreduce.py")
    theirs=$(first_sum --ntasks-per-node=1 --cpus-per-task=2 \
        "$python" -m torch.distributed.run --nnodes 4 --nproc_per_node 2 \
        --rdzv_backend c10d --rdzv_id "$round" \
        --rdzv_endpoint "n1:$((29400 + round))" "${logs[@]}" \
        "$bench/torch_allreduce.py")
    ((round == 0)) || printf '%s\n' "disttrain $ours" "torchrun $theirs"
done | table peer s
