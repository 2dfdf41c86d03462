#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# keeper.bats - ranks that are lost and started again within their step

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-keeper.XXXXXX)
    export WORK
    cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >"$WORK/text"
    dt_cluster_up --nodes 4 --cpus 4
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

# config NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out.
config() {
    local name=$1
    shift
    {
        cat <<END
algorithm: sft
run: {name: $name, output_dir: $name.out, overwrite: true}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
logging: {steps: 1}
END
        printf '%s\n' "$@"
        [[ $* == *checkpoint:* ]] || echo "checkpoint: {steps: 4}"
        [[ $* == *training:* ]] ||
            echo "training: {train_batch_size: 8, max_steps: 20}"
    } >"$name.yaml"
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

# whole NAME [LINE]...: trains NAME undisturbed, on 4 ranks of 2 nodes.
whole() {
    config "$@"
    dt_srun -N2 --ntasks-per-node=2 --disttrain="$1.yaml"
}

# killed FAULT NAME [LINE]...: the same with a rank that is killed.
killed() {
    config "${@:2}"
    DISTTRAIN_FAULT=$1 run dt_srun -N2 --ntasks-per-node=2 --disttrain="$2.yaml"
    echo "$output"
    ((status == 0))
}

# once TEXT...: each is in one line of the output.
once() {
    local text
    for text; do
        (($(grep -cF -- "$text" <<<"$output") == 1))
    done
}

@test "a killed rank: all complete the step in flight, with the same bits" {
    whole whole
    killed train.step:rank=2:step=7:life=1:kill hit
    [[ $output == *"rank 2 on n2 was killed by signal 9 (Killed) after step 6: all ranks start again (restart 1;"* ]]
    [[ $output == *"continuing after step 6 with the memory of the processes before"* ]]
    [[ $output != *"resuming from "* ]]
    [[ $output == *"the run goes on after step 6, "*" s after a loss on n2"* ]]
    [[ $output != *"first failure"* && $output != *"lost rank"* ]]
    # what a restart does not change is said once
    once "plan: memory of a rank" "hit: gpt2, 2 layers" "2 rows per rank x 4"
    same_run whole hit
    run -1 dt_run --node n1 pgrep -x 'disttrain(-keep)?'
    # before the first checkpoint; rank 0; and again while it restarts
    killed train.step:rank=0:step=2:life=1:kill,train.step:rank=1:step=9:life=2:kill,train.step:rank=3:step=9:life=3:kill twice
    [[ $output == *"(restart 3;"* ]]
    same_run whole twice
    # within an update
    killed learner.update:rank=1:step=7:nth=2:life=1:kill within
    [[ $output == *"continuing after step 7 "* ]]
    same_run whole within
}

@test "a rank that is lost before its run begins: no rank resumes another run" {
    local at
    whole before "training: {train_batch_size: 8, max_steps: 8}"
    for at in output.take output.taken; do
        killed "$at:rank=0:life=1:kill" before \
            "training: {train_batch_size: 8, max_steps: 8}"
        [[ $output == *": all ranks start again (restart 1;"* ]]
        [[ $output != *"resuming from "* ]]
        [[ $output != *"removes "*"removes "* ]]
        once "plan: memory of a rank" "2 rows per rank x 4" "the run begins, "
        [[ $(losses before | wc -l) == 8 ]]
    done
}

@test "an upgrade of disttrain does not reach the restarts of a step" {
    config upgrade "training: {train_batch_size: 8, max_steps: 3}"
    mkdir bin
    cp "$DT_BUILDDIR/disttrain" bin/disttrain
    ln bin/disttrain bin/kept
    # the last keeper upgrades it: workers start when all keepers are there
    cat >upgrade.sh <<'END'
[ "$SLURM_PROCID" = 1 ] || exec bin/disttrain
until pgrep -x disttrain-keep; do sleep 0.1; done
printf '#!/bin/sh\nexit 9\n' >bin/new
chmod 755 bin/new
mv bin/new bin/disttrain
exec bin/kept
END
    run dt_srun -N1 -n2 --disttrain=upgrade.yaml sh upgrade.sh
    echo "$output"
    ((status == 0))
    [[ $(losses upgrade | wc -l) == 3 ]]
}

@test "a node with another release of disttrain ends the step with a line" {
    local release
    release=$("$DT_BUILDDIR/disttrain" --version | sed 's/.* //')
    config releases
    sed "s/${release//./\\.}/9.9.9/g" "$DT_BUILDDIR/disttrain" >other
    chmod 755 other
    cat >either.sh <<'END'
[ "$SLURM_PROCID" = 1 ] && exec ./other
exec disttrain
END
    run -69 dt_srun -N2 --ntasks-per-node=1 --disttrain=releases.yaml \
        sh either.sh
    [[ $output == *"disttrain: task 1, at "*', has release "9.9.9" of disttrain, and task 0 has "'"$release"'": a step needs one on all of its nodes'* ]]
}

# number FILE NAME: the value of a name in a file of JSON.
number() {
    sed -n 's/.*"'"$2"'": *\([-+.e0-9][-+.e0-9]*\).*/\1/p' \
        "$1" | head -n1
}

@test "each second of the run and each restart are in its records" {
    local log part sum=0 begin end
    killed train.step:rank=0:step=7:life=1:kill,replica.m:rank=2:step=11:life=2:error account \
        "distributed: {check_replicas: 4, strategy: ddp}"
    [[ $output != *"first failure"* ]]
    [[ $output == *"goodput "*" %: steps "*", recovery "*" (2 restarts), lost "*" (3 steps)"* ]]
    log=account.out/logs/events.jsonl
    cat "$log" account.out/logs/run.json
    (($(grep -c '"event": "restart"' "$log") == 2))
    grep '"restart", "step": 6, .*"seconds": .*"rank": 0, .*"host": "n1", .*"rank 0 on n1 was killed by signal 9 (Killed) after step 6"' "$log"
    grep '"restart", "step": 11, .*"seconds": .*"rank": 2, "redone": 3, "host": "n2", .*"rank 2 on n2 has ended with status 71' "$log"
    log=account.out/logs/run.json
    (($(number "$log" restarts) == 2 && $(number "$log" redone) == 3))
    for part in startup steps data saving evaluation recovery lost idle; do
        sum="$sum + $(number "$log" "$part")"
    done
    log=account.out/logs/events.jsonl
    begin="$(number <(grep '"start"' "$log") wall) - $(number <(grep '"start"' "$log") startup)"
    end=$(number <(grep '"end"' "$log") wall)
    awk "BEGIN {
        all = $end - ($begin); sum = $sum
        printf \"%.3f of %.3f s\\n\", sum, all
        off = sum > all ? sum - all : all - sum
        exit !(off < 0.001 * all + 0.001) # times of events are in milliseconds
    }"
}

