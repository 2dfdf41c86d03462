#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# hang.bats - ranks that hang are found and named

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-hang.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    # rank 5 (or CULPRIT) hangs, and the others compute, which must not slow down
    # other tests
    cat >"$WORK/rank.sh" <<'END'
end=$((SECONDS + ${LIFE:-100}))
touch here."$RANK"
if [[ $RANK == "${CULPRIT:-5}" ]]; then
    case $HOW in
    stop) kill -STOP $$ ;;
    upgrade) cp disttrain new && mv new disttrain ;;
    speak) cat speak && echo still here && exec cat end ;;
    esac
    exec sleep $((end - SECONDS))
fi
renice -n 19 $$ >/dev/null
while ((SECONDS < end)) && [[ ! -e ended ]]; do
    [[ $HOW != talk ]] || { sleep 0.5 && echo a step; }
done
END
    cp "$DT_BUILDDIR/disttrain" "$WORK/disttrain"
    dt_cluster_up --nodes 4 --cpus 2 --runtime "$WORK/disttrain" \
        --conf SlurmdTimeout=120
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    rm -f here.* ended log
}

# config KEY...: writes a config with these keys in launch:
config() {
    printf 'launch:\n  nodes: 4\n  ntasks_per_node: 2\n' >c.yaml
    printf '  command: [bash, rank.sh]\n' >>c.yaml
    (($# == 0)) || printf '  %s\n' "$@" >>c.yaml
}

# train: runs srun with 8 ranks on 4 nodes.
train() {
    dt_srun --disttrain=c.yaml
}

all_are_here() {
    (($(find . -name 'here.*' | wc -l) == 8))
}

# ended COMMAND...: runs a command whose step is ended. Ranks that had no time to
# obey SIGTERM (143) are killed (137); which of them srun tells is up to Slurm.
ended() {
    run "$@"
    [[ $status == 137 || $status == 143 ]]
}

silences() {
    grep -c '^disttrain: no rank has printed anything for ' <<<"$output"
}

@test "the odd rank and its host come first, again after a longer hang" {
    mkfifo speak end
    config 'hang_timeout: 2'
    export HOW=speak
    dt_background log train
    local step=$!
    dt_wait_for 40 dt_lines 1 'what they are doing' log
    timeout 40 sh -c 'echo and >speak'
    dt_wait_for 40 dt_lines 2 'what they are doing' log
    touch ended
    timeout 40 sh -c ': >end'
    wait "$step"
    output=$(<log)
    echo "$output"
    report=$(sed -n '/^disttrain: no rank .* 2 s; what they are doing:$/,$p' \
        <<<"$output" | sed -n '2,3p')
    [[ $report =~ ^"    rank 5 on n3: "(waits in .*|sleeps)", 0 % of a CPU: "\
"cat speak (pid "[0-9]+")"$'\n'"    ranks 0-4, 6-7 on n1, n2, n3, n4: busy "\
"(computes, or polls as in a collective), "[0-9-]+\
" % of a CPU: bash rank.sh"$ ]]
    [[ $(silences) == 2 && $output != *"first failure"* ]]
}

@test "output resets the timer, and the default timeout is longer" {
    config 'hang_timeout: 5'
    HOW=talk LIFE=7 run -0 train
    [[ $output == *"a step"* && $output != *"no rank has printed"* ]]
    config
    HOW=sleep LIFE=4 run -0 train
    [[ -z $output ]]
}

@test "a step that has ended is not examined" {
    config 'hang_timeout: 30' 'hang_action: end'
    HOW=sleep LIFE=1 run -0 train
    [[ -z $output ]]
}

@test "end: the step ends at once, and the hang is its first failure" {
    config 'hang_timeout: 2' 'hang_action: end'
    HOW=stop ended train
    echo "$output"
    [[ $output == *"
    rank 5 on n3: stopped (state T), 0 % of a CPU: bash rank.sh (pid "*"
disttrain: the step is ended (launch.hang_action: end)
"*"
disttrain: first failure: no rank has printed anything for 2 s; suspect: \
rank 5 on n3: stopped (state T), 0 % of a CPU: bash rank.sh (pid "*"
disttrain: 8 ranks were ended by Slurm" ]]
    [[ $(silences) == 1 ]]
}

@test "an upgrade of disttrain does not stop the report of a running step" {
    config 'hang_timeout: 2' 'hang_action: end'
    HOW=upgrade ended train
    echo "$output"
    [[ $output == *"suspect: rank 5 on n3: "* ]]
}

@test "end, and max_restarts" {
    config 'hang_timeout: 2' 'hang_action: end' 'max_restarts: 1'
    HOW='sleep' ended dt_run disttrain sbatch --submit c.yaml -- --wait \
        --output=log
    run -0 cat log
    echo "$output"
    [[ $output =~ "exit status "(137|143)": restart 1 of 1" ]]
    [[ $(silences) == 2 ]]
    # the console of a batch job is not a rank, although the script has one
    [[ $(grep -c '^    rank 5 on n3: ' <<<"$output") == 2 ]]
    [[ $output != *"disttrain console"* ]]
}

@test "doctor --ranks works on any step, even if a node does not answer" {
    local step
    config
    HOW="sleep" dt_background log train
    dt_wait_for 40 all_are_here
    # that of the case before may still be ending
    step=$(dt_run squeue --noheader --steps --format=%i | grep '\.0$' |
        sort -n | tail -n 1)
    run -0 dt_run disttrain doctor --ranks --job="$step"
    [[ ${lines[0]} == "rank 5 on n3: "* && ${lines[1]} == "ranks 0-4, 6-7 on "* ]]
    [[ ${#lines[@]} == 2 ]]
    dt_run --node n4 pkill -STOP slurmd
    run --separate-stderr dt_run disttrain doctor --ranks --job="$step"
    dt_run --node n4 pkill -CONT slurmd
    # shellcheck disable=SC2154
    echo "$output, $stderr"
    ((status == 0))
    [[ ${lines[0]} == "node n4 does not answer" ]]
    [[ ${lines[1]} == "ranks 6-7: unknown, or no longer running" ]]
    [[ ${lines[2]} == "rank 5 on n3: "* ]]
    dt_run scancel "$step"
    wait || true
}

@test "doctor --ranks explains what it cannot do" {
    run -64 dt_run disttrain doctor --ranks --job=7
    [[ $output == *"--ranks needs --job=ID.STEP; squeue --me "* ]]
    run -69 dt_run disttrain doctor --ranks --job=999.0
    [[ $output == "disttrain doctor: "* ]]
}

@test "the first rank and the last one are suspected" {
    local rank
    config 'hang_timeout: 2' 'hang_action: end'
    for rank in 0 7; do
        CULPRIT=$rank HOW=stop ended train
        [[ $output == *"
disttrain: first failure: no rank has printed anything for 2 s; suspect: \
rank $rank on n$((rank / 2 + 1)): stopped (state T), "* ]]
    done
}
