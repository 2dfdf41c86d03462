#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# frameworks.bats - a step's environment, ports and interfaces, in real tasks

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-frameworks.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    echo '{}' >"$WORK/c.yaml"
    # heterogeneous jobs wait for the backfill scheduler
    export SCHEDULE=SchedulerParameters=batch_sched_delay=0,bf_interval=1
    dt_cluster_up --nodes 4 --cpus 4 --conf "$SCHEDULE"
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    unset PYTHONUNBUFFERED PYTHONFAULTHANDLER
}

teardown() {
    [[ ! -e $WORK/holder ]] || end_holder
    [[ ! -d /run/disttrain-devcluster/$DT_CLUSTER-b ]] ||
        "$DT_SRCDIR/contrib/devcluster" down --name "$DT_CLUSTER-b"
    dt_teardown
}

need_torch() {
    /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null ||
        skip "/usr/bin/python3 has no torch"
}

# second_cluster [UP OPTION]...: starts one that exists until the test ends.
second_cluster() {
    "$DT_SRCDIR/contrib/devcluster" up --name "$DT_CLUSTER-b" --nodes 2 \
        --conf "$SCHEDULE" "$@" >/dev/null
}

# second_srun WORD...
second_srun() {
    DT_CLUSTER=$DT_CLUSTER-b dt_srun "$@"
}

# hold_port USER PORT: starts a process of USER on n1 that listens on PORT.
hold_port() {
    mkfifo "$WORK/holder"
    dt_run --user "$1" --node n1 perl -MIO::Socket::INET -e '
        $server = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 1,
            ReuseAddr => 1) or die "$!";
        open $told, ">", $ARGV[1];
        close $told;
        open $told, "<", $ARGV[1];' "$2" "$WORK/holder" 3>&- &
    timeout 40 sh -c ": <$WORK/holder"
}

end_holder() {
    timeout 10 sh -c ": >$WORK/holder"
    rm "$WORK/holder"
    wait
}

@test "PyTorch's own env:// and all_reduce, over 4 nodes x 2" {
    need_torch
    run -0 dt_srun -N4 --ntasks-per-node=2 --disttrain=c.yaml \
        /usr/bin/python3 "$DT_SRCDIR/tests/job/all_reduce.py"
    for rank in {0..7}; do
        [[ $output == *"rank $rank of 8 port 6"????" sum 36"* ]]
    done
    [[ $(wc -l <<<"$output") == 8 ]]
}

@test "two steps of one job at the same time, each with its own port" {
    need_torch
    dt_run salloc --quiet -N2 --ntasks-per-node=2 -c2 sh -c "
        for i in 1 2; do
            srun -Q --overlap --disttrain=c.yaml /usr/bin/python3 \
                $DT_SRCDIR/tests/job/all_reduce.py >step\$i 2>&1 &
        done
        wait"
    grep -c 'of 4 port 6.... sum 10$' step1 step2
    [[ $(cat step1 step2 | grep -c 'of 4 port 6.... sum 10$') == 8 ]]
    [[ $(cut -d' ' -f6 step1 | sort -u | wc -l) == 1 ]]
    [[ $(cut -d' ' -f6 step1 | head -1) != $(cut -d' ' -f6 step2 | head -1) ]]
}

# env_of_rank_5 FILE: its environment without Slurm's variables.
env_of_rank_5() {
    dt_srun -N4 --ntasks-per-node=2 --disttrain="$1" sh -c \
        '[ $SLURM_PROCID != 5 ] || env' | grep -v '^SLURM_' | sort
}

