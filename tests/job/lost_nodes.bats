#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# lost_nodes.bats - steps of keepers that go on without nodes they have lost

bats_require_minimum_version 1.5.0

load helpers

# As in a real cluster, Slurm itself finds nodes down much later.
setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-lost.XXXXXX)
    export WORK
    cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >"$WORK/text"
    dt_cluster_up --nodes 4 --cpus 2 --conf SlurmdTimeout=100 \
        --conf KillWait=1
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    export OMP_NUM_THREADS=1
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

# config NAME LAUNCH: writes NAME.yaml, whose output goes to NAME.out.
config() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, output_dir: $1.out, overwrite: true}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
logging: {steps: 1}
checkpoint: {steps: ${SAVE:-4}}
training: {train_batch_size: 8, max_steps: ${STEPS:-20}}
distributed: {strategy: ${STRATEGY:-ddp}}
launch: {$2}
$MORE
END
}

# start NAME LAUNCH: starts a run that stops in its seventh step, or step $AT,
# where rank ${WHO:-0} does nothing any more. No hang is found that soon.
# Without rank 3 nobody knows that the sixth step is done.
start() {
    config "$@"
    DISTTRAIN_FAULT=train.step:rank=${WHO:-0}:step=${AT:-7}:life=1:stop$FAULT \
        dt_background "$1.log" dt_srun --disttrain="$1.yaml"
    srun=$!
    dt_wait_for 60 dt_lines $((${AT:-7} - 2)) "^step" "$1.log" ||
        { cat "$1.log" && false; }
}

# finish NAME: waits for its end, which is a good one.
finish() {
    local status=0
    wait "$srun" || status=$?
    cat "$1.log"
    ((status == 0))
    run ! grep -e "first failure" -e "lost rank [0-9]" "$1.log"
    (($(losses "$1" | wc -l) == 20))
}

# losses NAME: the training losses of a run, one per line.
losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

# same_run A B: both runs have the same losses, each once, and end with the same
# bits.
same_run() {
    local file
    diff <(losses "$1") <(losses "$2")
    for file in "$1".out/checkpoints/latest/*.safetensors; do
        cmp "$file" "$2${file#"$1"}"
    done
}

# cut_off NODE: cuts its power.
cut_off() {
    at=$EPOCHREALTIME
    dt_kill "$1"
}

# tell NAME: the seconds from the loss to the first step after it.
tell() {
    awk -v cut="$at" -F'"wall": ' '$2 - cut > 0 {
        printf "# %.1f s from the loss to the next step\n", $2 - cut; exit }' \
        "$1.out/logs/metrics.jsonl" >&3
}

TWO="nodes: 2, ntasks_per_node: 2"

@test "a spare takes the place of a lost node: the same bits, no step again" {
    config whole "$TWO"
    dt_srun --disttrain=whole.yaml
    start spare "$TWO, spares: 1"
    grep -q "^2 rows per rank x 4 ranks" spare.log
    cut_off n2
    finish spare
    tell spare
    grep "node n2, rank 2, rank 3, is lost: it was not heard for 5 s: node n3 takes its place: all ranks start again after step 6 (restart 1; 1 of at most 3 without a new step)" spare.log
    grep "continuing after step 6 with the memory of the processes before, of which 2 ranks get a copy" spare.log
    run ! grep "resuming from" spare.log
    same_run whole spare
    grep '"event": "restart", "step": 6, .*"rank": 2, "host": "n2", .*"node n2, rank 2, rank 3, is lost' spare.out/logs/events.jsonl
    [[ $(echo spare.out/.epochs/*) == spare.out/.epochs/????????????????-2 ]]
    dt_wait_for 5 eval '[[ -z $(dt_run squeue -h) ]]'
}

@test "parts of ZeRO are lost with a node: all read the last checkpoint" {
    export STRATEGY=zero2
    config zwhole "$TWO"
    dt_srun --disttrain=zwhole.yaml
    start zero "$TWO, spares: 1"
    cut_off n2
    finish zero
    grep "resuming from .*/checkpoint-4" zero.log
    same_run zwhole zero
}

