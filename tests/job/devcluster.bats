#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# devcluster.bats - contrib/devcluster starts a real Slurm and removes it again

load helpers

setup_file() {
    dt_cluster_up --nodes 4 --cpus 2 --gpus 2 --conf KillWait=7
}

teardown_file() {
    dt_cluster_down
}

teardown() {
    [[ ! -d /run/disttrain-devcluster/$DT_CLUSTER-b ]] ||
        devcluster down --name "$DT_CLUSTER-b"
    dt_teardown
}

devcluster() {
    "$DT_SRCDIR/contrib/devcluster" "$@"
}

# Runs a command in the cluster that a test starts beside the first.
run_second() {
    devcluster run --name "$DT_CLUSTER-b" "$@"
}

# Prints everything that a cluster could leave behind. Other programs on the
# machine start and end, so only those of a cluster count.
traces() {
    local name=$1
    pgrep -af "devcluster/$name" || true
    ip -oneline link | cut -d: -f2 | grep -E '^ (switch|n[0-9]+)(@|$)' || true
    grep "$name" /proc/self/mountinfo || true
    find /run /dev /tmp -maxdepth 2 -name "*$name*" \
        -not -name "bats*" -not -path "$BATS_RUN_TMPDIR/*" 2>/dev/null ||
        true # others remove their files while we look
    ls -d /run/mount 2>/dev/null || true
}