@test "the environment of all frameworks" {
    comm -13 <(env_of_rank_5 none) <(env_of_rank_5 c.yaml) |
        sed -E 's/(:|PORT=)6[0-9]{4}/\16PORT/g' >got
    cat >want <<END
CROSS_RANK=2
CROSS_SIZE=4
GLOO_SOCKET_IFNAME=eth0
GROUP_RANK=2
GROUP_WORLD_SIZE=4
JAX_COORDINATOR_ADDRESS=n1:6PORT
JAX_COORDINATOR_PORT=6PORT
JAX_LOCAL_DEVICE_IDS=1
LOCAL_RANK=1
LOCAL_SIZE=2
LOCAL_WORLD_SIZE=2
MASTER_ADDR=n1
MASTER_PORT=6PORT
NCCL_RAS_ADDR=localhost:6PORT
NCCL_SOCKET_IFNAME==eth0
NODE_RANK=2
OMP_NUM_THREADS=1
PYTHONFAULTHANDLER=1
PYTHONUNBUFFERED=1
RANK=5
ROLE_NAME=default
ROLE_RANK=5
ROLE_WORLD_SIZE=8
TF_CONFIG={"cluster":{"worker":["n1:6PORT","n1:6PORT","n2:6PORT","n2:6PORT",\
"n3:6PORT","n3:6PORT","n4:6PORT","n4:6PORT"]},"task":{"type":"worker",\
"index":5}}
TORCHELASTIC_RESTART_COUNT=0
TORCH_NCCL_ASYNC_ERROR_HANDLING=1
TP_SOCKET_IFNAME=eth0
UCX_NET_DEVICES=eth0
WORLD_SIZE=8
END
    [[ ! -d /sys/class/infiniband ]] || sed -i '/^UCX/d' want
    diff want got
}

@test "SLURM_NTASKS_PER_NODE is set for Lightning if srun does not set it" {
    run -0 dt_srun -N2 -n2 --disttrain=c.yaml \
        sh -c 'echo $SLURM_NTASKS_PER_NODE'
    [[ $output == $'1\n1' ]]
    run -0 dt_srun -N2 -n3 --disttrain=c.yaml \
        sh -c 'echo ${SLURM_NTASKS_PER_NODE-none}'
    [[ $(sort -u <<<"$output") == none ]]
}

