#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# train.bats - whole runs on a real Slurm: loss curves, failures, resume

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-train.XXXXXX)
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
}

# config NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out; LINEs
# come last.
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
scheduler: {name: constant}
END
        printf '%s\n' "$@"
        [[ $* == *logging:* ]] || echo "logging: {steps: 1}"
    } >"$name.yaml"
}

# losses NAME: the training losses of a run, one per line.
losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

# same_weights A B: both runs end with the same bits, including AdamW's state.
same_weights() {
    local file
    for file in "$1".out/checkpoints/latest/*.safetensors; do
        cmp "$file" "$2${file#"$1"}"
    done
}

need_faults() {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

@test "all spellings train: =FILE, FILE as the next word, the runtime by name" {
    dt_need_pmix
    config spell "training: {train_batch_size: 4, max_steps: 2, max_grad_norm: 0}"
    local line
    for line in "--disttrain=spell.yaml" \
        "--disttrain-set=env.A_KEY=b --disttrain spell.yaml --disttrain-set run.seed=7" \
        "--disttrain=spell.yaml $DT_BUILDDIR/disttrain train" \
        "--mpi=pmix $DT_BUILDDIR/disttrain train spell.yaml"; do
        # shellcheck disable=SC2086
        run dt_srun -N2 -n4 $line
        echo "$output"
        ((status == 0))
        [[ $output == *"1 row per rank x 4 ranks"* ]]
        [[ $output == *"step 2/2  loss "* ]]
        (($(grep -c "^warning: .* gradients are not clipped" <<<"$output") == 1))
        [[ $output != *$'\r'* && $output != *$'\e'* ]]
        grep -q "finished after step 2" spell.out/logs/report.html
        if [[ $line == *set* ]]; then
            tr -d '\n ' <spell.out/logs/run.json >facts
            grep -F '"overrides":["env.A_KEY=(removed)","run.seed=7"]' facts
            grep -F '"run.seed":7' facts
            grep -F -- '--disttrain-set=run.seed=7' facts
        fi
        rm -r spell.out
    done
}

@test "srun's terminal has a progress bar, and is as before; top has the end" {
    config bar "training: {train_batch_size: 4, max_steps: 300}" \
        "logging: {steps: 100}"
    run -0 dt_run env -u CI TERM=xterm LC_ALL=C.UTF-8 script -qec \
        "stty -g >before; srun -Q -N2 -n2 --disttrain=bar.yaml; stty -g >after" \
        typescript
    # the last bar and the summary come in any order, stderr and stdout, and
    # $output would lack the end of the last line
    [[ $(<typescript) == *$'\r100%|█'*'| 300/300 ['*']'*$'\r\n'* ]]
    [[ $output == *"done: 300 steps "* ]]
    [[ $output == *$'\r\e[Kstep 100/300  loss '* ]]
    [[ $output != *record* && $output != *$'\e[?'* ]]
    diff before after
    run -0 "$DT_BUILDDIR/disttrain" top bar.out
    [[ ${lines[0]} == "bar  sft  2 ranks  job "*.0* ]]
    [[ ${lines[1]} == "finished "* ]]
    [[ $output == *"| 300/300 ["* && $output != *$'\e'* ]]
}

@test "1, 2 and 4 ranks with the same global batch have the same curve" {
    local n
    for n in 1 2 4; do
        config "ranks$n" "training: {train_batch_size: 8, max_steps: 20}"
        dt_srun -N"$n" -n"$n" --disttrain="ranks$n.yaml"
        (($(losses "ranks$n" | wc -l) == 20))
    done
    for n in 2 4; do
        paste <(losses ranks1) <(losses "ranks$n") | awk '
            { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > max) max = d }
            END { print "largest relative difference", max;
                  exit !(NR == 20 && max < 1e-5) }'
    done
    # it is a real curve: it falls
    losses ranks1 | awk 'NR == 1 { a = $1 } END { exit !($1 < a - 0.3) }'
}

@test "zero1, zero2 and zero3 have the curve and the bits of ddp" {
    local strategy
    for strategy in ddp zero1 zero2 zero3; do
        config "$strategy" "training: {train_batch_size: 8, max_steps: 12}" \
            "precision.compute: bf16" "checkpoint: {save_dtype: fp32}" \
            "distributed.strategy: $strategy"
        dt_srun -N2 -n4 --disttrain="$strategy.yaml"
        (($(losses "$strategy" | wc -l) == 12))
        [[ -e $strategy.out/checkpoints/latest/\
optim-rank-00003-of-00004.safetensors ]]
    done
    for strategy in zero1 zero2 zero3; do
        diff <(losses ddp) <(losses "$strategy")
        same_weights ddp "$strategy"
    done
    # the checkpoint of four ranks is that of two, and exports as one model
    sed -i 's/max_steps: 12/max_steps: 14/; s/overwrite: true/overwrite: false/' \
        zero3.yaml
    echo "training.resume: auto" >>zero3.yaml
    dt_srun -N2 -n2 --disttrain=zero3.yaml
    (($(losses zero3 | wc -l) == 14))
    "$DT_BUILDDIR/disttrain" export zero3.out zero3.model
}

@test "two nodes of two ranks: hybrids have the bits of ddp in two levels" {
    local name
    two_by_two() {
        config "$1" "training: {train_batch_size: 8, max_steps: 8}" \
            "precision.compute: bf16" "checkpoint: {save_dtype: fp32}" "${@:2}"
        run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain="$1.yaml"
    }
    two_by_two levels "distributed.strategy: ddp"
    [[ $output == *"two_level sums: over 2 ranks, and then over 2 such groups"* ]]
    two_by_two hybrid2 "distributed.strategy: zero2"
    [[ $output == *"hybrid: each 2 ranks have all gradients"* ]]
    two_by_two hybrid3 "distributed: {strategy: zero3, shard_group: node}"
    [[ $output == *"hybrid: each 2 ranks have all weights and gradients"* ]]
    two_by_two world3 "distributed: {strategy: zero3, shard_group: world}" \
        "logging: {steps: 1, trace: {steps: [3, 4]}}"
    [[ $output != *"hybrid: "* ]]
    [[ $output == *"trace: "*"/trace-3.pftrace: steps 3 to 4 of all 4 ranks; \
clocks aligned to +-"*" us; "*" spans"* ]]
    [[ -s world3.out/logs/trace-3.pftrace ]]
    for name in hybrid2 hybrid3 world3; do
        diff <(losses levels) <(losses "$name")
        same_weights levels "$name"
    done
    two_by_two flat "distributed: {strategy: zero3, reduction: flat}"
    [[ $output != *"two_level sums"* ]]
    paste <(losses levels) <(losses flat) | awk '
        { d = $1 / $2 - 1; if (d * d > 1e-6) bad = 1 }
        END { exit !(NR == 8 && !bad) }'
}

@test "int8 between nodes: near the native curve, and the same after a resume" {
    local keys=("precision.compute: bf16" "checkpoint: {save_dtype: fp32}"
        "distributed: {strategy: zero3, reduce_between_nodes: int8}")
    config native8 "training: {train_batch_size: 16, per_device_batch_size: 2,
  max_steps: 10}" "${keys[0]}" "distributed.strategy: zero3"
    dt_srun -N2 --ntasks-per-node=2 --disttrain=native8.yaml
    config int8 "training: {train_batch_size: 16, per_device_batch_size: 2,
  max_steps: 10}" "${keys[@]}"
    run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain=int8.yaml
    [[ $output == *"over 2 such groups in int8"* ]]
    paste <(losses native8) <(losses int8) | awk '
        { d = $1 / $2 - 1; if (d * d > 1e-6) bad = 1; if (d != 0) noisy = 1 }
        END { exit !(NR == 10 && !bad && noisy) }'
    config parts8 "training: {train_batch_size: 16, per_device_batch_size: 2,
  max_steps: 10}" "checkpoint: {steps: 4, save_dtype: fp32}" "${keys[0]}" \
        "${keys[2]}"
    dt_srun -N2 --ntasks-per-node=2 --disttrain=parts8.yaml
    config rest8 "training: {train_batch_size: 16, per_device_batch_size: 2,
  max_steps: 10, resume: parts8.out/checkpoints/checkpoint-8}" "${keys[@]}"
    dt_srun -N2 --ntasks-per-node=2 --disttrain=rest8.yaml
    (($(losses rest8 | wc -l) == 2))
    same_weights int8 rest8
}

# sent: the bytes that the first node has sent.
sent() {
    dt_run --node n1 sed -n 's/^ *eth0: *//p' /proc/net/dev |
        awk '{ print $9 }'
}

