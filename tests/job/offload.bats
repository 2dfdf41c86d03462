#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# offload.bats - runs whose optimizer state is on a drive, on a real Slurm

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-offload.XXXXXX)
    export WORK
    mkdir "$WORK/nvme"
    head -c 20000 /usr/share/common-licenses/GPL-2 >"$WORK/text"
    DT_NO_DIRECT=
    dd if=/dev/zero of="$WORK/nvme/probe" bs=4096 count=1 oflag=direct \
        status=none || DT_NO_DIRECT="$WORK has no direct I/O"
    rm -f "$WORK/nvme/probe"
    export DT_NO_DIRECT
    dt_cluster_up --nodes 2 --cpus 4
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    [[ -z $DT_NO_DIRECT ]] || skip "$DT_NO_DIRECT"
    grep -q '^#define HAVE_URING' "$DT_BUILDDIR/config.h" ||
        skip "built without liburing"
    cd "$WORK" || return
    export OMP_NUM_THREADS=1
}

need_faults() {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

# config NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out; LINEs
# come last. Each of four ranks has six tiles, the last of which is shorter.
config() {
    local name=$1
    shift
    {
        cat <<END
algorithm: sft
run: {name: $name, output_dir: $name.out}
model: {n_positions: 32, n_embd: 192, n_layer: 3, n_head: 3}
data: {train: text, max_length: 32}
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
scheduler: {name: constant}
logging: {steps: 1}
training: {train_batch_size: 8, max_steps: 6, resume: auto}
checkpoint: {steps: 2, save_dtype: bf16}
precision.compute: bf16
END
        printf '%s\n' "$@"
    } >"$name.yaml"
}

# on_nvme NAME STRATEGY [LINE]...: the same with the optimizer on a drive.
on_nvme() {
    config "$1" "distributed.strategy: $2" "offload_optimizer: {device: nvme,
  path: $WORK/nvme, tile_size: 65536, buffer_count: 3}" "${@:3}"
}

# train NAME: four ranks on two nodes.
train() {
    dt_srun -N2 --ntasks-per-node=2 --disttrain="$1.yaml"
}

losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

