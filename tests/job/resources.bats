#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# resources.bats - the GPUs, CPUs and limits of a task, as set by Slurm and us

bats_require_minimum_version 1.5.0

load helpers

# Slurm is told that there are 8 CPUs here, whatever the machine has.
setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-resources.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    printf '#!/bin/sh\n[ "$1" != console ] || exec "%s" "$@"\n' \
        "$DT_BUILDDIR/disttrain" >"$WORK/disttrain"
    cat >>"$WORK/disttrain" <<'END'
printf '%s\n' DISTTRAIN_CONTRACT=3 RUNS=nothing "CONFIG=$(readlink -f "$3")"
END
    chmod 755 "$WORK/disttrain"
    touch "$WORK/c.yaml"
    dt_cluster_up --nodes 1 --cpus 8 --gpus 4 --runtime "$WORK/disttrain" \
        --conf TaskPlugin=task/affinity
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
}

teardown() {
    [[ ! -d /run/disttrain-devcluster/$DT_CLUSTER-b ]] ||
        "$DT_SRCDIR/contrib/devcluster" down --name "$DT_CLUSTER-b"
    dt_teardown
}

# real_cpus [UP OPTION]...: starts a second cluster with the machine's real
# CPUs. Sets all to their number, part to the number of each of two tasks, and
# threads to their threads if Slurm gives one CPU to each; if there are fewer
# than two cores for each task, both use all.
real_cpus() {
    local cores
    all=$(nproc)
    cores=$(cat /sys/devices/system/cpu/cpu*/topology/core_cpus_list |
        sort -u | wc -l)
    ((cores % 2 == 0)) || skip "two tasks cannot have as many cores each"
    [[ $all == $(getconf _NPROCESSORS_ONLN) ]] ||
        skip "the tests may not use all CPUs"
    part=$all threads=1
    ((cores < 4)) || part=$((all / 2)) threads=$((all / 2))
    "$DT_SRCDIR/contrib/devcluster" up --name "$DT_CLUSTER-b" --nodes 1 \
        --cpus "$all" --runtime "$WORK/disttrain" "$@" >/dev/null
}

real_srun() {
    timeout 60 "$DT_SRCDIR/contrib/devcluster" run --name "$DT_CLUSTER-b" \
        --user root srun --quiet --disttrain=c.yaml "$@"
}

# Two tasks on the first cluster print the GPUs that they see.
see_gpus() {
    dt_srun -n2 --disttrain=c.yaml "$@" sh -c 'echo "$LOCAL_RANK:" \
        "${CUDA_VISIBLE_DEVICES-unset} ${ROCR_VISIBLE_DEVICES-unset}"'
}

# Prints how many CPUs a task may use, and how many threads it will have.
show_cpus='echo "$LOCAL_RANK: $(env -u OMP_NUM_THREADS nproc)" \
    "$OMP_NUM_THREADS"'

# expect LINE...: these lines are the output, in any order.
expect() {
    diff <(printf '%s\n' "$@" | sort) <(sort <<<"$output")
}

each_sees_one="disttrain: n1: each task sees 1 of the step's 2 GPUs: \
LOCAL_RANK is no device index there, and GPUs may not reach each other (P2P, \
IPC); use --gpus-per-node=2 without --gpus-per-task and --gpu-bind, or \
launch.gpu_visibility: one for programs that take device 0"

@test "all tasks see all GPUs that the step has on the node" {
    run -0 see_gpus --gpus-per-node=2
    expect "0: 0,1 0,1" "1: 0,1 0,1"
    run -0 see_gpus --gres=gpu:4
    expect "0: 0,1,2,3 0,1,2,3" "1: 0,1,2,3 0,1,2,3"
    run -0 see_gpus
    expect "0: unset unset" "1: unset unset"
}

@test "a task that sees only its own GPU causes a warning, once per node" {
    local option
    for option in --gpus-per-task=1 "--gpus-per-node=2 --gpu-bind=single:1"; do
        # shellcheck disable=SC2086
        run -0 see_gpus $option
        expect "0: 0 0" "1: 1 1" "$each_sees_one"
    done
    run -0 dt_srun -n1 --disttrain=c.yaml --gpus-per-task=1 true
    [[ $output == "" ]]
}

@test "more tasks than GPUs cause a warning" {
    run -0 see_gpus --gpus-per-node=1
    expect "0: 0 0" "1: 0 0" "disttrain: n1: 2 tasks share 1 GPU: LOCAL_RANK \
is not always the index of one, and NCCL refuses two ranks on one; use \
--ntasks-per-node=1"
}

@test "gpu_visibility: one leaves each task the GPU of its local rank" {
    local one=--export=ALL,SLURM_DISTTRAIN_GPU_VISIBILITY=one
    run -0 see_gpus $one --gpus-per-node=4
    expect "0: 0 0" "1: 1 1"
    run -0 see_gpus $one --gpus-per-task=1
    expect "0: 0 0" "1: 1 1"
    run -0 see_gpus $one --gpus-per-node=1
    expect "0: 0 0" "1: 0 0" "disttrain: n1: 2 tasks share 1 GPU: NCCL \
refuses two ranks on one; use --ntasks-per-node=1"
}