# sent_by STEPS NODES LINES: those of a run of four ranks; a ; ends a line.
sent_by() {
    local before
    config sent "training: {train_batch_size: 8, per_device_batch_size: 1,
  max_steps: $1}" "checkpoint: {strategy: 'no'}" "${3//; /$'\n'}"
    sed -i 's/n_embd: 32/n_embd: 256/' sent.yaml
    before=$(sent)
    dt_srun -N"$2" --ntasks-per-node=$((4 / $2)) --disttrain=sent.yaml \
        >sent.log 2>&1
    echo $(($(sent) - before))
}

# planned NODES: what disttrain plan says that a node sends in a step.
planned() {
    "$DT_BUILDDIR/disttrain" plan --json --nodes "$1" \
        --ntasks-per-node $((4 / $1)) sent.yaml | awk '
        /"taken"/ { taken = /true/ }
        /"wire_bytes"/ { wire = taken }
        wire && /"out_of_node_by_node"/ { print $2 + 0; wire = 0 }'
}

# Two micro-batches a step. Of each parameter two nodes of two ranks send half
# of its gradient and of its weight, or of the sum; four nodes three quarters,
# zero2 of two gradients. What zero3 gathers there depends on slots, as plan
# knows: the head and the embedding, and most blocks, twice.
@test "a node sends the bytes of the formulas, whatever its ranks" {
    local line bytes nodes few many plan runs=0
    while read -r bytes nodes line <&4; do
        few=$(sent_by 2 "$nodes" "$line")
        many=$(sent_by 10 "$nodes" "$line")
        plan=$(planned "$nodes")
        sed -n 's/.* \([0-9]*\) parameters.*/\1/p' sent.log |
            awk -v sent=$(((many - few) / 8)) -v bytes="$bytes" \
                -v plan="$plan" -v line="$nodes nodes, $line" '
                { want = bytes == "-" ? plan : $1 * bytes
                  off = sent / want - 1; plan = sent / plan - 1
                  print line, sent, off, plan }
                END { exit !(NR == 1 && off * off < 0.02 * 0.02 &&
                             plan * plan < 0.02 * 0.02) }'
        runs=$((runs + 1))
    done 4<<END
4 2 distributed.strategy: ddp
2 2 distributed.strategy: ddp; precision.reduce_dtype: bf16
4 2 distributed.strategy: zero1
4 2 distributed.strategy: zero2
4 2 distributed.strategy: zero3
2.515625 2 distributed: {strategy: zero3, reduce_between_nodes: int8}
6 4 distributed.strategy: ddp
6 4 distributed.strategy: zero1
9 4 distributed.strategy: zero2
- 4 distributed.strategy: zero3
END
    ((runs == 10))
}