@test "while it saves, in zero3" {
    whole zwhole "distributed: {strategy: zero3}"
    killed ckpt.rename:rank=0:nth=2:life=1:kill zhit \
        "distributed: {strategy: zero3}"
    same_run zwhole zhit
}

@test "without progress, after max_worker_restarts, it ends as without keepers" {
    config always "launch: {max_worker_restarts: 1}"
    DISTTRAIN_FAULT=train.step:rank=2:step=6:kill \
        run dt_srun -N2 --ntasks-per-node=2 --disttrain=always.yaml
    echo "$output"
    ((status == 137))
    [[ $output == *"(restart 1; 1 of at most 1 without a new step)"* ]]
    [[ $output == *"rank 2 on n2 was killed by signal 9 (Killed) after step 5: launch.max_worker_restarts allows no more restarts"* ]]
    [[ $output == *"first failure: rank 2 on n2, killed by signal 9 (Killed)"* ]]
    # what another try would not change is not tried
    config wrong "resume: none.such"
    run dt_srun -N2 --ntasks-per-node=2 --disttrain=wrong.yaml
    ((status != 0))
    [[ $output != *"start again"* ]]
    # the same error twice at the same step
    config error
    DISTTRAIN_FAULT=train.step:rank=1:step=3:error \
        run dt_srun -N2 --ntasks-per-node=2 --disttrain=error.yaml
    echo "$output"
    ((status == 70))
    [[ $output == *"(restart 1;"* && $output != *"(restart 2;"* ]]
    [[ $output == *"it has failed twice at the same step"* ]]
}