# Slow steps have a copy every second.
@test "on GPUs a spare takes the place, too, with the copy of another node" {
    export DISTTRAIN_CUDA_MODULE=$DT_BUILDDIR/tests/simt/disttrain-cuda.so
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    export SIMT_DEVICES=2 SAVE=100
    export MORE=$'run.device: cuda\nrun.deterministic: true\nprecision.compute: fp32'
    config gwhole "$TWO"
    dt_srun --disttrain=gwhole.yaml
    AT=14 FAULT=,train.step:rank=1:sleep=250 start gpu "$TWO, spares: 1"
    cut_off n2
    finish gpu
    tell gpu
    grep "continuing after step [1-9][0-9]* with the copy that the processes before have left in host memory, of which 2 ranks get those of others: rank 2 that of rank 0, and so on" gpu.log
    run ! grep "resuming from" gpu.log
    same_run gwhole gpu
}

@test "without a spare the ranks that are left go on with the same batch" {
    WHO=3 start fewer "$TWO, min_ranks: 2"
    cut_off n1
    finish fewer
    tell fewer
    grep "node n1, rank 0, rank 1, is lost: it was not heard for 5 s: 2 ranks are left of 4: all ranks start again" fewer.log
    grep "^2 rows per rank x 4 ranks x 1 accumulation = 8 samples" fewer.log
    grep "^4 rows per rank x 2 ranks x 1 accumulation = 8 samples" fewer.log
    grep "resuming from .*/checkpoint-4" fewer.log
    run ! grep "still alive" fewer.log
}

# stop_step: tells its ranks to stop. Slurm 26.05 asks lost nodes, too, and
# complains afterwards; or it takes the step for ended, and srun passes a signal
# on to the ranks.
stop_step() {
    dt_run scancel --signal=TERM "$(dt_run squeue -h -o %i)".0 ||
        dt_run pkill -USR1 -x srun || true
}

# The nodes of the job.
nodes() {
    dt_run squeue --noheader --format=%N
}

# Slurm would end the step, but has been told that the node is no part of it.
@test "a node that comes back disturbs the step no more" {
    STEPS=100000 start back "$TWO, spares: 1"
    cut_off n2
    dt_wait_for 20 eval '[[ $(nodes) == "n[1,3]" ]]'
    dt_devcluster boot n2
    dt_wait_for 20 eval '[[ $(dt_run sinfo -h -n n2 -o %T) == idle ]]'
    local before
    before=$(grep -c "^step" back.log)
    dt_wait_for 20 dt_lines $((before + 100)) "^step" back.log
    stop_step
    wait "$srun" || true
    cat back.log
    grep "stopped by a signal after step" back.log
}

# Slurm goes on listing it as a node of the step.
@test "doctor asks the nodes that a step has left" {
    STEPS=100000 start left_out "$TWO, spares: 1"
    cut_off n1
    dt_wait_for 20 eval '[[ $(nodes) == "n[2-3]" ]]'
    dt_wait_for 40 dt_lines 20 "^step" left_out.log
    local step
    step=$(dt_run squeue -h -o %i).0
    run -0 --separate-stderr dt_run disttrain doctor --ranks --job="$step"
    echo "$output, $stderr"
    [[ ${lines[0]} =~ ^ranks?" "[0-3].*" on n" ]]
    [[ $output != *unknown* && $output != *"no longer running"* ]]
    [[ $stderr == "disttrain doctor: lost, and not examined: n1" ]]
    run dt_run disttrain doctor --brief --job="$step"
    echo "$output"
    [[ $output == *"lost, and not examined: n1"* && $output == *"2 nodes are good"* ]]
    stop_step
    wait "$srun" || true
}

@test "a keeper is killed: its node is replaced" {
    start gone "$TWO, spares: 1"
    dt_run --node n1 pkill -KILL -n -x disttrain-keep
    finish gone
    grep "n1: a keeper of this node is lost: the node leaves the step" gone.log
    grep "node n1, rank 0, rank 1, is lost: .*: node n3 takes its place" gone.log
}

# no_workers NODE: whether no rank trains there.
no_workers() {
    ! dt_run --node "$1" pgrep -x disttrain
}