@test "JAX_LOCAL_DEVICE_IDS follows what the task sees" {
    local show='echo "$LOCAL_RANK: $JAX_LOCAL_DEVICE_IDS"'
    run -0 dt_srun -n2 --gpus-per-node=2 --disttrain=c.yaml sh -c "$show"
    expect "0: 0" "1: 1"
    run -0 --separate-stderr dt_srun -n2 --gpus-per-task=1 --disttrain=c.yaml \
        sh -c "$show"
    expect "0: 0" "1: 0"
    run -0 dt_srun -n2 --gpus-per-node=2 --disttrain=c.yaml \
        --export=ALL,SLURM_DISTTRAIN_GPU_VISIBILITY=one sh -c "$show"
    expect "0: 0" "1: 0"
}

# Slurm 22.05 and 23.02 then set no list.
@test "with --gpu-bind=none nothing is changed" {
    run -0 see_gpus --gpus-per-node=2 --gpu-bind=none
    [[ $output != *disttrain* ]]
    run -0 see_gpus --export=ALL,SLURM_DISTTRAIN_GPU_VISIBILITY=one \
        --gpus-per-node=2 --gpu-bind=none
    [[ $output == *"1: 1 1"* || $output == *"one changes nothing, because \
Slurm does not say which GPUs the step has; drop --gpu-bind=none"* ]]
}

# Prints the warning for these numbers of CPUs, with its advice.
few_cpus() {
    echo "disttrain: n1: each task has $1, but the job has $2 for each; use \
srun --cpus-per-task=$3, or export SRUN_CPUS_PER_TASK=$3 in the batch script \
(Slurm 22.05 and 23.02 do not pass sbatch --cpus-per-task on to srun)"
}

@test "a task with one CPU of many causes a warning, once per node" {
    run -0 dt_srun -n1 --exclusive --disttrain=c.yaml sh -c "$show_cpus"
    expect "0: 1 1" "$(few_cpus "1 CPU" 8 8)"
    run -0 dt_srun -n2 --exclusive --cpu-bind=cores --disttrain=c.yaml \
        sh -c "$show_cpus"
    expect "0: 1 1" "1: 1 1" "$(few_cpus "1 CPU" 4 4)"
    run -0 dt_srun -n1 --disttrain=c.yaml sh -c "$show_cpus"
    expect "0: 1 1" # all that the job has
    run -0 dt_srun -n1 --exclusive --cpus-per-task=1 --disttrain=c.yaml \
        sh -c "$show_cpus"
    expect "0: 1 1" # wanted so
}

@test "so does an srun that did not receive sbatch --cpus-per-task" {
    printf '%s\n' '#!/bin/sh' '#SBATCH -n1 -c2 --exclusive -o out' \
        'srun -Q --exact --disttrain=c.yaml true' \
        'export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK' \
        'srun -Q --exact --disttrain=c.yaml true' >job.sh
    run -0 dt_run sbatch --quiet --wait job.sh
    [[ $(<out) == $(few_cpus "1 CPU" 8 2) || $(<out) == "" ]]
    case $(dt_run srun -V) in
    "slurm-wlm 22.05"* | "slurm 22.05"* | *" 23.02"*) [[ $(<out) != "" ]] ;;
    *) [[ $(<out) == "" ]] ;;
    esac
}

@test "if Slurm binds no task, tasks divide the CPUs of an exclusive node" {
    real_cpus
    run -0 real_srun -n2 --exclusive sh -c \
        "$show_cpus"'; grep Cpus_allowed_list /proc/self/status >cpus.$RANK'
    expect "0: $part $threads" "1: $part $threads"
    ((part == all)) || run ! diff cpus.0 cpus.1
    run -0 real_srun -n1 --exclusive sh -c "$show_cpus"
    expect "0: $all 1"
    run -0 real_srun -n2 --exclusive \
        --export=ALL,SLURM_DISTTRAIN_CPU_BIND=none sh -c "$show_cpus"
    expect "0: $all 1" "1: $all 1"
}

@test "tasks that may not be alone on the node are not bound" {
    real_cpus
    run -0 real_srun -n2 --overcommit sh -c "$show_cpus"
    expect "0: $all 1" "1: $all 1"
}

@test "a common mask from Slurm is divided, and --cpu-bind=none is kept" {
    real_cpus --conf TaskPlugin=task/affinity
    run -0 real_srun -n2 --exclusive "-c$((all / 2))" --cpu-bind=sockets \
        sh -c "$show_cpus"
    expect "0: $part $((all / 2))" "1: $part $((all / 2))"
    run -0 real_srun -n2 --exclusive "-c$((all / 2))" --cpu-bind=none \
        sh -c "$show_cpus"
    expect "0: $all $((all / 2))" "1: $all $((all / 2))"
}

@test "few open files for many ranks are reported, once per node" {
    run -0 dt_run sh -c 'ulimit -n 1024 &&
        exec srun -Q -n65 --overcommit --cpu-bind=none --disttrain=c.yaml true'
    [[ $output == "disttrain: n1: a task may have 1024 open files, and every \
rank talks to all others "* ]]
    run -0 dt_run sh -c 'ulimit -n 4096 &&
        exec srun -Q -n65 --overcommit --cpu-bind=none --disttrain=c.yaml true'
    [[ $output == "" ]]
}

@test "the site can turn each of these off" {
    real_cpus --gpus 2 --plugin none --plugstack \
        "required $DT_BUILDDIR/spank/.libs/spank_disttrain.so \
runtime=$WORK/disttrain off=gpu off=cpu off=limits"
    run -0 real_srun -n2 --exclusive --gpus-per-task=1 sh -c "$show_cpus"
    expect "0: $(nproc) 1" "1: $(nproc) 1"
}