@test "a rank that is stopped is found, named and replaced" {
    whole moves
    killed train.step:rank=3:step=6:life=1:stop hangs
    [[ $output == *"rank 3 on n2 hangs: it was stopped by a signal, and the others have waited for 3"?" s: all ranks start again"* ]]
    same_run moves hangs
    local log=hangs.out/logs/run.json
    cat hangs.out/logs/events.jsonl
    awk "BEGIN { # the hang is recovery
        exit !($(number <(grep '"restart"' hangs.out/logs/events.jsonl) seconds) > 29 &&
            $(number "$log" recovery) > 29 && $(number "$log" steps) < 20)
    }"
}

@test "without PMIx" {
    config none
    run dt_srun --mpi=none -N2 --ntasks-per-node=2 --disttrain=none.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"2 rows per rank x 4 ranks"* ]]
}

@test "off: the first lost rank ends the run" {
    dt_need_pmix
    config off "launch: {keeper: off}"
    DISTTRAIN_FAULT=train.step:rank=2:step=7:kill \
        run dt_srun -N2 --ntasks-per-node=2 --disttrain=off.yaml
    echo "$output"
    ((status == 137))
    [[ $output != *"start again"* ]]
}

@test "who is told to stop saves, and is not started again" {
    config stop "training: {train_batch_size: 8, max_steps: 100000}"
    dt_background stop.log dt_srun -N2 --ntasks-per-node=2 --disttrain=stop.yaml
    local srun=$!
    dt_wait_for 20 dt_lines 1 "step 1" stop.log
    dt_run scancel --signal=TERM "$(dt_run squeue -h -o %i -s | head -n1 | cut -d. -f1)".0
    wait "$srun" || true
    cat stop.log
    grep "stopped by a signal after step" stop.log
    run -1 grep "start again" stop.log
}

@test "a lost keeper ends the step, and is named" {
    config gone "training: {train_batch_size: 8, max_steps: 100000}"
    dt_background gone.log dt_srun -N2 --ntasks-per-node=2 --disttrain=gone.yaml
    local srun=$!
    dt_wait_for 20 dt_lines 1 "step 1" gone.log
    dt_run --node n2 pkill -KILL -o -x disttrain-keep
    wait "$srun" || true
    cat gone.log
    grep "lost the keeper of rank [23] on n2" gone.log
    dt_wait_for 5 dt_run --node n1 sh -c '! pgrep -x "disttrain(-keep)?"'
}

@test "a slurmstepd that is killed: its ranks train on, and srun ends with them" {
    local node
    for node in n1 n2; do
        config orphan "training: {train_batch_size: 8, max_steps: 1500}"
        dt_background orphan.log dt_srun -N2 --ntasks-per-node=2 \
            --disttrain=orphan.yaml
        local step=$!
        dt_wait_for 40 dt_lines 1 "^step" orphan.log
        dt_run --node "$node" pkill -KILL -x slurmstepd
        wait "$step" || { cat orphan.log && false; }
        ! grep -E "first failure|start again" orphan.log
        "$DT_BUILDDIR/disttrain" verify orphan.out
        (($(losses orphan | wc -l) == 1500))
    done
}

@test "a program of the user, which finds a new port and the count of restarts" {
    cat >program <<'END'
#!/bin/sh
echo "rank $RANK of $WORLD_SIZE, restart $TORCHELASTIC_RESTART_COUNT, port $MASTER_PORT"
case $TORCHELASTIC_RESTART_COUNT in
0) [ "$RANK" = 1 ] && { sleep 0.5 && kill -9 $$; } ;;
1) [ "$RANK" = 3 ] && { sleep 0.5 && exit 3; } ;;
*) exit 0 ;;
esac
sleep 100
END
    chmod +x program
    cat >command.yaml <<END
launch: {keeper: on, command: [$WORK/program]}
END
    run dt_srun -N2 --ntasks-per-node=2 --disttrain=command.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"rank 1 on n1 was killed by signal 9 (Killed): all ranks start again (restart 1 of"* ]]
    [[ $output == *"rank 3 on n2 has ended with status 3: all ranks start again (restart 2 of"* ]]
    (($(grep -c "^rank . of 4, restart 2" <<<"$output") == 4))
    (($(grep -o "port .*" <<<"$output" | sort -u | wc -l) == 3))
}