@test "nodes with different numbers of ranks: flat, or a refusal if asked" {
    config uneven "training: {train_batch_size: 6, max_steps: 2}"
    run -0 dt_srun -N2 -n3 --disttrain=uneven.yaml
    [[ $output == *"flat sums over 3 ranks: nodes have 1 to 2 of them"* ]]
    echo "distributed.reduction: two_level" >>uneven.yaml
    run -78 dt_srun -N2 -n3 --disttrain=uneven.yaml
    [[ $output == *"uneven.yaml:9:"*"distributed.reduction: E102 two_level needs \
equally many ranks on every node, but n"*" has 1 and n"*" has 2: "* ]]
}

@test "accumulation and ranks are interchangeable" {
    config accumulate "training: {per_device_batch_size: 2,
  gradient_accumulation_steps: 4, max_steps: 10}"
    config spread "training: {per_device_batch_size: 2, max_steps: 10,
  gradient_accumulation_steps: 1}"
    dt_srun -n1 --disttrain=accumulate.yaml
    dt_srun -N4 -n4 --disttrain=spread.yaml
    paste <(losses accumulate) <(losses spread) | awk '
        { d = $1 / $2 - 1; if (d * d > 1e-10) bad = 1 }
        END { exit !(NR == 10 && !bad) }'
}

