#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031
# SPDX-License-Identifier: Apache-2.0
# launch.bats - launch: of the config: srun's defaults, command, signal, requeue

bats_require_minimum_version 1.5.0

load helpers

# config NAME LINE...: writes NAME.yaml with these lines under launch:
config() {
    printf 'launch:\n' >"$1.yaml"
    printf '  %s\n' "${@:2}" >>"$1.yaml"
}

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-launch.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    cd "$WORK" || return
    cat >waits <<'END'
#!/bin/sh
has() {
    trap "" TERM USR1
    echo "rank $RANK on $SLURMD_NODENAME has $1" | tee -a heard
    # when the first rank exits, Slurm ends the others
    until [ "$(grep -c "has $1" heard)" -ge "${PEERS:-0}" ]; do
        sleep 0.1
    done
    exit 3
}
trap 'has TERM' TERM
trap 'has USR1' USR1
echo up
i=0
while [ $i -lt 500 ]; do
    sleep 0.1
    i=$((i + 1))
done
END
    chmod 755 waits
    # a container plugin that only prints what it is asked for
    cat >pyxis.c <<'END'
#include <slurm/spank.h>
SPANK_PLUGIN(pyxis, 1)
static int on_image(int val, const char *image, int remote)
{
    (void)val;
    if (!remote)
        slurm_spank_log("image %s", image);
    return 0;
}
static struct spank_option image = {
    "container-image", "IMAGE", "usage", 1, 0, on_image};
int slurm_spank_init(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    return spank_option_register(spank, &image);
}
END
    cc -shared -fPIC -o pyxis.so pyxis.c
    config four "nodes: 2" "ntasks_per_node: 2"
    config command \
        'command: [printf, "%s.", "a\nb\\c", " d", ""]'
    config mistake "node: 2"
    config again "requeue: true" "signal: USR1@10"
    dt_cluster_up --nodes 4 --cpus 4 --gpus 2 \
        --plugstack "required $WORK/pyxis.so" \
        --conf 'PartitionName=main Nodes=ALL Default=YES' \
        --conf 'PartitionName=other Nodes=ALL' \
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

# batch SCRIPT [SBATCH WORD]...: runs a batch script and prints its output.
# "sbatch --wait" would check a requeued job only twice a minute.
batch() {
    local id
    printf '#!/bin/sh\n#SBATCH -o out --open-mode=append\n%s\n' "$1" >job.sh
    rm -f out
    id=$(dt_run sbatch --parsable "${@:2}" job.sh)
    dt_wait_for 200 has_ended "$id"
    cat out
}

has_ended() {
    [[ -z $(dt_run squeue --noheader --jobs="$1") ]]
}

show='echo $RANK/$WORLD_SIZE $SLURMD_NODENAME'

