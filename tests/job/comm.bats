#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# comm.bats - ranks of a real Slurm find each other, communicate, and notice who
# is missing

load helpers

setup_file() {
    dt_cluster_up --nodes 4 --cpus 2 --plugin none
}

teardown_file() {
    dt_cluster_down
}

setup() {
    dt_setup
    dt_run "$probe" hello >/dev/null || skip "there is no comm_probe"
    # A world of one says so where gloo or PMIx is missing.
    run dt_srun --mpi=pmix -n2 "$probe" hello
    [[ $output != *"was built without"* ]] || skip "$output"
}

probe=$DT_BUILDDIR/tests/job/comm_probe

@test "eight ranks on four nodes know each other and add up" {
    dt_need_pmix
    run -0 dt_srun --mpi=pmix -N4 -n8 "$probe" hello
    local r want=""
    for r in 0 1 2 3 4 5 6 7; do
        want+="rank $r of 8, local $((r % 2)) of 2, on n$((r / 2 + 1)), "
        want+=$'pmix, gloo, sum 28\n'
    done
    [[ $(sort <<<"$output")$'\n' == "$want" ]]
}

@test "ranks that are distributed cyclically have the right local ranks" {
    dt_need_pmix
    run -0 dt_srun --mpi=pmix -N3 -n6 -m cyclic "$probe" hello
    [[ $output == *"rank 4 of 6, local 1 of 2, on n2, "* ]]
    [[ $output == *"rank 2 of 6, local 0 of 2, on n3, "* ]]
}

@test "all ranks on one node communicate over loopback" {
    dt_need_pmix
    run -0 dt_srun --mpi=pmix -N1 -n3 --overcommit "$probe" hello
    [[ $output == *"rank 2 of 3, local 2 of 3, on n1, pmix, gloo, sum 3"* ]]
}

# count_calls LIBRARY FUNCTION...: makes a library to preload, which writes how
# often each function was called to $COUNT_DIR/<rank>.
count_calls() {
    local f
    {
        printf '#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n'
        printf '#include <stdlib.h>\n'
        for f in "${@:2}"; do
            cat <<END
static int n_$f;
long $f(long a, long b, long c, long d, long e, long g)
{
    long (*f)(long, long, long, long, long, long) = dlsym(RTLD_NEXT, "$f");
    __atomic_add_fetch(&n_$f, 1, __ATOMIC_SEQ_CST);
    return f(a, b, c, d, e, g);
}
END
        done
        printf '__attribute__((destructor)) static void report(void)\n{\n'
        printf 'char path[200];\nif (!getenv("PMIX_RANK")) return;\n'
        printf 'snprintf(path, 200, "%%s/%%s", getenv("COUNT_DIR"),\n'
        printf 'getenv("PMIX_RANK"));\nFILE *f = fopen(path, "w");\n'
        for f in "${@:2}"; do
            printf 'fprintf(f, "%s %%d\\n", n_%s);\n' "$f" "$f"
        done
        printf 'fclose(f);\n}\n'
    } >"$1.c"
    cc -w -shared -fPIC -o "$1" "$1.c"
}

threads_of() {
    sed -n 's/^pthread_create //p' "$1"
}

# The sixth argument of PMIx_Get_nb is the last one of these functions.
@test "twice the ranks take no more threads, and no more look-ups of hosts" {
    dt_need_pmix
    local dir=$BATS_TEST_TMPDIR n f
    count_calls "$dir/count.so" pthread_create PMIx_Resolve_peers
    for n in 4 8; do
        mkdir "$dir/$n"
        run -0 dt_run env COUNT_DIR="$dir/$n" srun --quiet --mpi=pmix -N4 \
            -n$n env LD_PRELOAD="$dir/count.so" "$probe" hello
        (($(cat "$dir/$n/"* | grep -c "PMIx_Resolve_peers 4") == n))
    done
    # rank 0 has one more than others: it answers where others look for it
    for f in "$dir/8/"[0-7]; do
        (($(threads_of "$f") <= $(threads_of "$dir/4/0")))
    done
}

@test "mpirun starts the same program" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    run -0 dt_run env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun --oversubscribe -n 2 "$probe" hello
    [[ $output == *"rank 0 of 2, local 0 of 2, on "*", pmix, gloo, sum 1"* ]]
    [[ $output == *"rank 1 of 2, local 1 of 2, on "*", pmix, gloo, sum 1"* ]]
}

@test "tasks without PMIx are an error that shows the srun line" {
    run -69 dt_srun --mpi=none -n2 "$probe" hello
    [[ $output == *"launch: this Slurm step has 2 tasks, but Slurm gave them \
no PMIx server: use \`srun --mpi=pmix -n 2 disttrain ...\`"* ]]
}