# part NODE... - NODE...: they do not hear each other any more, but the head.
part() {
    local one other
    local -a sides
    IFS=- read -r -a sides <<<"$*"
    touch "$BATS_TEST_TMPDIR/killed" # the next case gets other links
    at=$EPOCHREALTIME
    for one in ${sides[0]}; do
        for other in ${sides[1]}; do
            dt_run --node "n$one" ip route add blackhole "10.11.12.$other"
            dt_run --node "n$other" ip route add blackhole "10.11.12.$one"
        done
    done
}

# one_side NAME TEXT NODE...: with that text one side has gone on, and ended well,
# and nobody trains on these nodes.
one_side() {
    local node
    finish "$1"
    tell "$1"
    (($(grep -c "$2: all ranks start again" "$1.log") == 1))
    for node in "${@:3}"; do
        dt_wait_for 10 no_workers "n$node"
    done
    (($(find "$1.out/.epochs" -name '*-2' | wc -l) == 1))
}

@test "of four nodes in two halves one goes on, and the other ends" {
    start half "nodes: 4, ntasks_per_node: 1, min_ranks: 2"
    part 1 2 - 3 4
    one_side half "2 ranks are left of 4" 1 2 3 4
}

@test "of two nodes one goes on, and the other ends" {
    start pair "nodes: 2, ntasks_per_node: 1, min_ranks: 1"
    part 1 - 2
    one_side pair "1 ranks are left of 2" 1 2
}

@test "a leader without the other three ends, and they go on" {
    start three "nodes: 4, ntasks_per_node: 1, min_ranks: 2"
    part 1 - 2 3 4
    one_side three "2 ranks are left of 4" 1 2 3 4
}

# The task of a node that is taken out of the job is killed. After that srun drops
# what it has not read as soon as the last task has ended.
@test "srun that has much to read hears the end all the same" {
    local pids node status=0
    SAVE=1000 STEPS=2000 FAULT=,train.step:rank=0:step=12:life=2:stop \
        start late "nodes: 4, ntasks_per_node: 1, min_ranks: 2"
    mapfile -t pids < <(dt_tree "$srun")
    part 1 - 2 3 4
    dt_wait_for 60 grep -q "^step 11" late.log
    dt_wait_for 60 grep -q "n1: task 0: Killed" late.log
    kill -STOP "${pids[@]}"
    dt_run --node n2 pkill -CONT -x disttrain
    dt_wait_for 60 test -e late.out/checkpoints/checkpoint-2000
    for node in 2 3; do
        dt_wait_for 20 no_workers "n$node"
    done
    kill -CONT "${pids[@]}"
    wait "$srun" || status=$?
    grep -v ^step late.log
    ((status == 0))
    run ! grep "first failure" late.log
}

# Half of the nodes may not go on without the file of the epoch, and the other
# half says nothing.
@test "when all that can be heard have left, the step ends by itself" {
    DISTTRAIN_CONSOLE_TIMEOUT=5 start left "nodes: 2, ntasks_per_node: 1, min_ranks: 1"
    mkdir -p left.out && touch left.out/.epochs
    cut_off n2
    local status=0
    wait "$srun" || status=$?
    cat left.log
    ((status == 69))
    grep "n1: half of the nodes go on, or end the step, only if they can write a file to .epochs" left.log
    grep "all keepers that could be heard have left the step, and for 5 s no others have gone on: it ends" left.log
}

# batch NAME LAUNCH OPTION...: the same as start in a batch job, whose script and
# srun run on n1, and so does rank 0.
batch() {
    config "$@"
    : >"$1.log"
    printf '#!/bin/sh\nsrun --disttrain=%s.yaml\necho next: $?\n' "$1" >"$1.sh"
    job=$(DISTTRAIN_FAULT=train.step:rank=0:step=7:life=1:stop \
        dt_run sbatch --parsable --nodes=3 --ntasks-per-node=2 \
        --chdir="$WORK" --output="$1.log" "${@:3}" "$1.sh")
    dt_wait_for 30 dt_lines 5 "^step" "$1.log" || { cat "$1.log" && false; }
}

# job_is TEXT...: whether Slurm says so of the job.
job_is() {
    local text shown
    shown=$(dt_run scontrol show job "$job")
    for text; do
        [[ $shown == *"$text"* ]] || return
    done
}

