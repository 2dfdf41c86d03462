#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# sbatch.bats - the batch scripts that disttrain writes, and those in contrib

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-sbatch.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    dt_cluster_up --nodes 2 --cpus 4 --gpus 2 \
        --conf SchedulerParameters=batch_sched_delay=0,bf_interval=1
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    rm -rf -- *
}

# job_yaml LINE...: a job of two nodes with two tasks each.
job_yaml() {
    {
        echo "run: {name: j}"
        printf '%s\n' "launch:" "  nodes: 2" "  ntasks_per_node: 2" "$@"
    } >job.yaml
}

disttrain() {
    dt_run "$DT_BUILDDIR/disttrain" "$@"
}

@test "a printed script runs the job that the file describes" {
    job_yaml '  time: "00:10:00"' '  cpus_per_task: 2' \
        '  command: [sh, -c, "echo $RANK of $WORLD_SIZE on $SLURMD_NODENAME"]'
    disttrain sbatch job.yaml -- '--comment=two words' >job.sh
    run -0 dt_run sbatch --quiet --wait job.sh
    run -0 sort j-*.out
    [[ $output == $'0 of 4 on n1\n1 of 4 on n1\n2 of 4 on n2\n3 of 4 on n2' ]]
    run -0 dt_run scontrol --oneliner show job
    [[ $output == *" Comment=two words "* && $output == *TimeLimit=00:10:00* ]]
    [[ $output == *" NumCPUs=8 "* && $output == *" Requeue=0 "* ]]
}

@test "--submit, with an option that overrides the file" {
    job_yaml '  command: [sh, -c, "echo $RANK of $WORLD_SIZE"]'
    run -0 disttrain sbatch --submit job.yaml -- --nodes=1 --wait
    [[ $output == "Submitted batch job "* ]]
    run -0 sort j-*.out
    [[ $output == $'0 of 2\n1 of 2' ]]
}

@test "--submit shows why sbatch refuses" {
    job_yaml '  partition: nowhere' '  command: [true]'
    run ! disttrain sbatch --submit job.yaml
    [[ $output == *"invalid partition specified: nowhere"* ]]
    run -69 env PATH=/nowhere "$DT_BUILDDIR/disttrain" sbatch --submit job.yaml
    [[ $output == "disttrain sbatch: cannot run sbatch: No such file"* ]]
}

@test "max_restarts: a step that fails runs again on the same nodes" {
    job_yaml '  max_restarts: 2' '  command:' '  - sh' '  - -c' \
        '  - "echo $RANK after $TORCHELASTIC_RESTART_COUNT; exit $((RANK == 3 && TORCHELASTIC_RESTART_COUNT < 2))"'
    run -0 disttrain sbatch --submit job.yaml -- --wait
    run -0 cat j-*.out
    # 143 if another rank was still running and got SIGTERM
    [[ $output =~ "exit status "(1|143)": restart 1 of 2" ]]
    [[ $output =~ "exit status "(1|143)": restart 2 of 2" ]]
    [[ $output == *"0 after 2"* && $output != *"restart 3"* ]]
    # the first that ends has srun send SIGTERM to the others
    job_yaml '  max_restarts: 2' '  command:' '  - sh' '  - -c' \
        '  - "trap : TERM; >up.$RANK; until [ -e up.0 -a -e up.1 -a -e up.2 -a -e up.3 ]; do sleep 0.1; done; exit 75"'
    rm -f j-*.out
    run -75 disttrain sbatch --submit job.yaml -- --wait
    run -1 grep restart j-*.out
}

@test "an array has one job for each index, each with its own output" {
    job_yaml '  command: [sh, -c, "echo $SLURM_ARRAY_TASK_ID $RANK"]'
    run -0 disttrain sbatch --submit --array=3,5 job.yaml -- --wait
    run -0 sort j-*_3.out
    [[ $output == $'3 0\n3 1\n3 2\n3 3' ]]
    run -0 sort j-*_5.out
    [[ $output == $'5 0\n5 1\n5 2\n5 3' ]]
}