# same_end A B: the same losses, and the same bytes in the last checkpoint.
same_end() {
    local file count=0
    diff <(losses "$1") <(losses "$2")
    for file in "$1".out/checkpoints/checkpoint-6/*.safetensors; do
        cmp "$file" "$2${file#"$1"}"
        count=$((count + 1))
    done
    ((count == 5)) # the model, and the state of each rank
}

@test "nvme: the losses and the checkpoints of a run without" {
    config without "distributed.strategy: zero3"
    on_nvme with zero3 "offload_param: {device: nvme, path: $WORK/nvme}"
    on_nvme half zero2 "offload_optimizer.ratio: 0.5"
    run -0 train without
    run -0 train with
    echo "$output"
    [[ $output == *"offloaded to files"* ]]
    same_end without with
    run -0 train half
    same_end without half
    # nothing stays on the drive
    [[ -z $(ls nvme) ]]
}

gone() {
    ! kill -0 "$1" 2>/dev/null
}

# killed NAME FAULT RANK NODE: a rank of NAME is killed at a point, and named;
# the others are gone long before the time-out of 1800 s, and the checkpoint
# before stays.
killed() {
    local log=$BATS_TEST_TMPDIR/log srun status=0 since
    DISTTRAIN_FAULT=$2:rank=$3:kill dt_background "$log" train "$1"
    srun=$!
    dt_wait_for 60 dt_lines 1 "^DISTTRAIN_FAULT: rank $3, .*: ${2%%:*}" "$log"
    since=$EPOCHREALTIME
    dt_wait_for 100 gone "$srun"
    echo "$2: all gone in $((${EPOCHREALTIME/./} - ${since/./})) us"
    wait "$srun" || status=$?
    cat "$log"
    ((status != 0))
    grep -q "first failure: rank $3 on $4, killed by signal 9 (Killed)" "$log"
    [[ $(readlink "$1.out/checkpoints/latest") == checkpoint-2 ]]
    [[ -z $(ls nvme) ]]
}

# Step 4 ends with a checkpoint. Each of the runs resumes from the one before.
@test "killed in a gather, a sum, a swap, a save: all end, and one resumes" {
    dt_need_pmix
    need_faults
    local name
    on_nvme whole zero3
    run -0 train whole
    on_nvme rest zero3 "launch.keeper: off"
    killed rest comm.all_gather:step=3:nth=2 1 n1
    killed rest comm.reduce_scatter:step=4:nth=2 2 n2
    killed rest swap.read:step=4:nth=3 3 n2
    killed rest swap.write:step=3:nth=2 0 n1
    killed rest ckpt.write:step=4:nth=2 2 n2
    cp -r rest.out plain.out
    run -0 train rest
    [[ $output == *"resuming from "*"checkpoint-2"* ]]
    config plain "distributed.strategy: zero1"
    run -0 train plain
    for name in rest plain; do
        cmp {whole,"$name"}.out/checkpoints/checkpoint-6/model.safetensors
        cmp {whole,"$name"}.out/checkpoints/checkpoint-6/optim-rank-00002-of-00004.safetensors
    done
}

# fails FAULT TEXT: a drive fails in step 4, on one rank; all end soon, and the
# checkpoint before stays good.
fails() {
    rm -rf fault.out
    on_nvme fault zero2 "launch.keeper: off"
    DISTTRAIN_FAULT=$1 run train fault
    echo "$output"
    ((status == 74)) # and not 124, of dt_run
    # shellcheck disable=SC2053 # $2 is a pattern
    [[ $output == *"rank 2"*"$WORK/nvme/disttrain-swap-"*$2* ]]
    [[ $(readlink fault.out/checkpoints/latest) == checkpoint-2 ]]
    [[ -z $(ls nvme) ]]
    run -0 train fault
    cmp {sound,fault}.out/checkpoints/checkpoint-6/model.safetensors
}

@test "a drive that fails ends all ranks: file, offset, rank; nothing is lost" {
    dt_need_pmix
    need_faults
    on_nvme sound zero2
    run -0 train sound
    fails swap.read:rank=2:step=4:error \
        "cannot read*bytes at offset*tile*Input/output error"
    fails swap.write:rank=2:step=4:error \
        "cannot write*bytes at offset*tile*Input/output error"
    fails swap.space:rank=2:step=4:error "No space left on device"
    fails swap.flip:rank=2:step=4:error "damaged:*bytes at offset"
}

@test "a short transfer is continued" {
    need_faults
    config plain "distributed.strategy: zero2"
    on_nvme short zero2
    run -0 train plain
    DISTTRAIN_FAULT=swap.short:rank=1:step=3:error run -0 train short
    same_end plain short
}

@test "a directory that cannot be used is refused, before the first step" {
    config none "distributed.strategy: zero1" \
        "offload_optimizer: {device: nvme, path: $WORK/missing}"
    run train none
    echo "$output"
    ((status == 73))
    [[ $output == *"$WORK/missing: cannot create a file in it: No such file"* ]]
    config memory "distributed.strategy: zero1" \
        "offload_optimizer: {device: nvme, path: /dev/shm}"
    run train memory
    echo "$output"
    ((status == 78))
    [[ $output == *"tmpfs keeps files in memory, which offloading is to save"* ]]
}

@test "a drive without space is refused: how much, and how much is free" {
    truncate -s 8M disk
    mkfs.ext4 -q disk || skip "no mkfs.ext4"
    mkdir -p small
    mount -o loop disk small || skip "no loop devices"
    config full "distributed.strategy: zero1" \
        "offload_optimizer: {device: nvme, path: $WORK/small}"
    run timeout 60 "$DT_BUILDDIR/disttrain" train full.yaml
    umount small
    echo "$output"
    ((status == 73))
    [[ $output == *"small/disttrain-swap-"*"cannot reserve "*" MB where "* ]]
}

@test "without memory to lock a run goes on, with one warning" {
    on_nvme locked zero1 "training.max_steps: 2"
    sed -i 's/max_steps: 6, //' locked.yaml
    chmod 755 . && chmod 777 nvme && mkdir -m 777 locked.out
    run setpriv --reuid=65534 --regid=65534 --clear-groups \
        prlimit --memlock=65536 "$DT_BUILDDIR/disttrain" train locked.yaml
    echo "$output"
    ((status == 0))
    (($(grep -c 'does not register .* raise `ulimit -l`' <<<"$output") == 1))
    [[ $output == *"done: 2 steps"* ]]
}

# limited BYTES COMMAND...: in a control group with so much memory.
limited() {
    local group=/sys/fs/cgroup file=memory.max
    [[ -e $group/memory.max || -e $group/cgroup.controllers ]] ||
        { group+=/memory file=memory.limit_in_bytes; }
    group+=/disttrain-test-$$
    mkdir "$group" && echo "$1" >"$group/$file" || return 99
    bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "${@:2}"
    local status=$?
    rmdir "$group"
    return $status
}

@test "states that exceed the memory: refused without offload, trained with" {
    local large="model: {n_positions: 32, n_embd: 512, n_layer: 8, n_head: 8}"
    local few="training: {train_batch_size: 8, max_steps: 2}"
    config large "distributed.strategy: zero2"
    sed -i -e "s/^model:.*/$large/" -e "s/^training:.*/$few/" large.yaml
    limited 380M true || skip "no control group with a limit of memory"
    run limited 380M "$DT_BUILDDIR/disttrain" train large.yaml
    echo "$output"
    ((status == 78))
    [[ $output == *"this run needs "*"what would fit: "*\
"distributed.offload_optimizer.device: nvme ("* ]]
    echo "offload_optimizer: {device: nvme, path: $WORK/nvme}" >>large.yaml
    run limited 380M timeout 60 "$DT_BUILDDIR/disttrain" train large.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"done: 2 steps"* ]]
}
