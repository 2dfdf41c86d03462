#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# memory.bats - ranks that the kernel kills for the memory of their job, which
# Slurm limits and watches

bats_require_minimum_version 1.5.0

load helpers

# Why Slurm cannot limit memory here, or nothing.
lacks_memory() {
    local version
    [[ -w /sys/fs/cgroup/memory/cgroup.procs ]] ||
        { echo "there are no control groups of version 1" && return; }
    version=$(srun -V | sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/')
    ((version < 2405)) || echo "devcluster has control groups up to Slurm 24.05"
}

# All nodes have their groups in one of ours, so that none stays.
setup_file() {
    local node
    WORK=$(mktemp -d /tmp/disttrain-memory.XXXXXX)
    GROUP=/sys/fs/cgroup/memory/${WORK##*/}
    LACKS=$(lacks_memory)
    export WORK GROUP LACKS
    [[ -z $LACKS ]] || return 0
    dt_cluster_up --nodes 2 --cpus 4 --conf TaskPlugin=task/cgroup \
        --conf SelectTypeParameters=CR_Core_Memory
    [[ -z $DT_SKIP ]] || return 0
    echo ConstrainRAMSpace=yes \
        >>"/run/disttrain-devcluster/$DT_CLUSTER/conf/cgroup.conf"
    mkdir "$GROUP"
    for node in n1 n2; do
        dt_run --node "$node" mount --bind "$GROUP" /sys/fs/cgroup/memory
    done
    dt_run scontrol reconfigure
}

teardown_file() {
    [[ -n $LACKS ]] || dt_cluster_down
    [[ ! -d $GROUP ]] || find "$GROUP" -depth -type d -exec rmdir {} \;
    rm -rf "$WORK"
}

# The first rank 3 takes more than its job has.
setup() {
    [[ -z $LACKS ]] || skip "$LACKS"
    dt_setup
    cd "$WORK" || return
    cat >hungry <<'STOP'
#!/bin/sh
echo "rank $RANK, restart $TORCHELASTIC_RESTART_COUNT"
if [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 30 ]; then
    echo 500 >/proc/self/oom_score_adj
    exec dd if=/dev/zero of=/dev/null bs=2G count=1
fi
[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || sleep 100
STOP
    chmod +x hungry
    cat >command.yaml <<STOP
launch: {keeper: on, command: [$WORK/hungry]}
STOP
    echo "launch: {requeue: true, max_requeues: 2}" >keep.yaml
}

# batch WORD...: runs an srun with these words in a job of four tasks.
batch() {
    local id
    cat >job.sh <<STOP
#!/bin/sh
#SBATCH -Q -N2 --ntasks-per-node=2 --mem=100 --output=job.out
srun --quiet $*
echo status \$?
STOP
    id=$(dt_run sbatch --wait --parsable job.sh) || true
    cat job.out
    dt_run scontrol show job "$id" >facts
    grep -E "Comment|JobState|Restarts" facts
}

@test "a replaced rank fails nothing, whatever srun says" {
    local words
    for words in --disttrain=command.yaml \
        "--disttrain=keep.yaml disttrain keep ./hungry"; do
        batch "$words"
        grep "^disttrain: rank 3 on n2 was killed .* all ranks start again" \
            job.out
        (($(grep -c "^rank ., restart 1" job.out) == 4))
        grep "^srun: error: n2: .*: Out Of Memory" job.out
        run -1 grep "first failure" job.out
        grep -x "status 0" job.out
        run -1 grep Comment facts
        grep "JobState=COMPLETED" facts
        grep "Restarts=0" facts
    done
}

@test "a rank that nobody replaces is the first failure" {
    batch --disttrain=command.yaml disttrain keep --max-restarts 0 ./hungry
    grep "^disttrain: first failure: rank 3 on n2, out of memory (killed by the kernel)" \
        job.out
    grep -x "status 137" job.out
    grep "Comment=disttrain: first failure: rank 3 on n2, out of memory" facts
}
