#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# plugin.bats - srun --disttrain: the command, the check, the variables of tasks

bats_require_minimum_version 1.5.0

load helpers

# The runtime is a script here: it accepts any config that is not called bad,
# and as a task it prints its variables, like the program `show`.
setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-plugin.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    cat >"$WORK/show" <<'END'
#!/bin/sh
for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK \
    MASTER_ADDR; do
    eval "printf '%s ' \"\${$name--}\""
done
echo "$SLURMD_NODENAME ${0##*/} $*"
END
    printf '#!/bin/sh\n[ "$1" != console ] || exec "%s" "$@"\n' \
        "$DT_BUILDDIR/disttrain" >"$WORK/disttrain"
    cat >>"$WORK/disttrain" <<'END'
[ "$1 $2" != "check --outlives" ] || exit 1
if [ "$1 $2" != "check --contract" ]; then
    [ -z "$SHOW_MPI" ] || echo "mpi $SLURM_MPI_TYPE ${PMIX_RANK:+with a rank}"
    . "${0%/*}/show"
    exit
fi
[ "$3" != --allocation ] || shift 2 # of sbatch and salloc
while [ "$3" = --set ]; do shift 2; done
case $3 in
*bad*)
    echo "$3:2:3: model.layres: unknown key, did you mean layers?" >&2
    echo "$3:9:1: optim.lr: expected a number > 0, got \"fast\"" >&2
    exit 78
    ;;
esac
echo DISTTRAIN_CONTRACT=3
echo RUNS=train
path=$(readlink -f -- "$3" | tr -d '\n')
echo "CONFIG=${path:-/}"
echo "ENV FROM_CONFIG=one two"
[ "${3##*/}" != kept.yaml ] || printf 'SRUN SLURM_DISTTRAIN_%s\n' \
    SIGNAL=10@3600 PREFLIGHT=1 REQUEUE=1
END
    chmod 755 "$WORK/show" "$WORK/disttrain"
    touch "$WORK/c.yaml" "$WORK/d.yaml" "$WORK/kept.yaml" "$WORK/bad.yaml"
    dt_cluster_up --nodes 4 --cpus 4 --runtime "$WORK/disttrain" \
        --conf SchedulerParameters=batch_sched_delay=0,bf_interval=1
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

# second_cluster_srun [UP OPTION]... -- [SRUN WORD]...: runs srun on a cluster
# with another configuration, which exists until the test ends.
second_cluster_srun() {
    local up=()
    while [[ $1 != -- ]]; do
        up+=("$1")
        shift
    done
    "$DT_SRCDIR/contrib/devcluster" up --name "$DT_CLUSTER-b" \
        --runtime "$WORK/disttrain" "${up[@]}" >/dev/null
    timeout 60 "$DT_SRCDIR/contrib/devcluster" run --name "$DT_CLUSTER-b" \
        --user root srun --quiet "${@:2}"
}

# table MASTER NODE...: what `show` prints for two tasks on each of the nodes,
# given in the order of ranks.
table() {
    local master=$1 rank=0 node
    shift
    for node in "$@"; do
        for local in 0 1; do
            echo "$rank $((2 * $#)) $local 2 $((rank / 2)) $((rank / 2))" \
                "$master $node show "
            rank=$((rank + 1))
        done
    done
}

# expect TEXT: $output is TEXT, in any order of lines.
expect() {
    diff <(sort <<<"$1") <(sort <<<"$output")
}

# next_job: the id that the next job will get.
next_job() {
    dt_run scontrol show config | grep NEXT_JOB_ID
}

# batch SCRIPT [SBATCH WORD]...: runs a batch script and prints its output.
batch() {
    printf '#!/bin/sh\n#SBATCH -N4 -n8 --ntasks-per-node=2 -o out\n%s\n' \
        "$1" >job.sh
    local status=0
    dt_run sbatch --quiet --wait "${@:2}" job.sh || status=$?
    # a step may have to wait until the previous one has released its CPUs:
    # srun says that it waits (not always) and that it got its step (always)
    grep -Ev '^srun: (Job .* step creation|Step created for) ' out
    return "$status"
}