@test "the file alone says how many nodes and ranks" {
    run -0 dt_srun --disttrain=four.yaml sh -c "$show"
    [[ $(sort <<<"$output") == "0/4 n1
1/4 n1
2/4 n2
3/4 n2" ]]
}

@test "the command line and the user's environment override the file" {
    run -0 dt_srun -N1 --disttrain=four.yaml sh -c "$show"
    [[ $(sort <<<"$output") == $'0/2 n1\n1/2 n1' ]]
    run -0 dt_srun --disttrain four.yaml --ntasks-per-node 1 sh -c "$show"
    [[ $(sort <<<"$output") == $'0/2 n1\n1/2 n2' ]]
    run -0 dt_run env SLURM_JOB_NUM_NODES=1 srun -Q --disttrain=four.yaml \
        sh -c "$show"
    [[ $(sort <<<"$output") == $'0/2 n1\n1/2 n1' ]]
}

@test "every setting becomes a default of srun" {
    config all "nodes: 1" "gpus_per_node: 2" "cpus_per_task: 2" \
        "partition: other" "account: a1" "time: 7" "mem: 100M"
    echo "run.name: mine" >>all.yaml
    run -0 dt_srun --disttrain=all.yaml sh -c 'echo $CUDA_VISIBLE_DEVICES
        echo CPUS=$SLURM_CPUS_PER_TASK
        scontrol show job $SLURM_JOB_ID | tr " " "\n"'
    [[ $output == *0,1* && $output == *CPUS=2* ]]
    local line
    for line in Partition=other Account=a1 TimeLimit=00:07:00 \
        MinMemoryNode=100M JobName=mine; do
        grep -qx "$line" <<<"$output"
    done
    run -0 dt_srun -J other --disttrain=all.yaml sh -c 'echo $SLURM_JOB_NAME'
    [[ $output == *other* && $output != *mine* ]]
}

@test "launch.container is the image of the step, and of no step inside it" {
    config box "container: some+image"
    run -0 dt_srun --disttrain=box.yaml sh -c 'env | grep pyxis_container; true'
    [[ $output == "image some+image" ]]
    run -0 dt_srun --container-image=mine --disttrain=box.yaml true
    [[ $output == "image mine" ]]
}

@test "a step in a job uses the file's sizes, or fails if they differ" {
    run -0 batch 'srun -Q --disttrain=four.yaml sh -c '"'$show'" -N2 --exclusive
    [[ $(sort <<<"$output") == "0/4 n1
1/4 n1
2/4 n2
3/4 n2" ]]
    run -0 batch 'srun --disttrain=four.yaml sh -c '"'$show'" -N3
    [[ $output == *"four.yaml:2:10: launch.nodes: 2 nodes, but job "*" has 3"* ]]
    [[ $output == *"srun: error: disttrain: four.yaml: nothing is submitted" ]]
}

@test "launch.command runs with its exact words and without PMIx" {
    run -0 dt_srun -n1 --disttrain=command.yaml
    [[ $output == $'a\nb\\c. d..' ]]
    config mpi "command: [sh, -c, 'echo \$PMIX_RANK none']"
    run -0 dt_srun --disttrain=mpi.yaml
    [[ $output == none ]]
}

@test "launch.command runs in a batch job, as disttrain" {
    run -0 batch 'srun -Q disttrain' -n1 --disttrain=command.yaml
    [[ $output == $'a\nb\\c. d..' ]]
}

@test "a command on the command line overrides launch.command" {
    run -0 dt_srun --disttrain=command.yaml sh -c 'echo mine $RANK'
    [[ $output == "mine 0" ]]
}

@test "disttrain inside launch.command does not start it again" {
    config inner "command: [sh, -c, 'echo \${SLURM_DISTTRAIN_COMMAND-gone}']"
    run -0 dt_srun --disttrain=inner.yaml
    [[ $output == gone ]]
}

@test "a launch.command that is missing or not executable" {
    config missing "command: [no-such-program]"
    run -127 dt_srun --disttrain=missing.yaml
    [[ $output == *"disttrain: launch.command: no-such-program is not on n1, \
where PATH is "*"; give its path, or set PATH in env:"* ]]
    config nofile "command: [./no-such-program]"
    run -127 dt_srun --disttrain=nofile.yaml
    [[ $output == *"disttrain: launch.command: cannot run ./no-such-program on \
n1: No such file or directory"* ]]
    config noexec "command: [./four.yaml]"
    run -126 dt_srun --disttrain=noexec.yaml
    [[ $output == *"disttrain: launch.command: cannot run ./four.yaml on n1: \
Permission denied"* ]]
}

@test "a file that runs nothing needs a command" {
    run -1 dt_srun --disttrain=four.yaml
    [[ $output == "srun: error: disttrain: four.yaml trains nothing (no \
algorithm:) and names no launch.command: give srun a command" ]]
}

@test "--disttrain=env has no file, but the variables" {
    run -0 dt_srun -N2 --ntasks-per-node=1 --disttrain=env sh -c "$show"
    [[ $(sort <<<"$output") == $'0/2 n1\n1/2 n2' ]]
    run -1 dt_srun -N2 --disttrain=env
    [[ $output == "srun: error: disttrain: --disttrain=env needs a command, because \
there is no file to name one" ]]
    run -0 batch 'cd /; srun -Q sh -c '"'$show'" -n1 --disttrain=env
    [[ $output == "0/1 n1" ]]
}

@test "the config is checked once, before anything is queued" {
    cat >disttrain <<END
#!/bin/sh
[ "\$1" = console ] || echo "\$*" >>$WORK/checks
exec $DT_BUILDDIR/disttrain "\$@"
END
    chmod 755 disttrain
    local plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
    local conf=/run/disttrain-devcluster/$DT_CLUSTER/conf
    cp "$conf/plugstack.conf" saved
    echo "required $plugin runtime=$WORK/disttrain" >"$conf/plugstack.conf"
    run -0 dt_srun -n 1 --disttrain=four.yaml -l true
    cp saved "$conf/plugstack.conf"
    [[ $(<checks) == "check --contract four.yaml -- -n 1 -l -- true" ||
        $(<checks) == "check --contract four.yaml -- --quiet -n 1 -l -- true" ]]
    run -1 dt_srun --disttrain=mistake.yaml true
    [[ $output == "mistake.yaml:2:3: launch.node: unknown key; did you mean \
launch.nodes?"*"nothing is submitted" ]]
}

@test "an option of the program is not taken for srun's" {
    run -0 dt_srun sh -c 'echo ${RANK-no} $1' x --disttrain=four.yaml
    [[ $output == "no --disttrain=four.yaml" ]]
    run -1 dt_srun --container-new sh -c true --disttrain=four.yaml
    [[ $output == "srun: error: disttrain: --disttrain=four.yaml is an \
argument of the command sh, but srun read it as an option of its own: write \"--\" before the \
command, or give srun's long options as --name=value" ]]
}

# signalled SIGNAL [SRUN WORD]...: a step that gets launch.signal 3 s after its
# job's start, or later if the ranks are not up by then.
signalled() {
    local lead
    for lead in 57 45 25; do
        config signal "time: 1" "nodes: 2" "signal: $1@$lead" \
            "command: [./waits]"
        rm -f heard
        PEERS=2 run dt_srun --disttrain=signal.yaml "${@:2}"
        ((status != 3)) || break
    done
    echo "$output"
    ((status == 3))
    [[ $output == *"rank 0 on n1 has $1"* ]]
    [[ $output == *"rank 1 on n2 has $1"* ]]
}

@test "launch.signal reaches every rank of two nodes before the time limit" {
    signalled USR1
    [[ $output =~ "disttrain: "[0-9]+" s to the time limit: SIGUSR1 to every \
rank" ]]
}

@test "SIGTERM, which srun does not forward by itself, reaches every rank too" {
    signalled TERM
    [[ $output == *"s to the time limit: SIGTERM to every rank"* ]]
}

@test "launch.signal in a heterogeneous job: only what srun forwards" {
    signalled USR1 -N1 ./waits : -N1 ./waits
    config term "time: 1" "nodes: 2" "signal: TERM@57"
    run ! dt_srun --disttrain=term.yaml -N1 ./waits : -N1 ./waits
    [[ $output == *"launch.signal: in a heterogeneous job only USR1 and USR2 \
reach every rank, not SIGTERM"* ]]
    # no step is left behind
    run -0 dt_run salloc --quiet -N1 : -N1 sh -c \
        '! srun --het-group=0,1 --disttrain=term.yaml true &&
            timeout 20 srun --quiet --het-group=0,1 echo free'
    [[ $output == *"not SIGTERM"*"free
free" ]]
}

@test "signals of scancel and of preemption reach every rank" {
    local signal
    for signal in USR1 TERM; do
        rm -f heard
        PEERS=2 dt_background log dt_srun -J wait$signal -N2 --disttrain=env ./waits
        dt_wait_for 30 dt_lines 2 up log
        dt_run scancel --signal="$signal" --name=wait$signal
        wait $! || true
        # srun may exit before their output arrives
        grep "rank 0 on n1 has $signal" heard
        grep "rank 1 on n2 has $signal" heard
    done
}

# As spank_disttrain(8) says: which signals to send to srun, and which not.
@test "sent to srun itself, USR1 reaches the ranks and TERM kills them" {
    local signal
    for signal in USR1 TERM; do
        rm -f heard log
        printf '%s\n' "srun -Q --disttrain=env ./waits >log 2>&1 & srun=\$!" \
            'until grep -q up log; do sleep 0.1; done' \
            "kill -$signal \$srun" 'wait $srun' >kill.sh
        run dt_run bash kill.sh
        [[ $status == "$([[ $signal == USR1 ]] && echo 3 || echo 137)" ]]
        [[ $signal == TERM ]] || grep "has USR1" heard
        [[ $signal == USR1 || ! -e heard ]]
    done
}

@test "launch.requeue: status 75 requeues its array task and no other" {
    run -0 batch 'echo task $SLURM_ARRAY_TASK_ID
[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 0
srun -Q sh -c "[ \$SLURM_RESTART_COUNT ] || exit 75; echo restarted"
[ $SLURM_RESTART_COUNT ] || sleep 150' -n1 --array=1-2 --disttrain=again.yaml
    [[ $(grep -c "task 1" <<<"$output") == 2 ]]
    [[ $(grep -c "task 2" <<<"$output") == 1 ]]
    [[ $output =~ "disttrain: job "[0-9]+" goes back into the queue (restart \
1)" ]]
    [[ $(grep -c restarted <<<"$output") == 1 ]]
}

@test "status 75 of one rank requeues the job unless another has failed" {
    run -0 batch 'srun -Q sh -c "[ \$RANK = 1 ] || exec ./waits
[ \$SLURM_RESTART_COUNT ] || exit 75; exit 6"
[ $SLURM_RESTART_COUNT ] || sleep 150' -N2 -n2 --ntasks-per-node=1 --disttrain=again.yaml
    [[ $(grep -c "goes back into the queue" <<<"$output") == 1 ]]
    [[ $output == *"goes back into the queue (restart 1)"*"first failure: rank \
1 on n2, exit status 6"* ]]
}

@test "a step that fails after launch.signal is requeued" {
    local lead
    for lead in 57 45 25; do
        config both "signal: USR1@$lead" "requeue: true"
        run -0 batch 'srun -Q sh -c "[ \$SLURM_RESTART_COUNT ] || exec ./waits
echo restarted"
[ $SLURM_RESTART_COUNT ] || sleep 150' -N2 -t1 --disttrain=both.yaml
        [[ $output != *"rank 1 on n2 has USR1"* ]] || break
    done
    [[ $output == *"rank 1 on n2 has USR1"*"goes back into the queue (restart \
1)"*"restarted"* ]]
}

@test "no requeue after three restarts that ended within a minute" {
    run -0 batch 'SLURM_RESTART_COUNT=3 srun -Q sh -c "exit 75"
echo status $?' -n1 --disttrain=again.yaml
    [[ $output =~ "launch.requeue: job "[0-9]+" is not requeued: it has been restarted 3 \
times, and this step ended after "[0-9]+" s" ]]
    [[ $output == *"status 75" ]]
}

@test "a job that cannot be requeued is named" {
    run -75 dt_srun --disttrain=again.yaml sh -c 'exit 75'
    [[ $output == *"launch.requeue: srun's own allocation cannot be requeued: \
use sbatch" ]]
    run dt_run salloc -Q -n1 srun -Q --disttrain=again.yaml sh -c 'exit 75'
    [[ $output =~ "launch.requeue: cannot requeue job "[0-9]+": Only batch \
jobs are accepted or processed" ]]
    run -0 dt_srun --disttrain=again.yaml true
    [[ $output == "" ]]
}

@test "a launcher inside the launcher: a warning with the right command" {
    printf '#!/bin/sh\necho started\n' >torchrun
    chmod 755 torchrun
    cp torchrun mpirun
    local says="disttrain: warning: torchrun starts ranks of its own in \
every task, 2 of them: every task is a rank already; write: "
    run -0 dt_run srun -n2 --disttrain=env ./torchrun --nproc-per-node 2 \
        t.py --text 'a b'
    [[ $output == *"${says}srun -n2 --disttrain=env python3 t.py --text 'a b'"* ]]
    [[ $(grep -c started <<<"$output") == 2 ]]
    run -0 dt_run srun -n2 --disttrain=env ./mpirun -np 2 ./a.out
    [[ $output == *"warning: mpirun "*"write: srun -n2 --disttrain=env \
--mpi=pmix ./a.out"* ]]
    run -0 dt_srun -N2 --ntasks-per-node=1 --disttrain=env ./torchrun t.py
    [[ $output == $'started\nstarted' ]]
}

# given: srun's input variables that `env` shows in a task.
given() {
    grep -E '^(SLURM_(KILL_BAD_EXIT|TIMELIMIT|PARTITION|ACCOUNT|QOS|CONSTRAINT|MPI_TYPE|LABELIO)|SRUN_CPUS_PER_TASK)=' || true
}

@test "what the plugin sets for srun does not reach the tasks" {
    config leak "time: 7" "partition: other" "account: a1" "cpus_per_task: 2" \
        "command: [env]"
    dt_srun --disttrain=leak.yaml >tasks
    [[ $(given <tasks) == "" ]]
    dt_srun --disttrain=leak.yaml env : env >tasks
    [[ $(given <tasks) == "" ]]
    dt_run env SLURM_KILL_BAD_EXIT=0 SLURM_TIMELIMIT=9 srun -Q \
        --disttrain=leak.yaml >tasks
    [[ $(given <tasks | sort) == $'SLURM_KILL_BAD_EXIT=0\nSLURM_TIMELIMIT=9' ]]
}

# Writes to a file, because srun -K may lose what a task writes just before it
# is killed.
@test "launch.max_requeues: a crash requeues the job, up to the limit" {
    config crash "requeue: true" "max_requeues: 2"
    rm -f runs
    run -0 batch 'srun -Q sh -c "echo run \$SLURM_RESTART_COUNT >>runs
[ \$SLURM_RESTART_COUNT ] || kill -9 \$\$"
[ $SLURM_RESTART_COUNT ] || sleep 150' -n1 --disttrain=crash.yaml
    [[ $(<runs) == $'run\nrun 1' ]]
    [[ $(grep -c "goes back into the queue" <<<"$output") == 1 ]]
    run -0 batch 'SLURM_RESTART_COUNT=2 srun -Q sh -c "exit 1"
echo end' -n1 --disttrain=crash.yaml
    [[ $output == *"disttrain: launch.max_requeues: after 2 restarts the job \
is not requeued again"*end && $output != *"goes back"* ]]
}

@test "a user's mistake or scancel does not count as a crash" {
    config crash "requeue: true" "max_requeues: 2"
    run -0 batch 'srun -Q sh -c "exit 78"
srun -Q no-such-program
echo end' -n1 --disttrain=crash.yaml
    [[ $output != *"goes back"* && $output == *end ]]
    # its end looks like a failure, and may be known before the cancellation
    printf '#!/bin/sh\nsrun -Q sh -c "trap : TERM; echo up; sleep 60 & wait; exit 1"\n' >job.sh
    rm -f out
    run -0 dt_run sbatch -n1 -o out --parsable --disttrain=crash.yaml job.sh
    local id=$output
    dt_wait_for 60 grep -q up out
    dt_run scancel "$id"
    dt_wait_for 200 has_ended "$id" # Slurm may have to ask a busy node again
    run -0 dt_run scontrol --oneliner show job "$id"
    [[ $output == *JobState=CANCELLED*Restarts=0* ]]
}

@test "the right command keeps what is not the launcher's, and adds MPI" {
    printf '#!/bin/sh\n' >accelerate
    chmod 755 accelerate
    cp accelerate mpirun
    run -0 dt_run srun -n2 --disttrain=env env A=1 ./accelerate launch \
        --num_processes 2 t.py
    [[ $output == *"accelerate starts ranks of its own in every task, 2 of \
them, and its --num_processes is the total of all machines: every task is a rank \
already; write: srun -n2 --disttrain=env env A=1 python3 t.py"* ]]
    run -0 dt_run srun -n2 --disttrain=env -- ./mpirun -n 2 python3 t.py
    [[ $output == *"write: srun -n2 --disttrain=env --mpi=pmix -- python3 t.py"* ]]
    run -0 dt_run srun -n2 --mpi=none --disttrain=env ./mpirun -n 2 python3 t.py
    [[ $output == *"write: srun -n2 --mpi=none --disttrain=env python3 t.py"* ]]
}
