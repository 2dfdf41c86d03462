#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# scale.bats - worlds in which ranks are connected to few others, on real nodes

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-scale.XXXXXX)
    export WORK OMP_NUM_THREADS=1
    cat /usr/share/common-licenses/GPL-2 >"$WORK/text"
    dt_cluster_up --nodes 20 --cpus 2
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    dt_need_pmix
    cd "$WORK" || return
    dt_run "$probe" hello >/dev/null || skip "there is no comm_probe"
    run dt_srun --mpi=pmix -n2 "$probe" hello
    [[ $output != *"was built without"* ]] || skip "$output"
}

probe=$DT_BUILDDIR/tests/job/comm_probe

# forty WORD...: starts 40 ranks of it.
forty() {
    dt_srun --mpi=pmix -N20 -n40 --kill-on-bad-exit=0 "$@"
}

@test "forty ranks on twenty nodes know each other and add up" {
    run -0 forty "$probe" hello
    ((${#lines[@]} == 40))
    [[ $output == *"rank 39 of 40, local 1 of 2, on n20, pmix, gloo, sum 780"* ]]
}

@test "the soft limit of open files is raised, the hard one named" {
    run -0 forty sh -c "ulimit -Sn 24; exec $probe hello"
    ((${#lines[@]} == 40))
    run forty sh -c "ulimit -n 24; exec $probe hello"
    ((status != 0))
    [[ $output =~ "rank 7 on n4: connections to "1[0-9]" ranks: this process \
needs "[0-9]+" open files, and its hard limit is 24: raise it (ulimit -Hn" ]]
}

# sockets NODE: prints how many each rank there has.
sockets() {
    dt_run --node "$1" sh -c 'for pid in $(pgrep -x comm_probe); do
        ls -l /proc/$pid/fd | grep -c socket:
    done'
}

@test "a rank has few connections, and all others name it when it is killed" {
    local log=$BATS_TEST_TMPDIR/log job few
    dt_background "$log" forty "$probe" -t 120000 -n 20000 loop
    job=$!
    dt_wait_for 40 dt_lines 1 running "$log"
    run -0 sockets n3
    ((${#lines[@]} == 2))
    for few in "${lines[@]}"; do
        ((few < 20)) # of 39 other ranks
    done
    dt_run --node n5 sh -c 'kill -KILL $(pgrep -o -x comm_probe)'
    # before the timeout of 120 s
    dt_wait_for 100 dt_lines 39 "error after .*: lost rank [89] on n5: " "$log"
    (($(grep -c "lost rank" "$log") == 39))
    wait "$job" || true
}

@test "forty ranks train, and resume what another number of ranks saved" {
    cat >run.yaml <<'END'
algorithm: sft
run: {output_dir: out}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
distributed: {strategy: zero2, shard_group: node}
training: {train_batch_size: 40, max_steps: 4}
checkpoint: {steps: 2}
END
    run -0 dt_srun -N20 -n40 --disttrain=run.yaml
    [[ $output == *"done: 4 steps"* ]]
    [[ -e out/checkpoints/checkpoint-4/optim-rank-00039-of-00040.safetensors ]]
    sed -i 's/max_steps: 4/max_steps: 6, resume: auto/' run.yaml
    run -0 dt_srun -N10 -n20 --disttrain=run.yaml
    [[ $output == *"resuming from "*"/checkpoint-4"*"done: 2 steps"* ]]
    [[ -e out/checkpoints/checkpoint-6/optim-rank-00019-of-00020.safetensors ]]
}