@test "srun --help, sbatch --help and salloc --help describe the option" {
    for tool in srun sbatch salloc; do
        run -0 dt_run "$tool" --help
        [[ $output == *"--disttrain=FILE"*"check the configuration FILE"* ]]
        [[ $output == *"--disttrain-set=KEY=VALUE"* ]]
    done
}

@test "every task of 4 nodes x 2 has its variables" {
    run -0 dt_srun -N4 --ntasks-per-node=2 --disttrain=c.yaml ./show
    expect "$(table n1 n1 n2 n3 n4)"
}

@test "MASTER_ADDR is rank 0's host with an arbitrary distribution" {
    printf '%s\n' n3 n3 n1 n1 n4 n4 n2 n2 >hosts
    run -0 dt_run env SLURM_HOSTFILE=hosts srun -Q -n8 --distribution=arbitrary \
        --disttrain=c.yaml sh -c 'echo $RANK $SLURMD_NODENAME $MASTER_ADDR'
    expect "$(printf '%s\n' '0 n3 n3' '1 n3 n3' '2 n1 n3' '3 n1 n3' \
        '4 n4 n3' '5 n4 n3' '6 n2 n3' '7 n2 n3')"
}

@test "--export=NONE changes nothing, env: of the config included" {
    run -0 dt_srun -N4 --ntasks-per-node=2 --export=NONE --disttrain=c.yaml \
        ./show
    expect "$(table n1 n1 n2 n3 n4)"
    run -0 dt_srun --export=NONE --disttrain=c.yaml \
        /bin/sh -c 'echo "$FROM_CONFIG"'
    [[ $output == "one two" ]]
}

@test "a heterogeneous job is one world" {
    run -0 --separate-stderr dt_srun -N1 -n2 --disttrain=c.yaml ./show : \
        -N 2 -n 4 --ntasks-per-node 2 ./show
    expect "$(table n1 n1 n2 n3)"
}

@test "rank 0 of a heterogeneous job is in its first component" {
    run -0 --separate-stderr dt_srun -w n3 -n2 --disttrain=c.yaml ./show : \
        -w n1 -n2 ./show : -w n2 -n2 ./show
    expect "$(table n3 n3 n1 n2)"
}

@test "a step of several components in one allocation is one world" {
    run -0 --separate-stderr dt_run salloc -N3 -n6 --ntasks-per-node=2 \
        srun -N1 -n2 --disttrain=c.yaml ./show : \
        -N2 -n4 --ntasks-per-node=2 ./show
    expect "$(table n1 n1 n2 n3)"
}

@test "a rank 0 that is not where the others look for it ends the step" {
    run ! dt_run salloc -w n[1-3] srun -w n3 -N1 -n1 --disttrain=c.yaml \
        ./show : -w n[1-2] -N2 -n2 ./show
    [[ $output == *"rank 0: MASTER_ADDR: expected rank 0 on n1, but it is on n3; set \
MASTER_ADDR to the host of rank 0 before srun"* ]]
}

@test "a heterogeneous job agrees on the port" {
    run -0 --separate-stderr dt_srun -n1 --disttrain=c.yaml \
        sh -c 'echo $MASTER_PORT' : -n2 sh -c 'echo $MASTER_PORT'
    [[ ${lines[0]} =~ ^6[0-9]{4}$ ]]
    [[ $output == "${lines[0]}"$'\n'"${lines[0]}"$'\n'"${lines[0]}" ]]
}

# Without PMIx, because srun of Slurm 22.05 sometimes hangs at its end then
# (pmixp_abort_agent_stop, once for each component, on one agent).
@test "a heterogeneous job without a command runs the runtime" {
    run -0 --separate-stderr dt_run env SLURM_MPI_TYPE=none \
        srun -Q -N 1 -n1 --disttrain=c.yaml : -N2 -n 2
    expect "$(printf '%s\n' '0 3 0 1 0 0 n1 n1 disttrain ' \
        '1 3 0 1 1 1 n1 n2 disttrain ' '2 3 0 1 2 2 n1 n3 disttrain ')"
}