@test "keep: a command on the line of srun, which launch.keeper leaves alone" {
    cat >ours <<'END'
#!/bin/sh
echo "rank $RANK $* restart $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS"
[ -z "$SLURM_DISTTRAIN_KEPT$SLURM_DISTTRAIN_OUTLIVES" ] || exit 3 # below it, a keeper is not that of the step
[ "$RANK$TORCHELASTIC_RESTART_COUNT" != 20 ] || kill -9 $$
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && sleep 100
exit 0
END
    chmod +x ours
    echo "launch: {keeper: on}" >line.yaml
    run dt_srun -N2 --ntasks-per-node=2 --disttrain=line.yaml ./ours --max
    echo "$output"
    ((status != 0))
    [[ $output == *"warning: "*"line.yaml:1:18: launch.keeper: on keeps launch.command only; write: disttrain keep ./ours"* ]]
    run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain=line.yaml \
        disttrain keep --max-restarts 2 ./ours --max 7
    echo "$output"
    [[ $output != *warning* ]]
    [[ $output == *"rank 2 on n2 was killed by signal 9 (Killed): all ranks start again (restart 1 of at most 2)"* ]]
    (($(grep -c "^rank . --max 7 restart 1 of 2" <<<"$output") == 4))
    run -64 "$DT_BUILDDIR/disttrain" keep ./ours
    [[ $output == "disttrain keep: it needs a step of srun with disttrain's plugin: use srun --disttrain=FILE disttrain keep ./ours"* ]]
}

# spoiled FAULT NAME [LINE]...: trains NAME with a bit that is lost, and ends
# with the bits of a run in which none is. Replicas are compared every 4 steps
# and before saves, which are every 6.
spoiled() {
    killed "$1:life=1:error" "${@:2}" "checkpoint: {steps: 6}" \
        "distributed: {check_replicas: 4, strategy: ${STRATEGY:-ddp}}"
    [[ $output == *"all ranks start again (restart 1;"* ]]
    [[ $output == *"resuming from "*"/$2.out/checkpoints/checkpoint-6"* ]]
    same_run same "$2"
}

@test "a lost bit of a replica: its rank is named, and the last save is taken" {
    local differs="ranks hold different bits of what should be equal"
    whole same
    spoiled replica.m:rank=2:step=7 sm
    [[ $output == *"step 8: $differs; rank 2 on n2: AdamW's m from transformer.h.1.ln_1.weight on, and 1 more; most replicas agree"* ]]
    grep '"event": "fault".*"rank": 2, "host": "n2"' sm.out/logs/events.jsonl
    spoiled replica.grads:rank=3:step=8 sg
    [[ $output == *"step 8: $differs; rank 3 on n2: gradients from transformer.h.1"* ]]
    # found by the save after step 12, which is not made
    spoiled replica.weights:rank=1:step=12 sw
    [[ $output == *"step 12: $differs; rank 1 on n1: weights from transformer.h.1"* ]]
    STRATEGY=zero1 spoiled replica.weights:rank=2:step=8 sz
    [[ $output == *"step 8: $differs; rank 2 on n2: weights from transformer.h.1"* ]]
    # nodes are groups that have all weights, and two do not tell who is wrong
    STRATEGY=zero3 spoiled replica.weights:rank=2:step=8 sh
    [[ $output == *"step 8: $differs; rank 0 on n1: weights from "*"; rank 2 on n2: weights from "*"; too few replicas tell which of them is wrong"* ]]
}

@test "a lost bit before a save that no interval has found" {
    dt_need_pmix
    config unsaved "launch: {keeper: off}" "checkpoint: {steps: 6}" \
        "distributed: {strategy: ddp}"
    DISTTRAIN_FAULT=replica.v:rank=3:step=8:error \
        run dt_srun -N2 --ntasks-per-node=2 --disttrain=unsaved.yaml
    echo "$output"
    ((status == 71))
    [[ $output == *"rank 3 of 4 on n2 failed: step 12: ranks hold different bits"*"; rank 3 on n2: AdamW's v"* ]]
    [[ $(readlink unsaved.out/checkpoints/latest) == checkpoint-6 ]]
}
