#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# restart.sh - from the loss of a rank to the next step: 2 ranks on 2 nodes
#
# Usage: restart.sh [--rounds N] PYTHON
#
# A script of DistributedDataParallel over gloo (restart_torch.py), whose last
# rank is killed N times (3): under `disttrain keep`, and under torchrun with an
# agent on each node, both in a step of the same devcluster. An agent counts the
# failures that it has caused on the other node, so it may restart more often.
# Most of the time is the start of Python and torch. Needs root.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}

# delays DIR: seconds from each kill to the next step of rank 0, which is one
# that it has done before.
delays() {
    awk '$1 == "killed" { killed = $2; next }
        killed && $1 in done { print $2 - killed; killed = 0 }
        { done[$1] }' "$1/steps"
}

# restarts NAME COMMAND...: runs the step of a peer, and prints its delays.
restarts() {
    local dir=$work/$1
    mkdir "$dir"
    cluster_run env OMP_NUM_THREADS=1 srun -N2 "${@:2}" \
        "$bench/restart_torch.py" "$dir" "$rounds" >"$dir/log" 2>&1 || {
        tail -n 40 "$dir/log" >&2
        return 1
    }
    delays "$dir" | sed "s/^/$1 /"
}

tune
cluster_up --nodes 2 --cpus 2
{
    restarts keep --ntasks-per-node=1 --disttrain=env \
        disttrain keep --max-restarts "$rounds" "$python"
    restarts torchrun --ntasks-per-node=1 \
        "$python" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 \
        --max-restarts $((10 * rounds)) --rdzv-backend c10d --rdzv-endpoint n1:29400
} | table peer s