@test "a heterogeneous job has one config" {
    run -1 --separate-stderr dt_srun -n1 --disttrain=c.yaml true : \
        -n1 --disttrain=d.yaml true
    [[ $stderr == *"share one config, but there are two: c.yaml and d.yaml" ]]
}

@test "without a command the runtime runs, however the option is written" {
    local want form
    want=$(table n1 n1 n2 | sed 's/show/disttrain/')
    for form in "-N2 -n4 --disttrain=c.yaml" "-N2 -n4 --disttrain c.yaml" \
        "-N2 -n 4 --disttrain=c.yaml" "--disttrain c.yaml -N 2 -n 4" \
        "--disttrain=c.yaml --nodes 2 --ntasks=4" \
        "-N2 -n4 --disttrain=c.yaml --" \
        "--disttrain-set=run.name=x --disttrain=c.yaml -N2 -n4"; do
        # shellcheck disable=SC2086
        run -0 dt_srun --ntasks-per-node=2 $form
        expect "$want"
    done
}

@test "the runtime gets PMIx, however the options are written" {
    dt_need_pmix
    local form
    for form in "--disttrain=c.yaml" "--disttrain=c.yaml -n1" \
        "-n 1 --disttrain=c.yaml" "--disttrain c.yaml -n 1" \
        "--disttrain=c.yaml $WORK/disttrain" \
        "-n 1 --disttrain c.yaml $WORK/disttrain train c.yaml"; do
        # shellcheck disable=SC2086
        run -0 dt_run env SHOW_MPI=1 srun -Q $form
        [[ ${lines[0]} == "mpi pmix with a rank" ]]
    done
}

@test "the user's MPI type is kept" {
    run -0 dt_run env SHOW_MPI=1 srun -Q -n 1 --mpi=pmi2 --disttrain=c.yaml
    [[ ${lines[0]} == "mpi pmi2 " ]]
    run -0 dt_run env SHOW_MPI=1 SLURM_MPI_TYPE=pmi2 srun -Q --disttrain=c.yaml
    [[ ${lines[0]} == "mpi pmi2 " ]]
    run -0 dt_srun -n 1 --disttrain=c.yaml sh -c 'echo $SLURM_MPI_TYPE'
    [[ $output == "" ]]
}

@test "a command runs with its own arguments, --disttrain among them" {
    local want
    want="0 1 0 1 0 0 n1 n1 show"
    run -0 dt_srun --disttrain=c.yaml ./show --disttrain=x
    [[ $output == "$want --disttrain=x" ]]
    run -0 dt_srun -n 1 --disttrain c.yaml -- ./show -n3 --disttrain x
    [[ $output == "$want -n3 --disttrain x" ]]
    run -0 dt_srun --disttrain=c.yaml -- ./show -- --help
    [[ $output == "$want -- --help" ]]
}

@test "a program's own --disttrain is not taken for srun's" {
    run -0 dt_srun -n 1 ./show --disttrain=bad.yaml
    [[ $output == "- - - - - - - n1 show --disttrain=bad.yaml" ]]
    run -0 dt_srun -l ./show --disttrain bad.yaml
    [[ $output == "0: - - - - - - - n1 show --disttrain bad.yaml" ]]
}

@test "--disttrain=none switches the plugin off, and needs a command" {
    run -0 dt_srun --disttrain=none ./show
    [[ $output == "- - - - - - - n1 show " ]]
    run -1 dt_srun --disttrain=none
    [[ $output == "srun: fatal: No command given to execute." ]]
}