@test "kill -9 of rank 0: ends at once, explained; resume is bit-identical" {
    dt_need_pmix
    need_faults
    local lines=("training: {train_batch_size: 8, max_steps: 20, resume: auto}"
        "checkpoint: {steps: 5}")
    config whole "${lines[@]}"
    config killed "${lines[@]}"
    dt_srun -N4 -n4 --disttrain=whole.yaml

    DISTTRAIN_FAULT=train.step:rank=0:step=13:kill \
        run dt_srun -N4 -n4 --disttrain=killed.yaml \
        --disttrain-set=launch.keeper=off
    echo "$output"
    ((status != 0))
    local why="rank 0 on n1, killed by signal 9 (Killed), "
    [[ $output == *"first failure: $why"* ]]
    (($(grep -c "lost rank 0 on n1" <<<"$output") <= 1))
    # its files say so, although it could not
    [[ $output == *"report of the run: $WORK/killed.out/logs/report.html"* ]]
    [[ $(<killed.out/logs/report.html) == *"failed"*": $why"* ]]
    run -0 dt_run "$DT_BUILDDIR/disttrain" top --once killed.out
    [[ $output == *"failed "*" ago: failed"*": $why"* ]]
    grep -q '"event": "failed".*"rank": 0, "host": "n1"' \
        killed.out/logs/events.jsonl
    [[ $(readlink killed.out/checkpoints/latest) == checkpoint-10 ]]

    run dt_srun -N4 -n4 --disttrain=killed.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"resuming from "*"/checkpoint-10"* ]]
    same_weights whole killed
    diff <(losses whole) <(losses killed)
}

@test "power cut of a node: the lost host is named, resume is bit-identical" {
    config cut "training: {train_batch_size: 8, max_steps: 1000000,
  resume: auto}" "checkpoint: {steps: 20, total_limit: 2}" \
        "logging: {steps: 100000}" "distributed: {outage_s: 3}"
    dt_background cut.log dt_srun -N2 -n2 -w n3,n4 --disttrain=cut.yaml
    local srun=$! status=0
    dt_wait_for 40 test -e cut.out/checkpoints/latest
    dt_kill n4
    dt_wait_for 60 dt_lines 1 'lost the keeper of rank 1 on n4' cut.log
    cat cut.log
    wait "$srun" || status=$?
    ((status != 0 && status != 124)) # of dt_run

    local step
    step=$(readlink cut.out/checkpoints/latest)
    step=$((${step#checkpoint-} + 10))
    sed -i "s/max_steps: 1000000/max_steps: $step/" cut.yaml
    sed "s/cut.out/uncut.out/" cut.yaml >uncut.yaml
    dt_srun -N2 -n2 -w n1,n2 --disttrain=cut.yaml
    dt_srun -N2 -n2 -w n1,n2 --disttrain=uncut.yaml
    same_weights cut uncut
}

@test "SIGUSR1: a checkpoint, exit status 75, and the run can be resumed" {
    config usr "training: {train_batch_size: 2, max_steps: 1000000,
  resume: auto}" "checkpoint: {steps: 1000000}" "logging: {steps: 100000}"
    dt_background usr.log dt_srun -N2 -n2 -w n1,n2 -J usr --disttrain=usr.yaml
    local srun=$!
    dt_wait_for 40 dt_lines 1 'step 1/' usr.log
    dt_run scancel -s USR1 -n usr
    local status=0
    wait "$srun" || status=$?
    cat usr.log
    ((status == 75))
    (($(grep -c 'stopped by a signal after step' usr.log) == 1))
    [[ -e usr.out/checkpoints/latest/model.safetensors ]]
    local step
    step=$(readlink usr.out/checkpoints/latest)
    step=$((${step#checkpoint-} + 3))
    sed -i "s/max_steps: 1000000/max_steps: $step/" usr.yaml
    run dt_srun -N2 -n2 -w n1,n2 --disttrain=usr.yaml
    [[ $output == *"resuming from "* && $output == *"step $step/$step"* ]]
}

@test "a second job in one output_dir ends at once, and names the first" {
    config owned "training: {train_batch_size: 2, max_steps: 1000000,
  resume: auto}" "checkpoint: {steps: 20, total_limit: 2}" \
        "logging: {steps: 100000}"
    dt_background owned.log dt_srun -N1 -n1 -w n1 -J owned --disttrain=owned.yaml
    local srun=$! job status=0 node
    dt_wait_for 60 test -e owned.out/checkpoints/latest
    job=$(dt_run squeue -h -n owned -o %i)
    for node in n1 n2; do
        run dt_srun -N1 -n2 -w "$node" --overcommit --disttrain=owned.yaml
        echo "$output"
        ((status == 73))
        [[ $output == *"owned.out: another run writes to this directory: job \
$job, step 0, process "*" on n1, since "*" or cancel it (scancel $job), or"* ]]
        (($(grep -c 'disttrain: rank' <<<"$output") == 1))
    done
    # killed silently, it is gone; a process on its own node can see that
    dt_run --node n1 kill -9 "$(sed -n 's/^pid //p' owned.out/.owner)"
    wait "$srun" || status=$?
    ((status != 0))
    [[ -e owned.out/.owner ]]
    cp owned.out/.owner was
    sed -i 's/max_steps: 1000000/max_steps: 10, eval_only: true/' owned.yaml
    sed -i 's/max_length: 32}/max_length: 32, validation_split: 0.1}/' owned.yaml
    sed -i 's/resume: auto/resume: none/' owned.yaml
    run dt_srun -N1 -n1 -w n1 --disttrain=owned.yaml
    echo "$output"
    ((status == 0))
    [[ $output != *"still alive"* ]]
    # another node sees only that its file is no longer updated
    cp was owned.out/.owner
    run dt_srun -N1 -n1 -w n2 --disttrain=owned.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"on n1 still alive? Checking for 15 s"* ]]
    # no check is needed if its job was requeued, which means that it has ended
    sed "s/^job .*/job 77@$(dt_run scontrol show config |
        sed -n 's/^ClusterName *= //p')/" was >owned.out/.owner
    run dt_run srun -N1 -n1 -w n2 --quiet --disttrain=owned.yaml \
        env SLURM_JOB_ID=77 SLURM_RESTART_COUNT=1 \
        "$DT_BUILDDIR/disttrain" train
    echo "$output"
    ((status == 0))
    [[ $output != *"still alive"* && ! -e owned.out/.owner ]]
}