@test "--dry-run shows what the ranks would get, and queues nothing" {
    job_yaml '  gpus_per_node: 2' '  frameworks: [torch, jax, horovod]' \
        '  command: [env]' 'env: {MINE: "a b"}'
    local next
    next=$(dt_run scontrol show config | grep NEXT_JOB_ID)
    disttrain sbatch --dry-run job.yaml >preview
    [[ $(dt_run scontrol show config | grep NEXT_JOB_ID) == "$next" ]]
    [[ $(head -n 1 preview) == "srun --nodes=2 --ntasks-per-node=2 "* ]]
    dt_srun --label --disttrain=job.yaml >real
    # host names and ports are examples in a preview
    sed -n '/^every rank:/,/^rank 0/s/^    //p' preview |
        grep -vE '^[A-Z_]*(PORT|ADDR|ADDRESS)=' | tr -d "'" >common
    sed -n 's/^rank 3 on node1: //p' preview | tr ' ' '\n' |
        grep -v '^HOROVOD_HOSTNAME=' >mine
    grep -qx 'MINE=a b' common && grep -qx RANK=3 mine
    run -0 grep -vxFf <(sed -n 's/^3: //p' real) <(cat common mine; echo end)
    [[ $output == end ]]
}

# example FILE SBATCH-OPTION...: submits that example on a smaller scale, with a
# python3 that prints its environment.
example() {
    cp "$DT_SRCDIR"/contrib/examples/* .
    mkdir bin
    printf '#!/bin/sh\necho "$RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR" \\\n' \
        >bin/python3
    printf '"$CROSS_RANK $CROSS_SIZE $LOCAL_SIZE %s" "$@"\n' \
        '${JAX_COORDINATOR_ADDRESS%:*} $JAX_LOCAL_DEVICE_IDS' >>bin/python3
    chmod 755 bin/python3
    dt_run env PATH="$PWD/bin:$PATH" sbatch --quiet --wait --output=out \
        --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=1 \
        "$@" || return
    sort out
}

@test "the examples for other frameworks run up to their environment" {
    local name
    for name in torch jax deepspeed; do
        rm -rf -- *
        run -0 example "$name.sbatch"
        [[ $output == "0 4 0 n1 0 2 2 n1 0 ${name}_train.py
1 4 1 n1 0 2 2 n1 1 ${name}_train.py
2 4 0 n1 1 2 2 n1 0 ${name}_train.py
3 4 1 n1 1 2 2 n1 1 ${name}_train.py" ]]
    done
}

@test "the programs of the examples are Python" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    cp "$DT_SRCDIR"/contrib/examples/*.py .
    python3 -m py_compile ./*.py
}

@test "the PyTorch example trains" {
    /usr/bin/python3 -c "import torch" 2>/dev/null ||
        skip "PyTorch for /usr/bin/python3 is not installed"
    cp "$DT_SRCDIR"/contrib/examples/torch* .
    run -0 dt_run env PATH="/usr/bin:$PATH" sbatch --quiet --wait --output=out \
        --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=1 torch.sbatch
    run -0 cat out
    [[ $output == *"step 20 loss "*"step 100 loss "* ]]
}

@test "the example with our own runtime trains" {
    cp "$DT_SRCDIR"/contrib/examples/native.* .
    seq 5000 >text.txt
    sed -i -e 's/n_embd: 256, n_layer: 6/n_embd: 32, n_layer: 1/' \
        -e 's/max_steps: 2000/max_steps: 4/' -e 's/cpus_per_task: 8/cpus_per_task: 1/' \
        -e 's/warmup_steps: 100/warmup_steps: 1/' native.yaml
    run -0 dt_run sbatch --quiet --wait --output=out --cpus-per-task=1 \
        native.sbatch
    run -0 cat out
    [[ $output == *"step 4"* ]]
    [[ -e outputs/native/checkpoints/latest/model.safetensors ]]
    grep -q "step 4" outputs/native/logs/rank-0000.log
}
