#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# network.bats - nodes whose addresses are not where one looks first

load helpers

setup_file() {
    dt_cluster_up --nodes 2 --cpus 2 --conf SlurmdTimeout=100
}

teardown_file() {
    dt_cluster_down
}

# Each case changes the network of its nodes, and leaves a new cluster.
setup() {
    dt_setup
    dt_need_pmix
    dt_run "$probe" hello >/dev/null || skip "there is no comm_probe"
    run dt_srun --mpi=pmix -n2 "$probe" hello
    [[ $output != *"was built without"* ]] || skip "$output"
    touch "$BATS_TEST_TMPDIR/killed"
}

probe=$DT_BUILDDIR/tests/job/comm_probe

on_node() {
    dt_run --node "n$1" sh -e -c "$2"
}

# two_ranks WORD...: the ranks of two nodes add up.
two_ranks() {
    run -0 dt_srun -N2 -n2 --mpi=pmix --disttrain=env "$@" "$probe" hello
    [[ $output == *"rank 1 of 2, local 0 of 1, on n2, pmix, gloo, sum 1"* ]]
}

# Rank 1 is late, so that rank 0 waits, says so, and goes on when packets of n2
# arrive again.
@test "an outage of the network that is shorter than outage_s is survived" {
    dt_background "$BATS_TEST_TMPDIR/out" dt_srun -N2 -n2 --mpi=pmix \
        "$probe" -n 6000 late
    local job=$!
    dt_wait_for 40 dt_lines 1 running "$BATS_TEST_TMPDIR/out"
    dt_run ip route del 10.11.12.2 # packets are swallowed
    sleep 4
    dt_run ip route add 10.11.12.2 dev n2 src 10.11.12.254
    wait "$job"
}

# With keepers, which talk to each other, too: TCP tries again after 12.5 s, and
# after 25 s, which outlasts an outage_s of 15.
@test "keepers survive an outage that outage_s allows" {
    local dir=$BATS_TEST_TMPDIR log=$BATS_TEST_TMPDIR/log before
    seq 2000 >"$dir/text"
    cat >"$dir/run.yaml" <<END
algorithm: sft
run: {output_dir: $dir/out}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: [$dir/text], max_length: 32}
training: {per_device_batch_size: 1, max_steps: 1000000}
logging: {steps: 1}
distributed: {outage_s: 30}
END
    dt_background "$log" dt_srun -N2 -n2 --disttrain="$dir/run.yaml"
    dt_wait_for 40 dt_lines 3 "^step" "$log" || { cat "$log" && false; }
    dt_run ip route del 10.11.12.2
    sleep 17
    dt_run ip route add 10.11.12.2 dev n2 src 10.11.12.254
    before=$(grep -c "^step" "$log")
    dt_wait_for 20 dt_lines $((before + 3)) "^step" "$log" ||
        { tail "$log" && false; }
    dt_run scancel --me
    wait || true
    run -1 grep -E "start again|lost the keeper" "$log"
}

# As where routes to hosts come over BGP.
@test "nodes whose addresses are on lo communicate" {
    local k
    for k in 1 2; do
        on_node $k "ip addr add 10.11.12.$k/32 dev lo
            ip addr del 10.11.12.$k peer 10.11.12.254 dev eth0
            ip route replace 10.11.12.254/32 dev eth0 src 10.11.12.$k
            ip route replace 10.11.12.0/24 via 10.11.12.254 dev eth0 \
                src 10.11.12.$k"
    done
    two_ranks
    [[ $output == *"disttrain: n2: NCCL_SOCKET_IFNAME and the like are not \
set, because this node has the address 10.11.12.2 on lo, where 127.0.0.1 comes \
first, and libraries would use that"* ]]
    run -0 dt_srun -N2 -n2 --mpi=pmix "$probe" -i lo hello
    [[ $output == *"on n2, pmix, gloo, sum 1"* ]]
}

# move_network K: the addresses of eth0, which becomes a card towards a
# management controller and is listed first, go to eth1.
move_network() {
    local k=$1 node
    read -r node _ <"/run/disttrain-devcluster/$DT_CLUSTER/ns/n$k"
    dt_run sh -e -c "ip link add m$k address 02:00:0a:0b:0e:0$k type veth \
            peer name eth1 address 02:00:0a:0b:0f:0$k netns $node
        ip link set m$k up"
    on_node "$k" "ip link set eth1 up; ip addr flush dev eth0
        ip addr add 169.254.3.$k/16 dev eth0
        ip addr add 10.11.12.$k peer 10.11.12.254 dev eth1
        ip neigh add 10.11.12.254 lladdr 02:00:0a:0b:0e:0$k dev eth1
        ip route add 10.11.12.0/24 via 10.11.12.254"
    dt_run sh -e -c "ip route del 10.11.12.$k dev n$k
        ip neigh add 10.11.12.$k lladdr 02:00:0a:0b:0f:0$k dev m$k
        ip route add 10.11.12.$k dev m$k src 10.11.12.254"
}

@test "a link-local address is used only where there is no other" {
    move_network 1
    move_network 2
    run -0 dt_srun -N2 -n2 --disttrain=env sh -c "echo \$GLOO_SOCKET_IFNAME"
    [[ $output == $'eth1\neth1' ]]
    two_ranks
}

# Packets to 10.99.0.0/16 are swallowed.
@test "an address that does not answer is left for the next one" {
    local k
    for k in 1 2; do
        on_node $k "ip link add a9 type veth peer name b9
            ip addr add 10.99.0.$k/16 dev a9
            ip link set a9 up; ip link set b9 up"
    done
    two_ranks --export=ALL,GLOO_SOCKET_IFNAME=a9
    run -69 dt_srun -N2 -n2 --mpi=pmix "$probe" -t 5000 -i a9 hello
    [[ $output == *"connecting to rank "[01]" on n"[12]" (distributed.interface \
chooses the network): "* ]]
}
