#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# node_loss.bats - the batch script restarts steps without the nodes it loses

bats_require_minimum_version 1.5.0

load helpers

# As in a real cluster, Slurm itself finds nodes down much later.
setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-loss.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    dt_cluster_up --nodes 3 --cpus 2 --conf SlurmdTimeout=100 \
        --conf SchedulerParameters=batch_sched_delay=0,bf_interval=1
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    rm -rf -- *
}

# config LINE...: a job of two nodes whose ranks never end by themselves.
config() {
    {
        echo "run: {name: j}"
        printf '%s\n' "launch:" "  nodes: 2" "  ntasks_per_node: 2" "$@"
    } >job.yaml
}

# As programs in PyTorch do, ranks wait for each other, see no lost node, and
# read their place from the environment.
ranks() {
    cat >rank.sh <<'END'
n=${TORCHELASTIC_RESTART_COUNT:-0}
echo "$(date +%s.%N) $RANK of $WORLD_SIZE on $SLURMD_NODENAME" >>seen.$n
[ "$n" = 0 ] || exit 0
exec sleep 1000
END
}

submit() {
    dt_run "$DT_BUILDDIR/disttrain" sbatch --submit job.yaml -- --output=log
}

# seconds FILE: from the cut to the last line of FILE.
seconds() {
    awk -v cut="$(<cut.at)" '$1 > last { last = $1 }
        END { printf "%.1f\n", last - cut }' "$1"
}

cut_off() {
    date +%s.%N >cut.at
    dt_kill "$1"
}

is_done() {
    [[ -z $(dt_run squeue --noheader --format=%i) ]]
}

# The exit status of the job.
ended() {
    dt_run scontrol --oneliner show job | sed 's/.* ExitCode=\([0-9]*\):.*/\1/'
}

@test "a spare takes the place of a lost node" {
    config '  max_restarts: 1' '  spares: 1' '  command: [sh, rank.sh]'
    ranks
    submit
    dt_wait_for 30 dt_lines 4 of seen.0
    cut_off n2
    dt_wait_for 60 is_done
    cat log
    run -0 ended
    [[ $output == 0 ]]
    run -0 sh -c 'cut -d" " -f2- seen.1 | sort'
    [[ $output == $'0 of 4 on n1\n1 of 4 on n1\n2 of 4 on n3\n3 of 4 on n3' ]]
    grep -qx "disttrain: node n2 is lost" log
    echo "# $(seconds seen.1) s from the cut to the ranks of the next step" >&3
}

@test "with min_ranks a step has fewer ranks, and the job lives on" {
    config '  max_restarts: 1' '  min_ranks: 2' '  command: [sh, rank.sh]'
    ranks
    submit
    dt_wait_for 30 dt_lines 4 of seen.0
    cut_off n2
    dt_wait_for 60 is_done
    cat log
    run -0 ended
    [[ $output == 0 ]]
    run -0 sh -c 'cut -d" " -f2- seen.1 | sort'
    [[ $output == $'0 of 2 on n1\n1 of 2 on n1' ]]
    echo "# $(seconds seen.1) s from the cut to the ranks of the next step" >&3
}

@test "without a spare and min_ranks the job ends, and says why" {
    config '  max_restarts: 1' '  command: [sh, rank.sh]'
    ranks
    submit
    dt_wait_for 30 dt_lines 4 of seen.0
    cut_off n2
    dt_wait_for 60 is_done
    cat log
    run -0 ended
    [[ $output == 69 ]]
    [[ $(tail -n 1 log) == "disttrain: a step needs 2 nodes of 2 ranks, and 1 \
are left: set launch.spares, or launch.min_ranks to restart with fewer ranks" ]]
    [[ ! -e seen.1 ]]
}

# Slurm would end a job with a node that it finds down.
@test "a lost spare disturbs no step, and the job outlives its end in Slurm" {
    config '  max_restarts: 1' '  spares: 1' '  command: [sh, rank.sh]'
    ranks
    sed -i 's/^exec .*/until [ -e go ]; do sleep 0.2; done/' rank.sh
    submit
    dt_wait_for 30 dt_lines 4 of seen.0
    cut_off n3
    dt_wait_for 60 dt_lines 1 "^disttrain: node n3, a spare, is lost$" log
    run -0 dt_run squeue --noheader '--format=%T %N'
    [[ $output == "RUNNING n[1-2]" ]]
    dt_run scontrol update NodeName=n3 State=DOWN Reason=test
    run -0 dt_run squeue --noheader '--format=%T %N'
    [[ $output == "RUNNING n[1-2]" ]]
    touch go
    dt_wait_for 30 is_done
    run -0 ended
    [[ $output == 0 && ! -e seen.1 ]]
}

# Nobody else could end it: its script is gone, and srun with it.
@test "a job that loses the node of its script ends" {
    config '  max_restarts: 1' '  spares: 1' '  command: [sh, rank.sh]'
    ranks
    submit
    dt_wait_for 30 dt_lines 4 of seen.0
    cut_off n1
    dt_run scontrol update NodeName=n1 State=DOWN Reason=test
    dt_wait_for 60 is_done
    run -0 dt_run scontrol --oneliner show job
    [[ $output == *" JobState=NODE_FAIL "* ]]
}