# Ranks are distributed cyclically, but workers are counted node by node.
@test "each TensorFlow worker finds itself, whatever the distribution" {
    cat >worker <<'END'
#!/bin/sh
index=${TF_CONFIG##*:}
index=${index%%\}*}
workers=${TF_CONFIG#*[}
workers=${workers%%]*}
first=${workers%%\",*}
own=$(echo "$workers" | cut -d, -f$((index + 1)) | tr -d '"')
[ "$own" = "$SLURMD_NODENAME:$((${first##*:} + SLURM_LOCALID))" ] &&
    echo "$index of $(echo "$workers" | tr ',' '\n' | wc -l)"
END
    chmod 755 worker
    run -0 dt_srun -N3 -n5 -m cyclic --disttrain=c.yaml ./worker
    diff <(sort <<<"$output") <(printf '%s of 5\n' {0..4})
}

@test "launch.frameworks narrows the set, and adds variables of named ones" {
    echo 'launch: {frameworks: [jax]}' >jax.yaml
    run -0 dt_srun -N2 --disttrain=jax.yaml sh -c 'echo $RANK \
        ${JAX_COORDINATOR_PORT:+jax} ${TF_CONFIG-} ${CROSS_RANK-} \
        ${PYTHONUNBUFFERED-} $GLOO_SOCKET_IFNAME'
    diff <(sort <<<"$output") <(printf '%s\n' '0 jax eth0' '1 jax eth0')
    echo 'launch: {frameworks: [megatron, horovod]}' >two.yaml
    run -0 dt_srun -N2 --disttrain=two.yaml sh -c 'echo $HOROVOD_RANK \
        $HOROVOD_SIZE $HOROVOD_HOSTNAME $HOROVOD_GLOO_IFACE \
        $CUDA_DEVICE_MAX_CONNECTIONS ${JAX_COORDINATOR_PORT-}'
    diff <(sort <<<"$output") <(printf '%s\n' '0 2 n1 eth0 1' '1 2 n2 eth0 1')
}

@test "a heterogeneous job has no TF_CONFIG; asking for it is an error" {
    run -0 --separate-stderr dt_srun -n1 --disttrain=c.yaml \
        sh -c 'echo ${TF_CONFIG-none}' : -n1 sh -c 'echo ${TF_CONFIG-none}'
    [[ $output == $'none\nnone' ]]
    echo 'launch: {frameworks: [tensorflow]}' >tf.yaml
    run ! dt_srun -n1 --disttrain=tf.yaml true : -n1 true
    [[ $output == *"TF_CONFIG is not possible, because the step is \
heterogeneous, has too many tasks, or port_range is too small for them; take \
tensorflow out of launch.frameworks"* ]]
}

@test "variables that the user has set stay" {
    run -0 dt_run env NCCL_SOCKET_IFNAME=ib GLOO_SOCKET_IFNAME=lo \
        NCCL_RAS_ADDR=localhost:5 ROLE_NAME=mine JAX_LOCAL_DEVICE_IDS=7 \
        MASTER_ADDR=10.11.12.1 srun -Q -N2 --disttrain=c.yaml sh -c \
        'echo $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME \
        $NCCL_RAS_ADDR $ROLE_NAME $JAX_LOCAL_DEVICE_IDS \
        ${JAX_COORDINATOR_ADDRESS%:*}'
    local line='ib lo eth0 localhost:5 mine 7 10.11.12.1'
    [[ $output == "$line"$'\n'"$line" ]]
}

# rename_link NODE OLD NEW: routes by way of a link end with it.
rename_link() {
    dt_run --node "$1" sh -c "ip link set $2 down && ip link set $2 name $3 &&
        ip link set $3 up && ip route add 10.11.12.0/24 via 10.11.12.254"
}

@test "each node has its own interface, and a step of one node has none" {
    rename_link n3 eth0 ib7
    run -0 dt_srun -w n[1-3] --disttrain=c.yaml sh -c 'echo $RANK \
        $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME'
    rename_link n3 ib7 eth0
    diff <(sort <<<"$output") <(printf '%s\n' '0 =eth0 eth0 eth0' \
        '1 =eth0 eth0 eth0' '2 =ib7 ib7 ib7')
    run -0 dt_srun -n2 -N1 --disttrain=c.yaml \
        sh -c 'echo ${NCCL_SOCKET_IFNAME-}${UCX_NET_DEVICES-}none'
    [[ $output == $'none\nnone' ]]
}

# Debian's installer writes such a line.
@test "a node that resolves itself to 127.0.1.1 uses the route to another" {
    { echo '127.0.1.1 n1'; dt_run --node n1 cat /etc/hosts; } >hosts
    dt_run --node n1 mount --bind hosts /etc/hosts
    run -0 dt_srun -w n[1-2] --disttrain=c.yaml \
        sh -c 'echo $RANK $NCCL_SOCKET_IFNAME'
    dt_run --node n1 umount /etc/hosts
    diff <(sort <<<"$output") <(printf '%s\n' '0 =eth0' '1 =eth0')
}

@test "an unreachable MASTER_ADDR causes one warning per node" {
    run -0 dt_run env MASTER_ADDR=nosuch.invalid srun -Q -N2 --ntasks-per-node=2 \
        --disttrain=c.yaml sh -c 'echo ran ${NCCL_SOCKET_IFNAME-}'
    [[ $(grep -c '^ran$' <<<"$output") == 4 ]]
    [[ $(grep -c 'not set, because' <<<"$output") == 2 ]]
    [[ $output == *"disttrain: n2: NCCL_SOCKET_IFNAME and the like are not set, \
because this node cannot find MASTER_ADDR: nosuch.invalid: "* ]]
    run -0 dt_run env MASTER_ADDR=localhost srun -Q -N2 --disttrain=c.yaml true
    [[ $output == *"n2: NCCL_SOCKET_IFNAME and the like are not set, because \
this node cannot find MASTER_ADDR: localhost: the name resolves to this \
node itself" ]]
}

@test "a taken port ends the step, and says who has it" {
    hold_port root 61001
    run ! dt_run env MASTER_PORT=61001 srun -Q -N2 -n2 --disttrain=c.yaml true
    [[ $output =~ "rank 0: MASTER_PORT: port 61001 is taken by process "[0-9]+\
" (perl); end that program, start the step again for another port, or set \
MASTER_PORT to a free one" ]]
    run ! dt_run --user dtuser env MASTER_PORT=61001 srun -Q -N2 -n2 \
        --disttrain=c.yaml true
    [[ $output == *"port 61001 is taken by a process of user root (uid 0); "* ]]
}

@test "on one node, all tasks take the next port if theirs is taken" {
    cat >ports.sh <<'END'
first=$(srun -n1 --disttrain=c.yaml printenv MASTER_PORT)
rm -f held
srun -n1 --overlap perl -MIO::Socket::INET -e '
    $s = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 1) or die "$!";
    open $f, ">", "held";
    close $f;
    sleep 60' $((first + 2)) &
i=0
while [ ! -e held ] && [ $((i += 1)) -lt 300 ]; do
    sleep 0.1
done
srun -n2 --overlap --disttrain=c.yaml \
    sh -c "echo \$((MASTER_PORT - $first))" 2>&1
scancel --signal=KILL "$SLURM_JOB_ID.1"
wait
END
    run dt_run salloc --quiet -w n1 -n2 sh ports.sh
    echo "$output"
    [[ $(grep -c '^3$' <<<"$output") == 2 && $output != *"is taken"* ]]
}