@test "a stale RANK from the job script is an error that names both values" {
    dt_need_pmix
    run -78 dt_run env RANK=5 srun --mpi=pmix -N2 -n2 "$probe" hello
    [[ $output == *"launch: E122 RANK=5 in the environment, but the launcher \
makes it 0 (rank 0 of 2 on n1): unset RANK where the job is started"* ]]
}

@test "a missing interface is an error that lists the existing ones" {
    dt_need_pmix
    run -78 dt_srun --mpi=pmix -N2 -n2 "$probe" -i ib9 hello
    [[ $output == *"comm/gloo: rank 1 on n2: distributed.interface: there is \
no interface \"ib9\" with an address on this host; there are: lo eth0"* ]]
}

@test "the others wait for a rank that is late but within the timeout" {
    dt_need_pmix
    local rank
    for rank in 0 1; do
        run -0 dt_srun --mpi=pmix -N2 -n2 "$probe" -n 5000 -r $rank late
    done
}

@test "a rank that never joins is named, the first one and the last one" {
    dt_need_pmix
    local rank
    for rank in 0 3; do
        run -69 dt_srun --mpi=pmix -N4 -n4 --kill-on-bad-exit=0 "$probe" \
            -t 10000 -r $rank absent
        echo "$output"
        # the others leave soon, so a late one may miss some of them, too
        grep -q "PMIx_Fence on rank [0-3] on n[1-4]: not all ranks arrived \
within 10000 ms; missing: rank $rank on n$((rank + 1))$" <<<"$output"
    done
}

@test "all survivors name a killed rank, and do not wait for the timeout" {
    dt_need_pmix
    grep -q "define ENABLE_FAULT_INJECTION" "$DT_BUILDDIR/config.h" ||
        skip "configured without --enable-fault-injection"
    run dt_run env DISTTRAIN_FAULT=comm.all_reduce:rank=2:step=5:kill srun \
        --mpi=pmix -N4 -n4 --kill-on-bad-exit=0 "$probe" -n 1000000 -t 120000 loop
    echo "$output"
    ((status != 0))
    (($(grep -c "lost rank 2 on n3: " <<<"$output") >= 1))
    # before the timeout of 120 s
    [[ ! $output =~ "error after "[0-9]{3} ]]
    [[ $output != *"lost rank "[013]* ]]
}

# Runs the exchange of a job with GPUs before NCCL connects them.
needs_nccl() {
    [[ -x $DT_BUILDDIR/tests/job/nccl_probe ]] ||
        skip "built without NCCL or gloo"
    local why
    why=$(dt_srun --mpi=pmix -n1 "$DT_BUILDDIR/tests/job/nccl_probe" @) ||
        [[ $why != *libnccl* ]] || skip "$why"
}

@test "all ranks of four nodes receive the NCCL id" {
    needs_nccl
    run -0 dt_srun --mpi=pmix -N4 -n8 "$DT_BUILDDIR/tests/job/nccl_probe" @
    (($(grep -c "^rank [0-7] of 8, on n[1-4], NCCL 2[0-9]*, id " \
        <<<"$output") == 8))
    (($(grep -o "id .*" <<<"$output" | sort -u | wc -l) == 1))
}

@test "two ranks on one GPU are an error that names them and the node" {
    needs_nccl
    run -78 dt_srun --mpi=pmix -N4 -n5 -m block \
        "$DT_BUILDDIR/tests/job/nccl_probe" 0000:17:00.0
    [[ $output == *"ranks 0 and 1 on n1 have the same GPU, 0000:17:00.0 \
(none): each rank needs one of its own. Start no more tasks on a node than it \
has GPUs, and let each task see all of them (srun --gpus-per-node=N) or one of \
its own (launch.gpu_visibility: one); CUDA_VISIBLE_DEVICES of rank 1 is"* ]]
}

@test "all survivors name the rank of a node that lost power, even when idle" {
    dt_need_pmix
    dt_background "$BATS_TEST_TMPDIR/out" dt_srun --mpi=pmix -N4 -n4 \
        --kill-on-bad-exit=0 "$probe" -n 60000 -t 50000 -o 3000 late
    local job=$!
    dt_wait_for 40 dt_lines 1 running "$BATS_TEST_TMPDIR/out"
    sleep 1
    dt_kill n4
    # before the timeout of the operation, -t
    dt_wait_for 40 dt_lines 2 "^error after" "$BATS_TEST_TMPDIR/out"
    run cat "$BATS_TEST_TMPDIR/out"
    (($(grep -c "lost rank 3 on n4: " <<<"$output") >= 2))
    [[ $output != *"lost rank "[012]* ]]
    dt_run scancel --user root --signal KILL || true
    wait "$job" || true
}