@test "a damaged checkpoint is skipped with a message" {
    config damaged "training: {train_batch_size: 2, max_steps: 4, resume: auto}" \
        "checkpoint: {steps: 2}"
    dt_srun -n1 -w n1 --disttrain=damaged.yaml
    printf x | dd of=damaged.out/checkpoints/checkpoint-4/model.safetensors \
        bs=1 seek=5000 conv=notrunc status=none
    run dt_srun -n1 -w n1 --disttrain=damaged.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"checkpoint-4"*"model.safetensors"* ]]
    [[ $output == *"resuming from "*"/checkpoint-2"* ]]
}

@test "a failure of one rank is reported once, and ends all with its status" {
    config full "training: {train_batch_size: 2, max_steps: 4}"
    sed -i 's/output_dir: full.out/output_dir: text\/full/' full.yaml
    run dt_srun -N2 -n2 -w n1,n2 --disttrain=full.yaml
    echo "$output"
    ((status == 73))
    [[ $output == *"disttrain: rank 0 of 2 on n1 failed: "*"text: not a dir"* ]]
    (($(grep -c 'disttrain: ' <<<"$output") == 1))
}

@test "a mistake that all ranks find is reported once" {
    dt_need_pmix
    config three "training: {train_batch_size: 4, max_steps: 4}"
    run dt_srun -N3 -n3 --disttrain=three.yaml # found before the job is
    [[ $status == 1 && $output == *"E102 4 cannot be divided by 3 "* &&
        $output == *"three.yaml: nothing is submitted" ]]
    run dt_srun -N3 -n3 --mpi=pmix --disttrain=env disttrain train three.yaml
    echo "$output"
    ((status == 78))
    [[ $output == *"disttrain: rank 0 of 3 on n1 failed: "*"E102 4 cannot be "* ]]
    (($(grep -c 'disttrain: ' <<<"$output") == 1))
}

@test "mpirun: the same curve as srun" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    local n
    for n in mpi slurm; do
        config "$n" "training: {train_batch_size: 4, max_steps: 5}"
    done
    mpirun --allow-run-as-root --oversubscribe -n 2 \
        "$DT_BUILDDIR/disttrain" train mpi.yaml
    dt_srun -n2 -w n1 --disttrain=slurm.yaml
    diff <(losses mpi) <(losses slurm)
}