@test "a keeper beside srun is killed: the run and its script go on" {
    batch beside "$TWO, spares: 1"
    dt_run --node n1 pkill -KILL -n -x disttrain-keep
    dt_wait_for 60 grep "^next: " beside.log || { cat beside.log && false; }
    cat beside.log
    grep "^next: 0" beside.log
    grep "node n1, rank 0, rank 1, is lost: .*: node n3 takes its place" beside.log
    dt_lines 20 "^step" beside.log
    run ! grep -e "first failure" -e "the node of srun is lost" beside.log
    (($(losses beside | wc -l) == 20))
    dt_wait_for 20 job_is JobState=COMPLETED
}

# link NODE HEAD_MAC NODE_MAC: the ends of its link send to these addresses; what
# is sent to others is lost, and nobody hears of it.
link() {
    dt_run ip neigh replace "10.11.12.$1" lladdr "$3" dev "n$1" nud permanent
    dt_run --node "n$1" ip neigh replace 10.11.12.254 lladdr "$2" dev eth0 \
        nud permanent
}

@test "a link of the host of srun fails for a while: the run ends well" {
    touch "$BATS_TEST_TMPDIR/killed"
    batch flap "$TWO, spares: 1"
    link 1 02:00:00:00:00:00 02:00:00:00:00:00
    dt_wait_for 40 eval '(($(losses flap | wc -l) > 6))' # after 5 s, and some more
    link 1 02:00:0a:0b:0d:01 02:00:0a:0b:0c:01
    dt_wait_for 90 grep "^next: " flap.log || { cat flap.log && false; }
    cat flap.log
    grep "^next: 0" flap.log
    grep "node n1, rank 0, rank 1, is lost: .*: node n3 takes its place" flap.log
    (($(losses flap | wc -l) == 20))
    dt_lines 20 "^step" flap.log
    dt_wait_for 20 job_is JobState=COMPLETED
}

@test "when the batch host and srun are lost, the run ends, and then the job" {
    batch host "$TWO, spares: 1"
    cut_off n1
    dt_wait_for 40 job_is "Comment=disttrain: n1, the node of srun, is lost: the run goes on"
    # Slurm keeps a job with its batch host until it finds that down
    dt_wait_for 100 job_is JobState=COMPLETING Restarts=0 \
        "Comment=disttrain: the node of srun is lost, and the step has ended with status 0: cancelled"
    (($(losses host | wc -l) == 20))
    dt_wait_for 10 no_workers n2
    dt_wait_for 10 no_workers n3
}

# By the time of the boot Slurm sees that the node has lost its jobs; nodes of
# devcluster have one kernel, and tell nothing new. Slurm takes no comment here for
# a job that has just lost a node.
@test "when they come back without the script, the job ends all the same" {
    batch boots "$TWO, spares: 1" --disttrain=boots.yaml
    cut_off n1
    dt_wait_for 40 eval '(($(losses boots | wc -l) == 20))'
    dt_devcluster boot n1
    sleep 3
    dt_run scontrol update NodeName=n1 State=down Reason=booted
    dt_wait_for 40 job_is JobState=CANCELLED Restarts=0 "NodeList=n[2-3]"
}

@test "and with launch.requeue a run that is not complete goes back into the queue" {
    STEPS=100000 batch queue "$TWO, spares: 1, requeue: true"
    cut_off n1
    dt_wait_for 40 eval '(($(losses queue | wc -l) > 20))'
    dt_run --node n2 pkill -TERM -x disttrain
    dt_wait_for 100 job_is Restarts=1 \
        "Comment=disttrain: the node of srun is lost, and the step has ended with status 75: requeued"
    dt_run scancel "$job"
}

# As Slurm itself would do it, did it not keep the job for its other parts.
@test "the last part of a step, which is too small, puts the job back" {
    batch last "$TWO, spares: 1, requeue: true" --disttrain=last.yaml
    cut_off n1
    cut_off n2
    # of two keepers there, the one that does not lead ends
    dt_wait_for 60 eval '(($(dt_run --node n3 pgrep -c -x disttrain-keep) == 1))'
    job_is JobState=RUNNING Restarts=0
    dt_run scontrol update NodeName=n[1-2] State=down Reason=lost
    dt_wait_for 60 job_is Restarts=1
    dt_run scancel "$job"
}