# processes_in NET: prints the processes of a network, "net:[INODE]".
processes_in() {
    local pattern=${1/\[/\\[}
    find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' \
        -lname "${pattern/\]/\\]}" 2>/dev/null | cut -d/ -f3
}

@test "a job runs on all four nodes" {
    run -0 dt_srun -N4 --ntasks-per-node=2 hostname
    [[ $(sort -u <<<"$output" | tr '\n' ' ') == "n1 n2 n3 n4 " ]]
    ((${#lines[@]} == 8))
}

@test "up says how many nodes are up, and how long it took" {
    run -0 devcluster up --name "$DT_CLUSTER-b" --nodes 4 --plugin none
    [[ $output =~ ": 4 nodes up in "[0-9]+\.[0-9]" s"$ ]]
}

@test "a machine without /etc/hosts gets none" {
    cp -a /etc "$BATS_TEST_TMPDIR/etc"
    rm "$BATS_TEST_TMPDIR/etc/hosts"
    # with no other cluster, and an /etc of its own
    run -0 unshare --mount --propagation slave sh -ec '
        mount -n --bind "$1" /etc
        mount -n -t tmpfs run /run
        "$2" up --name bare --nodes 1 --plugin none
        "$2" run --name bare getent hosts n1
        "$2" down --name bare
        ls -A /run' - "$BATS_TEST_TMPDIR/etc" "$DT_SRCDIR/contrib/devcluster"
    echo "$output"
    [[ $output == *"10.11.12.1 "*n1 ]]
    [[ ! -e $BATS_TEST_TMPDIR/etc/hosts ]]
}

@test "a job of an ordinary user runs as that user" {
    run -0 dt_srun_user -N2 sh -c 'id -un; id -u; echo $HOME'
    [[ $output != *root* ]]
    ((${#lines[@]} == 6))
    [[ $(sort -u <<<"$output" | wc -l) == 3 ]]
    # Quiet: where the nodes of the last job are not free yet, srun says so.
    run -0 dt_run --user nobody srun -Q id -un
    [[ $output == nobody ]]
}

@test "the ordinary user exists inside the cluster only" {
    run -2 getent passwd dtuser
    run -0 dt_run --node n3 getent passwd dtuser
}

@test "run --user refuses an account that does not exist" {
    run -64 devcluster run --name "$DT_CLUSTER" --user nosuchuser true
    [[ $output == "devcluster: --user: the cluster has no account 'nosuchuser'" ]]
}

@test "each task sees its own fake GPU" {
    run -0 dt_srun -N2 --ntasks-per-node=2 --gpus-per-task=1 \
        sh -c 'echo $CUDA_VISIBLE_DEVICES'
    [[ $(sort <<<"$output" | tr '\n' ' ') == "0 0 1 1 " ]]
    run -0 dt_srun -N1 --gpus-per-node=2 sh -c 'echo $CUDA_VISIBLE_DEVICES'
    [[ $output == 0,1 ]]
    run -1 dt_srun -N1 --gpus-per-node=3 true
    [[ $output == *"node configuration is not available"* ]]
}

@test "a PMIx fence carries data across nodes" {
    dt_need_pmix
    [[ -x $DT_BUILDDIR/tests/job/pmix_ring ]] || skip "built without PMIx"
    run -0 dt_srun -N4 --ntasks-per-node=2 --mpi=pmix \
        "$DT_BUILDDIR/tests/job/pmix_ring"
    ((${#lines[@]} == 8))
    [[ $output == *"7 of 8 got 1000"* ]]
    [[ $output == *"0 of 8 got 1001"* ]]
}

@test "nodes have their own processes and shared memory" {
    dt_run --node n1 touch /dev/shm/mark
    run -0 dt_srun -N4 sh -c 'ls /dev/shm; ps -e | grep -c slurmd'
    [[ $(grep -c mark <<<"$output") == 1 ]]
    [[ $(grep -cx 1 <<<"$output") == 4 ]]
    [[ ! -e /dev/shm/mark ]]
}

@test "run passes on the exit status and the directory" {
    cd "$BATS_TEST_TMPDIR"
    run -0 dt_run pwd
    [[ $output == "$BATS_TEST_TMPDIR" ]]
    run -23 dt_run sh -c 'exit 23'
}

@test "--conf replaces a line of slurm.conf" {
    run -0 dt_run scontrol show config
    [[ $output =~ KillWait\ +=\ 7\ sec ]]
    run -0 grep -ci '^killwait=' "/run/disttrain-devcluster/$DT_CLUSTER/conf/slurm.conf"
}

@test "status and logs show the cluster" {
    run -0 dt_devcluster status
    [[ $output == "cluster $DT_CLUSTER in /run/"*n4*idle* ]]
    run -0 dt_devcluster logs
    [[ $output == *munged*slurmctld* ]]
    run -0 dt_devcluster logs n2
    [[ $output == *"slurmd version"* ]]
    run -64 dt_devcluster logs n9
    [[ $output == "devcluster: cluster $DT_CLUSTER has no node 'n9'" ]]
}

@test "a name in use is refused, and its cluster keeps running" {
    run -69 devcluster up --name "$DT_CLUSTER"
    [[ $output == *"is up already: use another --name"* ]]
    dt_srun true
}

@test "--cpus limits the CPUs of the tasks on a node" {
    devcluster up --name "$DT_CLUSTER-b" --nodes 2 --plugin none --cpus 1
    run -0 devcluster run --name "$DT_CLUSTER-b" -- srun -N2 \
        sh -c 'taskset -cp $$ | sed "s/.*: //"'
    [[ $output != *[-,]* ]]
    [[ $(sort -u <<<"$output" | wc -l) == $(($(nproc) > 1 ? 2 : 1)) ]]
}

@test "two clusters are independent" {
    devcluster up --name "$DT_CLUSTER-b" --nodes 1 --plugin none
    run -0 devcluster run --name "$DT_CLUSTER-b" -- sinfo -h -o %D
    [[ $output == 1 ]]
    run -0 dt_run sinfo -h -o %D
    [[ $output == 4 ]]
}

@test "--rate limits a node's link" {
    local start spent
    devcluster up --name "$DT_CLUSTER-b" --nodes 1 --plugin none --rate 20mbit
    start=${EPOCHREALTIME/./}
    run -0 devcluster run --name "$DT_CLUSTER-b" -- \
        sh -c 'srun head -c 2000000 /dev/zero | wc -c'
    spent=$((${EPOCHREALTIME/./} - start))
    [[ $output == 2000000 ]]
    # 2 MB less the bucket of 128 KiB at 20 Mbit/s
    ((spent > 740000))
}

# The kernel's table of neighbors has room for 1024 that are not permanent, of
# all clusters together.
@test "32 nodes come up and talk, each with one neighbor" {
    devcluster up --name "$DT_CLUSTER-b" --nodes 32 --plugin none
    run -0 --separate-stderr run_second srun --quiet -N32 hostname
    [[ $(sort <<<"$output") == "$(printf 'n%d\n' {1..32} | sort)" ]]
    # each node to all others, also to one that does not exist
    run -0 --separate-stderr run_second srun --quiet -N32 bash -c '
        for i in {1..33}; do
            echo >/dev/udp/10.11.12.$i/9
        done
        ip -4 neigh | grep -vc "10.11.12.254 dev eth0 .* PERMANENT"
        ip -4 neigh | wc -l'
    [[ $(sort <<<"$output" | uniq -c | xargs) == "32 0 32 1" ]]
    ((${#lines[@]} == 64))
    run -0 run_second ip -4 neigh
    [[ $(grep -c PERMANENT <<<"$output") == 32 ]]
    run -0 run_second --node n32 bash -c 'echo hello >/dev/tcp/10.11.12.1/6818'
}

@test "kill cuts a node off, and its job ends" {
    devcluster up --name "$DT_CLUSTER-b" --nodes 2 --plugin none
    dt_background "$BATS_TEST_TMPDIR/out" run_second srun -N2 sleep 100
    dt_wait_for 40 run_second --node n2 pgrep -f "sleep 100"
    status=0
    devcluster kill --name "$DT_CLUSTER-b" n2
    run -69 run_second --node n2 true
    [[ $output == "devcluster: node n2 is off" ]]
    run -69 devcluster kill --name "$DT_CLUSTER-b" n2
    wait $! || status=$?
    ((status > 0))
    grep "srun: error: Node failure on n2" "$BATS_TEST_TMPDIR/out"
    [[ $(run_second sinfo -h -n n2 -o %T) == down\* ]]
}

@test "up and down leave nothing behind, even with a running job" {
    traces "$DT_CLUSTER-b" >"$BATS_TEST_TMPDIR/before"
    devcluster up --name "$DT_CLUSTER-b" --nodes 3 --gpus 1 --rate 1gbit
    devcluster run --name "$DT_CLUSTER-b" -- srun -N3 sleep 100 3>&- &
    dt_wait_for 40 devcluster run --name "$DT_CLUSTER-b" --node n3 \
        -- pgrep -f "sleep 100"
    [[ $(traces "$DT_CLUSTER-b") == *"holder.sh n3"* ]]
    # while it is open, no other network gets its number
    holder=$(cut -d' ' -f1 "/run/disttrain-devcluster/$DT_CLUSTER-b/ns/n3")
    exec {network}<"/proc/$holder/ns/net"
    net=$(readlink "/proc/$holder/ns/net")
    [[ -n $(processes_in "$net") ]]
    devcluster down --name "$DT_CLUSTER-b"
    wait
    [[ -z $(processes_in "$net") ]]
    exec {network}<&-
    traces "$DT_CLUSTER-b" >"$BATS_TEST_TMPDIR/after"
    diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
}

@test "a network with the number of one that has ended is somebody else's" {
    local net pid up=(devcluster up --name "$DT_CLUSTER-b" --nodes 2 --plugin none)
    "${up[@]}"
    devcluster kill --name "$DT_CLUSTER-b" n2
    unshare --net sleep 100 3>&- &
    pid=$!
    dt_wait_for 40 grep -qx sleep "/proc/$pid/comm" # it has its network
    net=$(readlink "/proc/$pid/ns/net")
    sed -i "s/net:.*/$net/" "/run/disttrain-devcluster/$DT_CLUSTER-b/ns/n2"
    devcluster down --name "$DT_CLUSTER-b"
    kill -0 "$pid"
    # neither does it count as a cluster that is up
    mkdir -p "/run/disttrain-devcluster/$DT_CLUSTER-b/ns"
    echo "4194304 $net" >"/run/disttrain-devcluster/$DT_CLUSTER-b/ns/n2"
    "${up[@]}"
    devcluster down --name "$DT_CLUSTER-b"
    kill "$pid"
}

@test "a failed up names the daemon and leaves nothing behind" {
    traces "$DT_CLUSTER-b" >"$BATS_TEST_TMPDIR/before"
    run -70 devcluster up --name "$DT_CLUSTER-b" --conf SlurmctldPort=abc
    [[ $output == *"slurmctld ended; the end of its log:"*"Invalid SlurmctldPort abc"* ]]
    run -70 devcluster up --name "$DT_CLUSTER-b" \
        --plugstack "required /nonexistent.so"
    [[ $output == *"n1 ended; the end of its log:"*"/nonexistent.so"* ]]
    traces "$DT_CLUSTER-b" >"$BATS_TEST_TMPDIR/after"
    diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
}

@test "a user who is not root is told what to do" {
    local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${nobody[@]}" test -r "$DT_SRCDIR/contrib/devcluster" ||
        skip "nobody may not read $DT_SRCDIR"
    run -77 "${nobody[@]}" "$DT_SRCDIR/contrib/devcluster" up
    [[ $output == "devcluster: namespaces and slurmd need root: use sudo devcluster up" ]]
    run -77 "${nobody[@]}" "$DT_SRCDIR/contrib/devcluster" down
    [[ $output == "devcluster: only root reaches a cluster: use sudo devcluster down" ]]
}

@test "a missing program is named with its package" {
    local tool
    mkdir "$BATS_TEST_TMPDIR/bin"
    for tool in bash dirname readlink nproc id slurmctld slurmd; do
        ln -s "$(command -v "$tool")" "$BATS_TEST_TMPDIR/bin"
    done
    PATH=$BATS_TEST_TMPDIR/bin run -69 devcluster up
    [[ $output == "devcluster: srun is missing: install slurm-client" ]]
}

@test "wrong arguments are usage errors" {
    refuse() {
        run -64 devcluster "${@:2}"
        [[ ${lines[0]} == "devcluster: $1" ]]
    }
    refuse "there is no command 'raise'" raise
    refuse "up has no option --node" up --node 3
    refuse "--nodes: expected a number from 1 to 200, got '0'" up --nodes 0
    refuse "--rate: expected e.g. 10gbit, got 'fast'" up --rate=fast
    refuse "--conf: expected KEY=VALUE, got 'x'" up --conf x
    refuse "--name: expected up to 16 of a-z 0-9 -, got 'A/b'" up --name A/b
    refuse "--name needs a value" down --name
    refuse "down takes no 'n1'" down n1
    refuse "run needs a command" run
    refuse "--plugin: there is no file /no.so" up --plugin /no.so
    run -69 devcluster run --name "$DT_CLUSTER-c" true
    [[ $output == "devcluster: no cluster $DT_CLUSTER-c: start it with"* ]]
    run -0 devcluster up --help
    [[ ${lines[0]} == "Usage: devcluster up"* ]]
}
