#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# site.bats - what the arguments in plugstack.conf do to the tasks of users

bats_require_minimum_version 1.5.0

load helpers

# Two partitions, and a runtime that accepts every config and says its name.
setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-site.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    mkdir "$WORK/allowed" "$WORK/other"
    printf '#!/bin/sh\n[ "$1" != console ] || exec "%s" "$@"\n' \
        "$DT_BUILDDIR/disttrain" >"$WORK/disttrain"
    cat >>"$WORK/disttrain" <<'END'
[ "$1 $2" != "check --outlives" ] || exit 1
if [ "$1 $2" != "check --contract" ]; then
    echo "I am $0"
    exit
fi
[ "$3" != --allocation ] || shift 2 # of sbatch and salloc
printf '%s\n' DISTTRAIN_CONTRACT=3 RUNS=train "CONFIG=$(readlink -f "$3")" \
    "ENV FROM_CONFIG=config"
cat "${0%/*}/more" 2>/dev/null
exit 0
END
    chmod 755 "$WORK/disttrain"
    cp "$WORK/disttrain" "$WORK/allowed/mine"
    cp "$WORK/disttrain" "$WORK/other/mine"
    touch "$WORK/c.yaml"
    local plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
    dt_cluster_up --nodes 2 --cpus 2 --plugin none --plugstack "required \
$plugin runtime=$WORK/disttrain allow_runtime=$WORK/allowed \
env=COLOUR=blue env[second]=COLOUR=red env=FROM_CONFIG=site \
env[second]=ONLY=second force=POLICY=strict force[second]=POLICY=lax" \
        --conf 'PartitionName=main Nodes=ALL Default=YES' \
        --conf 'PartitionName=second Nodes=ALL'
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    rm -f more # of a case that failed
}

show='echo $COLOUR ${ONLY-none} $FROM_CONFIG $POLICY'

@test "tasks get the site's variables, those of their partition first" {
    run -0 dt_srun --disttrain=c.yaml sh -c "$show"
    [[ $output == "blue none config strict" ]]
    run -0 dt_srun -p second --disttrain=c.yaml sh -c "$show"
    [[ $output == "red second config lax" ]]
}

@test "so do they with --export=NONE, and in a batch job" {
    run -0 dt_srun -p second --export=NONE --disttrain=c.yaml \
        /bin/sh -c "$show"
    [[ $output == "red second config lax" ]]
    printf '#!/bin/sh\nsrun -Q sh -c '\''%s'\''\n' "$show" >job.sh
    run -0 dt_run sbatch -Q --wait -p second -o out --disttrain=c.yaml job.sh
    [[ $(<out) == "red second config lax" ]]
}

@test "the user's variable overrides the site's default, but not its force=" {
    run -0 --separate-stderr dt_run env COLOUR=mine POLICY=mine \
        srun -Q -N2 -n2 --disttrain=c.yaml sh -c "$show"
    [[ ${lines[0]} == "mine none config strict" ]]
    [[ ${lines[1]} == "mine none config strict" ]]
    # shellcheck disable=SC2154
    [[ $stderr == "disttrain: POLICY of the job is not used: this site has \
its own value" ]]
}

@test "a step without the option gets nothing" {
    run -0 dt_srun sh -c 'echo ${COLOUR-none} ${POLICY-none}'
    [[ $output == "none none" ]]
}

@test "a user's own runtime must be where the site allows it" {
    run -0 dt_run env DISTTRAIN_RUNTIME="$WORK/allowed/mine" \
        srun -Q --disttrain=c.yaml
    [[ $output == "I am $WORK/allowed/mine" ]]
    run -1 dt_run env DISTTRAIN_RUNTIME="$WORK/other/mine" \
        srun -Q --disttrain=c.yaml
    [[ $output == "srun: error: disttrain: DISTTRAIN_RUNTIME: \
$WORK/other/mine is in none of the directories that this site allows" ]]
    run -0 dt_run env DISTTRAIN_RUNTIME="$WORK/other/mine" srun -Q echo untouched
    [[ $output == untouched ]]
}

@test "a part that is off does nothing, and says so if it is asked for" {
    local conf=/run/disttrain-devcluster/$DT_CLUSTER/conf/plugstack.conf
    local key show='echo ${NCCL_SOCKET_IFNAME-none} \
        ${SLURM_DISTTRAIN_REQUEUE-none} ${SLURM_DISTTRAIN_SIGNAL-none}'
    for key in PREFLIGHT=1 REQUEUE=1 SIGNAL=10@60 GPU_VISIBILITY=one \
        CONSOLE_RANKS=1 RANK_LOGS="$WORK/logs"; do
        echo "SRUN SLURM_DISTTRAIN_$key"
    done >"$WORK/more"
    cp "$conf" before
    sed -i 's/$/ off=preflight,requeue,signal,net,gpu,console/' "$conf"
    run -0 --separate-stderr dt_srun -N2 -n2 --disttrain=c.yaml \
        sh -c "$show"
    cp before "$conf"
    rm "$WORK/more"
    [[ $output == "none none none"$'\n'"none none none" ]]
    local said='srun: error: disttrain: %s: this site has turned it off\n'
    # shellcheck disable=SC2154,SC2059
    [[ $stderr == "$(printf "$said" launch.preflight launch.gpu_visibility \
        logging.console_ranks logging.rank_logs launch.signal \
        launch.requeue)" ]]
    [[ ! -e $WORK/logs ]]
    run -0 dt_srun -N2 -n2 --disttrain=c.yaml \
        sh -c 'echo ${NCCL_SOCKET_IFNAME-none}'
    [[ $output != *none* ]]
}

@test "a line added to plugstack.conf takes effect with the next step" {
    local conf=/run/disttrain-devcluster/$DT_CLUSTER/conf/plugstack.conf
    sed -i 's/$/ env=ADDED=later/' "$conf"
    run -0 dt_srun --disttrain=c.yaml sh -c 'echo $ADDED'
    [[ $output == later ]]
}

@test "a plugin that a node lacks: required ends the step, optional does not" {
    local conf=/run/disttrain-devcluster/$DT_CLUSTER/conf/plugstack.conf
    cp "$DT_BUILDDIR/spank/.libs/spank_disttrain.so" "$WORK/plugin.so"
    dt_run --node n2 mount --bind /dev/null "$WORK/plugin.so"
    echo "required $WORK/plugin.so runtime=$WORK/disttrain" >"$conf"
    run dt_srun -w n2 echo started
    # "Plugin initialization failed", since 26.05 "Unspecified error"
    [[ $output == *"task 0 launch failed: "* && $output != *started* ]]
    run -0 dt_srun -w n1 --disttrain=c.yaml sh -c 'echo $RANK'
    [[ $output == 0 ]]
    sed -i 's/required/optional/' "$conf"
    run -0 dt_srun -w n2 --disttrain=c.yaml sh -c 'echo ${RANK-none}'
    [[ $output == none ]]
}