# step_is NODES LIMIT: whether squeue lists a step there with this time limit.
step_is() {
    [[ $(dt_run squeue --noheader --steps --jobs="$job" --format='%N %l') == \
        *"$1 $2"* ]]
}

# stop NODE: ends a run as Slurm does before a time limit.
stop() {
    dt_run --node "$1" pkill -TERM -x disttrain
}

# Each has a node that the other knows nothing of, and only one has that of srun.
@test "of two steps without srun the last one ends the job" {
    local ONE="nodes: 2, ntasks_per_node: 1, min_ranks: 1" name before
    export STEPS=100000
    config one "$ONE"
    config two "$ONE, requeue: true"
    : >one.log
    : >two.log
    cat >both.sh <<'END'
#!/bin/sh
srun -N2 -n2 --nodelist=n1,n2 --disttrain=one.yaml >one.log 2>&1 &
srun -N2 -n2 --nodelist=n3,n4 --disttrain=two.yaml \
    --disttrain-set=logging.steps=1000 >two.log 2>&1 &
wait
END
    job=$(dt_run sbatch --parsable --nodes=4 --ntasks-per-node=1 \
        --chdir="$WORK" --output=both.log both.sh)
    for name in one two; do
        dt_wait_for 60 test -e $name.out/checkpoints/latest ||
            { cat both.log $name.log && false; }
    done
    cut_off n1
    dt_wait_for 40 compgen -G 'one.out/.epochs/*-2'
    before=$(losses one | wc -l)
    dt_wait_for 40 eval '(($(losses one | wc -l) > before + 5))'
    stop n2
    dt_wait_for 100 step_is "n[1-2]" 1:00
    job_is JobState=RUNNING
    dt_run --node n3 pgrep -x disttrain
    stop n3
    dt_wait_for 100 job_is Restarts=1 \
        "Comment=disttrain: the node of srun is lost, and the step has ended with status 75: requeued"
    dt_run scancel "$job"
}

# Slurm finds the node down meanwhile, and does it itself.
@test "where users must not take nodes out of a job, the step goes on all the same" {
    touch "$BATS_TEST_TMPDIR/killed"
    dt_cluster_down
    dt_devcluster up --nodes 3 --cpus 2 --conf SlurmdTimeout=8 \
        --conf KillWait=1 --conf SchedulerParameters=disable_job_shrink
    STEPS=100000 start fixed "$TWO, spares: 1"
    cut_off n2
    dt_wait_for 40 grep "warning: the job cannot be reduced to the nodes that are left (scontrol update NodeList= is refused)" fixed.log
    dt_wait_for 40 eval '[[ $(nodes) == "n[1,3]" ]]'
    local before
    before=$(grep -c "^step" fixed.log)
    dt_wait_for 20 dt_lines $((before + 50)) "^step" fixed.log
    stop_step
    wait "$srun" || true
    cat fixed.log
    grep "stopped by a signal after step" fixed.log
}

# asks_of_steps: how often `disttrain steps` has asked squeue.
asks_of_steps() {
    grep -c " steps " asked
}

@test "steps asks Slurm until keepers have taken the node out, and no more" {
    mkdir -p bin && : >asked
    printf '%s\n' '#!/bin/sh' \
        "tr '\\0' ' ' </proc/\$PPID/cmdline | sed 's/\$/\\n/' >>$WORK/asked" \
        "exec $(command -v squeue) \"\$@\"" >bin/squeue
    chmod +x bin/squeue
    STEPS=100000 config asks "$TWO, spares: 1, max_restarts: 1"
    : >asks.log
    PATH=$WORK/bin:$PATH dt_run "$DT_BUILDDIR/disttrain" sbatch --submit \
        asks.yaml -- --output=asks.log
    dt_wait_for 30 dt_lines 5 "^step" asks.log || { cat asks.log && false; }
    cut_off n2
    dt_wait_for 40 grep "node n2 is lost" asks.log
    dt_wait_for 40 eval '[[ $(nodes) == "n[1,3]" ]]'
    dt_wait_for 10 asks_of_steps
    sleep 2
    local before
    before=$(asks_of_steps)
    sleep 4 # in which it would ask eight times
    (($(asks_of_steps) <= before + 1))
    dt_run scancel "$(dt_run squeue -h -o %i)"
    cat asks.log asked
    run ! grep "exit status" asks.log
}