@test "a port taken on another node or by torchelastic's agent is fine" {
    hold_port root 61001
    run -0 dt_run env MASTER_PORT=61001 srun -Q -w n2 --disttrain=c.yaml true
    run -0 dt_run env MASTER_PORT=61001 TORCHELASTIC_USE_AGENT_STORE=True \
        srun -Q -w n1 --disttrain=c.yaml true
}

@test "ports that Slurm reserves are used without an option" {
    second_cluster --conf MpiParams=ports=12000-12100
    run -0 second_srun -N2 -n4 --disttrain=c.yaml sh -c 'echo \
        $SLURM_STEP_RESV_PORTS $MASTER_PORT $JAX_COORDINATOR_PORT $TF_CONFIG'
    local first line
    first=${output%%-*}
    line="$first-$((first + 2)) $first $((first + 1)) {\"cluster\":{\"worker\":\
[\"n1:$((first + 1))\",\"n1:$((first + 2))\",\"n2:$((first + 1))\",\"n2:\
$((first + 2))\"]},"
    [[ $(grep -cF "$line" <<<"$output") == 4 ]]
    # one port too few for TensorFlow, none at all, and Slurm's own refusal
    run -0 second_srun -N1 -n2 --resv-ports=2 --disttrain=c.yaml \
        sh -c 'echo $MASTER_PORT $JAX_COORDINATOR_PORT $TF_CONFIG'
    [[ $output =~ ^12[01][0-9]{2}" "12[01][0-9]{2}' {"cluster":{"worker":["n1:6' ]]
    run -0 second_srun --resv-ports=0 --disttrain=c.yaml \
        sh -c 'echo $MASTER_PORT'
    [[ $output == 6???? ]]
}

@test "components have one reservation each, and agree on a port" {
    second_cluster --conf MpiParams=ports=12000-12100
    run -0 --separate-stderr second_srun -n1 --disttrain=c.yaml \
        sh -c 'echo $MASTER_PORT' : -n1 sh -c 'echo $MASTER_PORT'
    [[ ${lines[0]} == 6???? && ${lines[0]} == "${lines[1]}" ]]
}