@test "the option can be preset in the environment" {
    run -0 dt_run env \
        SLURM_SPANK__SLURM_SPANK_OPTION_disttrain_disttrain=c.yaml \
        srun -Q -N4 --ntasks-per-node=2 ./show
    expect "$(table n1 n1 n2 n3 n4)"
    run -0 dt_run env \
        SLURM_SPANK__SLURM_SPANK_OPTION_disttrain_disttrain=bad.yaml \
        srun -Q --disttrain=c.yaml sh -c 'echo $SLURM_DISTTRAIN_CONFIG'
    [[ $output == "$WORK/c.yaml" ]]
}

@test "--multi-prog needs its file, and its tasks are ranks" {
    run -1 dt_srun --multi-prog --disttrain=c.yaml -n2
    [[ $output == *"--multi-prog needs its file as the command" ]]
    printf '0 %s/show zero\n1 %s/show one\n' "$WORK" "$WORK" >multi
    run -0 dt_srun --multi-prog --disttrain=c.yaml -n2 -N1 multi
    expect "$(printf '%s\n' '0 2 0 2 0 0 n1 n1 show zero' \
        '1 2 1 2 0 0 n1 n1 show one')"
}

@test "mistakes in the config are printed and nothing is queued" {
    local before mistakes
    before=$(next_job)
    mistakes='bad.yaml:2:3: model.layres: unknown key, did you mean layers?
bad.yaml:9:1: optim.lr: expected a number > 0, got "fast"'
    run -1 dt_srun -n2 --disttrain=bad.yaml
    [[ $output == "$mistakes
srun: error: disttrain: bad.yaml: nothing is submitted" ]]
    run -1 dt_srun --disttrain bad.yaml ./show
    [[ $output == "$mistakes"* ]]
    run -1 dt_run sbatch --disttrain=bad.yaml --wrap true
    [[ $output == "$mistakes
sbatch: error: disttrain: bad.yaml: nothing is submitted" ]]
    run -1 dt_run salloc --disttrain=bad.yaml true
    [[ $output == "$mistakes
salloc: error: disttrain: bad.yaml: nothing is submitted" ]]
    [[ $(next_job) == "$before" ]]
}

@test "an option without a value is refused" {
    run -1 dt_srun --disttrain= ./show
    [[ $output == *'--disttrain: expected a file, "env" or "none", got nothing' ]]
}

@test "#SBATCH --disttrain reaches the sruns of the job and not its script" {
    run -0 batch "#SBATCH --disttrain=c.yaml
./show batch; cd /; srun $WORK/show"
    expect "- - - - - - - n1 show batch
$(table n1 n1 n2 n3 n4)"
}

@test "so it does with sbatch --export=NONE" {
    run -0 batch "cd /; srun $WORK/show" --disttrain=c.yaml --export=NONE
    expect "$(table n1 n1 n2 n3 n4)"
}

@test "in a batch job the command is disttrain, and it gets PMIx" {
    dt_need_pmix
    run -0 batch "SHOW_MPI=1 srun -n1 -N1 ./disttrain" --disttrain=c.yaml
    [[ ${lines[0]} == "mpi pmix with a rank" ]]
    run -1 batch srun --disttrain=c.yaml
    [[ ${lines[0]} == *"--disttrain=$WORK/c.yaml comes from the job, and \
leaves no place for a command: write \"srun disttrain\"" ]]
    [[ ${lines[1]} == "srun: fatal: No command given to execute." ]]
}

@test "an srun in a batch job can use another config, or none" {
    run -0 batch 'srun -n1 -N1 --disttrain=d.yaml \
    sh -c "echo \$SLURM_DISTTRAIN_CONFIG"
srun -n1 -N1 --disttrain=none ./show
srun -n1 -N1 ./show --disttrain=x' --disttrain=c.yaml
    [[ ${lines[0]} == "$WORK/d.yaml" ]]
    # Slurm chooses the node of a one-node step
    [[ ${lines[1]} == "- - - - - - - n"[1-4]" show " ]]
    [[ ${lines[2]} =~ ^"0 1 0 1 0 0 "(n[1-4])" "(n[1-4])" show --disttrain=x"$ ]]
    [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]]
}

@test "overrides of sbatch reach the sruns of its file, which add their own" {
    run -0 batch "#SBATCH --disttrain-set=a=1
for file in c d; do
    srun -n1 -N1 --disttrain=\$file.yaml --disttrain-set b=2 \
        sh -c 'echo \$SLURM_DISTTRAIN_OVERRIDES'
done" --disttrain=c.yaml --disttrain-set=c='x y'
    [[ ${lines[0]} == 'a=1 c=x\sy b=2' && ${lines[1]} == b=2 ]]
    run -1 dt_srun --disttrain-set=a=1 true
    [[ $output == *"--disttrain-set a=1: there is no file that it is of: add \
--disttrain=FILE" ]]
}

@test "an srun started in a task inherits nothing from its step" {
    # the first step has all CPUs when the second one asks for some
    run -0 batch 'srun -n8 sleep 3 &
until squeue --noheader --steps | grep -qF "$SLURM_JOB_ID.0 "; do sleep 0.1; done
srun -n1 -N1 echo waited; wait'
    [[ $output == waited && $(<out) == *"srun: Step created for "* ]]
    run -0 batch 'srun -n2 -N2 sh -c "[ \$RANK = 0 ] || 
    srun --overlap -n1 -N1 ./show"' --disttrain=c.yaml
    [[ $output =~ ^"- - - - - - - n"[1-4]" show "$ ]]
    run -0 batch 'srun -n2 -N2 sh -c "[ \$RANK = 0 ] || 
    srun --overlap -n1 -N1 --disttrain=d.yaml ./show"' --disttrain=c.yaml
    [[ $output =~ ^"0 1 0 1 0 0 "(n[1-4])" "(n[1-4])" show "$ ]]
    [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]]
}

@test "a job that a job submits does not have its option" {
    local preset=SLURM_SPANK__SLURM_SPANK_OPTION_disttrain_disttrain
    cat >inner.sh <<'END'
submit() { sbatch --quiet --wait -N1 -n1 -o inner --wrap "srun -Q $PWD/show" && cat inner; }
submit
salloc --quiet -N1 -n1 srun -Q ./show
END
    echo "export $preset=d.yaml; submit" >>inner.sh
    run -0 dt_run sbatch --quiet --wait -N1 -n1 -o outer --disttrain=c.yaml \
        --disttrain-set=a=1 --wrap 'srun -Q ./show; . ./inner.sh'
    run -0 sed 's/n[1-4] show/N show/; s/ n[1-4]//' outer
    [[ $output == "0 1 0 1 0 0 N show 
- - - - - - - N show 
- - - - - - - N show 
0 1 0 1 0 0 N show " ]]
    run -0 dt_run env "$preset=c.yaml" sbatch --quiet --wait -N1 -n1 -o outer \
        --wrap 'sbatch --quiet --wait -N1 -n1 -o inner --wrap "srun -Q $PWD/show"'
    [[ $(<inner) == "0 1 0 1 0 0 n"* ]]
}

@test "salloc passes the option on" {
    run -0 --separate-stderr dt_run salloc -N2 --ntasks-per-node=2 \
        --disttrain=c.yaml sh -c 'cd /; srun '"$WORK"'/show; '"$WORK"'/show x'
    expect "$(table n1 n1 n2)
- - - - - - -  show x"
}

# session FILE: what stdin says, in salloc on the second cluster.
session() {
    timeout 60 "$DT_SRCDIR/contrib/devcluster" run --name "$DT_CLUSTER-b" \
        --user root env SHELL=/bin/sh salloc --quiet -N2 -n2 --disttrain="$1"
}

@test "the interactive step of salloc only passes the option on" {
    second_cluster_srun --nodes 2 --conf LaunchParameters=use_interactive_step \
        --conf 'InteractiveStepOptions="--interactive --preserve-env $SHELL"' \
        -- true
    run -0 --separate-stderr session c.yaml <<<"$WORK/show x; srun $WORK/show"
    expect "- - - - - - - n1 show x
0 2 0 1 0 0 n1 n1 show 
1 2 0 1 1 1 n1 n2 show "
    run -0 session kept.yaml <<<'env | grep -E "^(SLURM_DISTTRAIN|FROM|SLURM_KILL)"
sleep 1; echo over'
    [[ $output == over ]]
}

@test "a RANK that contradicts the step ends it with a message" {
    run -1 dt_run env RANK=5 srun -Q -n2 -N2 --disttrain=c.yaml ./show
    [[ $output == *"disttrain: rank 1: the environment has RANK=5, but this \
task has 1; unset RANK before srun"* ]]
    [[ $output != *show* ]]
}

@test "a contradicting RANK ends the step with an optional plugin, too" {
    local plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
    run -1 env RANK=5 SRCDIR= bash -c "$(declare -f second_cluster_srun)
        second_cluster_srun --nodes 1 --plugin none \
        --plugstack 'optional $plugin runtime=$WORK/disttrain' -- \
        --disttrain=c.yaml ./show"
    [[ $output == *"rank 0: the environment has RANK=5, but"* ]]
    [[ $output != *show* ]]
}

@test "variables that the user has set are kept" {
    run -0 dt_run env RANK=0 MASTER_ADDR=10.1.1.1 MASTER_PORT=29500 \
        OMP_NUM_THREADS=3 srun -Q --disttrain=c.yaml \
        sh -c 'echo $RANK $MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS'
    [[ $output == "0 10.1.1.1 29500 3" ]]
    run -0 dt_run env FROM_CONFIG=mine srun -Q -n2 --disttrain=c.yaml \
        sh -c 'echo $FROM_CONFIG'
    expect "mine
mine
disttrain: env: FROM_CONFIG of the configuration is not used: the environment has \
another value"
}

@test "overlapping steps of a job have different ports" {
    run -0 batch 'for i in 1 2 3; do
    srun --overlap -n1 -N1 sh -c "echo \$MASTER_PORT" & done; wait' \
        --disttrain=c.yaml
    [[ $(sort -u <<<"$output" | grep -c '^6[1-5][0-9]*$') == 3 ]]
}

@test "the port comes from the site's range, or from Slurm's reservation" {
    local show='echo $MASTER_PORT ${SLURM_STEP_RESV_PORTS%%-*}'
    run -0 second_cluster_srun --nodes 1 --conf MpiParams=ports=12000-12100 \
        -- --resv-ports=2 --disttrain=c.yaml sh -c "$show"
    [[ $output =~ ^(12[01][0-9]{2})" "(12[01][0-9]{2})$ ]]
    [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]]
    "$DT_SRCDIR/contrib/devcluster" down --name "$DT_CLUSTER-b"
    run -0 second_cluster_srun --nodes 1 --plugin none --plugstack \
        "required $DT_BUILDDIR/spank/.libs/spank_disttrain.so \
runtime=$WORK/disttrain port_range=2000-2001" \
        -- --disttrain=c.yaml sh -c "$show"
    [[ $output =~ ^200[01]$ ]]
}

@test "OMP_NUM_THREADS is the task's share of CPUs" {
    local cpus
    cpus=$(nproc)
    run -0 dt_srun -N1 -n4 --disttrain=c.yaml sh -c 'echo $OMP_NUM_THREADS'
    [[ $(sort -u <<<"$output") == 1 ]]
    run -0 dt_srun -n1 -c4 --disttrain=c.yaml sh -c 'echo $OMP_NUM_THREADS'
    [[ $output == $((cpus < 4 ? cpus : 4)) ]]
}

@test "OMP_NUM_THREADS is at most the size of the affinity mask" {
    run -0 second_cluster_srun --nodes 1 --conf TaskPlugin=task/affinity \
        -- -n1 --cpu-bind=map_cpu:0 --disttrain=c.yaml \
        sh -c 'echo $OMP_NUM_THREADS'
    [[ $output == 1 ]]
}

@test "one failed rank ends the step, unless the user wants otherwise" {
    run ! dt_srun -n2 --disttrain=c.yaml \
        sh -c '[ $RANK = 0 ] && exit 7; exec sleep 300'
    ((status != 124)) # of timeout
    run -7 dt_run env SLURM_KILL_BAD_EXIT=0 srun -Q -n2 --disttrain=c.yaml \
        sh -c '[ $RANK = 0 ] && exit 7; sleep 1; echo survived'
    [[ $output == *survived* ]]
}

@test "everything works for an ordinary user" {
    run -0 dt_srun_user -N4 --ntasks-per-node=2 --disttrain=c.yaml ./show
    expect "$(table n1 n1 n2 n3 n4)"
}

@test "no option value harms slurmstepd" {
    local value
    for value in "$(printf 'x%.0s' {1..60000})" $'a\nb' '%n%s%1000000d' \
        $'\xff\xfe' '../../../etc/shadow' "\$(reboot)" ' '; do
        run -0 dt_srun --disttrain="$value" ./show
        [[ $output == "0 1 0 1 0 0 n1 n1 show " ]]
    done
    run -0 dt_run sinfo --noheader --format=%T
    [[ $output != *down* && $output != *drain* ]]
}

@test "an unknown argument in plugstack.conf is named" {
    cat >slurm.conf <<END
ClusterName=t
SlurmctldHost=localhost
PlugStackConfig=$WORK/plugstack.conf
END
    echo "required $DT_BUILDDIR/spank/.libs/spank_disttrain.so rutime=/x" \
        >plugstack.conf
    run ! env SLURM_CONF="$WORK/slurm.conf" srun --disttrain=c.yaml
    [[ ${lines[0]} == "srun: error: disttrain: plugstack.conf: unknown \
argument \"rutime=/x\": expected runtime=PATH, port_range=A-B, env=NAME=VALUE, \
force=NAME=VALUE, allow_runtime=DIR or off=PART" ]]
}

@test "a missing runtime is named" {
    run -1 second_cluster_srun --nodes 1 --plugin none --plugstack \
        "required $DT_BUILDDIR/spank/.libs/spank_disttrain.so runtime=/x/y" \
        -- --disttrain=c.yaml
    [[ $output == "srun: error: disttrain: /x/y check: No such file or \
directory (runtime= in plugstack.conf): install disttrain on "* ]]
}

@test "a node without the runtime is named" {
    dt_run --node n4 mount -t tmpfs none "$WORK"
    run ! dt_srun -w n4 --disttrain=c.yaml
    dt_run --node n4 umount --lazy "$WORK"
    [[ $output == *"disttrain: rank 0: no runtime at $WORK/disttrain on n4: \
install disttrain there"* ]]
}

@test "an MPI program without MPI is named, and one with it is not" {
    dt_need_pmix
    local ring=$DT_BUILDDIR/tests/job/pmix_ring
    [[ -x $ring ]] || skip "built without PMIx"
    run dt_run srun -n2 --disttrain=env "$ring"
    [[ $output == *"disttrain: warning: $ring is linked with libpmix.so"*", but \
this step has no MPI, and each rank may be alone: give srun --mpi=pmix"* ]]
    run -0 dt_run srun -n2 --mpi=pmix --disttrain=env "$ring"
    [[ $output != *"is linked with"* ]]
    run -0 dt_run srun -n2 --disttrain=env sh -c true
    [[ $output != *"is linked with"* ]]
}

@test "a node whose PATH lacks the runtime is named" {
    run ! dt_run env PATH=/usr/bin:/bin srun -w n4 --disttrain=c.yaml disttrain
    [[ $output == *"disttrain: rank 0: no disttrain in PATH on n4: write \
$WORK/disttrain"* ]]
    dt_run --node n4 mount -t tmpfs none "$WORK"
    run ! dt_srun -w n4 --disttrain=c.yaml --chdir=/ disttrain
    dt_run --node n4 umount --lazy "$WORK"
    [[ $output == *"disttrain: rank 0: no disttrain in PATH on n4, and no runtime \
at $WORK/disttrain: install disttrain there"* ]]
}