# run_yaml LINE...: a run of four rows a step that saves every five steps; LINEs
# of launch. Its step ends with a node unless KEEPER is auto.
run_yaml() {
    seq 2000 >text.txt
    cat >job.yaml <<END
algorithm: sft
run: {name: j, output_dir: $WORK/out}
model: {n_positions: 64, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: [text.txt], max_length: 64}
training: {per_device_batch_size: 2, max_steps: 100000, resume: auto}
optimizer: {lr: 1.0e-3}
checkpoint: {steps: 5, total_limit: 2}
logging: {steps: 1}
distributed: {outage_s: 3}
END
    printf '%s\n' "launch:" "  nodes: 2" "  ntasks_per_node: 1" \
        "  max_restarts: 1" "  keeper: ${KEEPER:-off}" "$@" >>job.yaml
}

# lose_n2: runs the job up to its 12th step, and after the loss of n2 on.
lose_n2() {
    dt_need_pmix
    submit
    dt_wait_for 60 dt_lines 12 "^step" log
    cut_off n2
    dt_wait_for 60 dt_lines 1 "resuming from .*checkpoint-" log
    sed '/exit status/,$d' log >before
    dt_wait_for 60 eval 'sed "1,/exit status/d" log >after; dt_lines 12 "^step" after'
    dt_run scancel --me
    echo "# $(awk -v cut="$(<cut.at)" -F'"wall": ' '$2 - cut > 2 {
        printf "%.1f", $2 - cut; exit }' out/logs/metrics.jsonl) s from the" \
        "cut to the first step of the next launch" >&3
}

# losses FILE...: the numbers of the first 40 steps, and their losses.
losses() {
    cat "$@" | awk '/^step/ && $2 + 0 <= 40 { print $2, $4 }' | sort -u
}

@test "a run goes on from its last checkpoint on a spare, with the same bits" {
    run_yaml '  spares: 1'
    lose_n2
    dt_background whole dt_run srun --nodes=2 --ntasks=2 --nodelist=n1,n3 \
        --disttrain=job.yaml --disttrain-set="run.output_dir=$WORK/whole.out"
    dt_wait_for 60 dt_lines 40 "^step" whole
    dt_run scancel --me
    wait || true
    [[ $(losses whole | wc -l) == 40 ]]
    [[ -z $(comm -23 <(losses before after) <(losses whole)) ]]
}

@test "a run goes on with fewer ranks and the same batch" {
    run_yaml '  min_ranks: 1'
    lose_n2
    grep -q "^2 rows per rank x 2 ranks x 1 accumulation = 4 samples" before
    grep -q "^2 rows per rank x 1 rank x 2 accumulation = 4 samples" after
}

@test "a step whose keepers go on without a node is left alone" {
    KEEPER=auto run_yaml '  spares: 1'
    submit
    dt_wait_for 60 dt_lines 12 "^step" log
    cut_off n2
    dt_wait_for 60 dt_lines 1 "^disttrain: node n2 is lost$" log
    dt_wait_for 60 dt_lines 1 "node n3 takes its place" log
    dt_wait_for 60 eval 'sed "1,/takes its place/d" log >after; dt_lines 50 "^step" after'
    run -0 dt_run squeue --noheader --steps --format=%i
    [[ $output == *.0* ]]
    # Slurm 26.05 asks the lost node, too, and complains
    dt_run scancel --signal=TERM "$(dt_run squeue --noheader --format=%i)".0 ||
        true
    dt_wait_for 60 is_done
    cat log
    run ! grep "exit status" log
    grep "stopped by a signal after step" log
    run -0 ended
    [[ $output == 75 ]]
}

# step COUNT NODE LOG: starts the run on one node, as the loop does.
step() {
    dt_background "$3" dt_run env SLURM_DISTTRAIN_LAUNCH="4f.$1" \
        srun --jobid="$job" --overlap --nodes=1 --ntasks=1 --nodelist="$2" \
        --mpi=none "$DT_BUILDDIR/disttrain" train job.yaml
    dt_wait_for 60 dt_lines 3 "^step" "$3"
}

@test "the next step takes the directory over from a lost rank 0 at once" {
    local job
    run_yaml
    sed -i 's/^training: {/&train_batch_size: 2, /' job.yaml
    job=$(dt_run sbatch --parsable --nodes=3 --output=/dev/null \
        --wrap='sleep 600')
    dt_wait_for 30 eval '[[ $(dt_run squeue --noheader --format=%T) == RUNNING ]]'
    step 0 n2 first
    cut_off n2
    dt_run scontrol update "JobId=$job" NodeList=n1,n3
    touch --date="8 seconds ago" out/.owner # it is lost for as long
    step 1 n3 second
    run ! grep "still alive" second
    dt_run scancel --me
    wait || true
}
