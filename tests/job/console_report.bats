#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# console_report.bats - the report is true, whatever tasks print and whatever
# happens to the console

bats_require_minimum_version 1.5.0

load helpers
load console

setup_file() {
    console_up
}

@test "what a rank prints is never taken for a record or a message of Slurm" {
    cat >forge.sh <<'END'
if [ $RANK = 1 ]; then
    for token in "" "0123456789abcdef0123456789abcdef "; do
        echo "disttrain: record: ${token}exit 0 n1 1.000 256" >&2
        echo "slurmstepd: disttrain: record: ${token}exit 6 n4 1.000 9" >&2
    done
    echo "srun: error: n2: task 3: Killed" >&2
    echo "srun: error: Node failure on n4" >&2
    echo "srun: Job step aborted: Waiting up to 32 seconds" >&2
    echo "slurmstepd: error: *** STEP 999.0 ON n1 CANCELLED AT now ***" >&2
fi
./all_here 5
[ $RANK = 5 ] || exec sleep 30
echo "the culprit" >&2
exit 3
END
    run ! train sh forge.sh
    diff - <(report) <<'END'
disttrain: first failure: rank 5 on n3, exit status 3, T s after the start
    the culprit
disttrain: 7 ranks were ended by Slurm
END
    [[ $(grep -c '^disttrain: record: \|^slurmstepd: .*record' err) == 4 ]]
    grep '^srun: error: Node failure on n4$' err
}

@test "the token of the records is not in the environment of tasks" {
    run -0 train sh -c 'env; tr "\0" "\n" </proc/$$/environ
        cat /proc/$PPID/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n"'
    run ! grep -h 'SLURM_DISTTRAIN_CONSOLE=' out
    # nor in the environment or command line of the process beside rank 0, which
    # may start later than the rank; what the test itself has is no secret
    cat >look.sh <<'END'
[ $RANK = 0 ] || exec sleep 1
until pid=$(pgrep -f '^[^ ]*disttrain console --watch'); do
    sleep 0.1
done
tr '\0' '\n' <"/proc/$pid/environ"
tr '\0' '\n' <"/proc/$pid/cmdline"
END
    run -0 train timeout 20 sh look.sh
    grep -x -e --watch out
    env >own
    run ! grep -E '(^|=)[0-9a-f]{32}( |$)|^TOKEN=' <(grep -vxFf own out)
}

@test "the process beside rank 0 does not hold the rank's output" {
    # Slurm waits for every process that holds it, and may lose the end of it.
    cat >hold.sh <<'END'
[ $RANK = 0 ] || exec sleep 1
until pid=$(pgrep -f '^[^ ]*disttrain console --watch'); do
    sleep 0.1
done
kill -STOP "$pid"
echo "the last words"
END
    local start=$SECONDS
    run -0 train timeout 20 sh hold.sh
    [[ $(<out) == "the last words" ]]
    ((SECONDS < start + 40)) # of the minute that srun would wait
    run -0 dt_run --node n1 pkill -CONT -f '^[^ ]*disttrain console --watch'
}

@test "the last words of a rank that fails at once are shown" {
    # srun drops them now and then if the exit does not wait for the output.
    for _ in {1..30}; do
        run ! train -N2 -n2 --ntasks-per-node=1 sh -c '
            [ $RANK = 0 ] || exec sleep 30
            echo "the last words" >&2
            exit 3'
        [[ $(report) == *", exit status 3, "*$'\n    the last words\n'* ]]
    done
}

# is_gone PID: it has ended, although perhaps nobody has noticed yet.
is_gone() {
    local state
    state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
    [[ $state == Z ]]
}

# run_stopped STATUS: runs a task that exits with STATUS after the console has
# been stopped.
run_stopped() {
    rm -f up
    cat >stop.sh <<'END'
DISTTRAIN_CONSOLE_TIMEOUT=2 srun -Q --disttrain=c.yaml -n1 sh -c 'echo >up
    while [ -e up ]; do sleep 0.1; done; echo "the last words"; exit '$1 2>&1 &
until [ -e up ]; do sleep 0.1; done
pkill -STOP -P $! -f ' console$'
pgrep -P $! -f ' console$' >console.pid
rm up
wait $!
END
    run dt_run bash stop.sh "$1"
    echo "$output"
    ((status == ${1/#0/74}))
    [[ $output == *"disttrain: the console did not end: the last of the \
output is lost"* ]]
    [[ $(<console.pid) =~ ^[0-9]+$ ]]
    # srun has killed it, which takes effect a moment later
    dt_wait_for 20 is_gone "$(<console.pid)"
}

@test "a console that hangs is an error, and srun ends" {
    run_stopped 0
    run_stopped 3
}

@test "output that nobody reads is an error, and srun ends" {
    cat >flood.sh <<'END'
DISTTRAIN_CONSOLE_TIMEOUT=2 srun -Q --disttrain=c.yaml -n1 seq 15000 2>err |
    { until grep -q 'nothing reads' err; do sleep 0.1; done; cat >/dev/null; }
echo "${PIPESTATUS[0]}"
END
    run -0 dt_run bash flood.sh
    cat err
    [[ ${lines[-1]} == 74 ]]
    [[ $(<err) == *"disttrain: nothing reads the output of srun: the last of \
the output is lost" ]]
    # a reader that starts after the console's deadline still gets everything
    # (the task lives a second longer: of one that ends as soon as it has printed
    # Slurm 22.05 loses the last lines now and then, without disttrain, too)
    run -0 dt_run bash -c 'srun -Q --disttrain=c.yaml -n1 \
        sh -c "seq 15000; sleep 1" 2>err |
        { sleep 13; cksum; }; exit "${PIPESTATUS[0]}"'
    echo "$output"
    cat err
    [[ $output == $(seq 15000 | cksum) ]]
}

@test "with output in files, srun's stderr has the first failure" {
    local how
    for how in "-o file" "-e file" "-o file.%t -e err.%t" "-lofile"; do
        rm -f file && echo "$how"
        # shellcheck disable=SC2086
        run ! train $how sh -c 'echo "words of $RANK"; ./all_here 5
            [ $RANK = 5 ] || exec sleep 30
            echo "the culprit" >&2; exit 3'
        diff - <(report) <<'END'
disttrain: first failure: rank 5 on n3, exit status 3, T s after the start
disttrain: 7 ranks were ended by Slurm
END
    done
    DISTTRAIN_CONSOLE_TIMEOUT=1 run -0 train -o file sleep 2
    [[ ! -s out && ! -s err ]]
    run -0 env SETTINGS=SLURM_DISTTRAIN_RANK_LOGS=/x bash -c \
        "$(declare -f train dt_srun dt_run); train -o file true"
    [[ $(<err) == "disttrain: the output of the ranks does not pass through srun \
(--output, --error, --pty): "*" have no effect" ]]
}

@test "a killed first or last rank is named with output in files" {
    local rank
    for rank in 0 7; do
        run ! env CULPRIT=$rank bash -c "$(declare -f train dt_srun dt_run)"'
            train -o file sh -c "[ \$RANK = $CULPRIT ] || exec sleep 30
                kill -SEGV \$\$"'
        report | grep "^disttrain: first failure: rank $rank on n$((rank / 2 + 1)),\
 killed by signal 11 (Segmentation fault), T s after the start$"
    done
}

@test "--pty keeps its terminal, and the report has proper line ends" {
    run dt_run script -qec "srun -Q --disttrain=c.yaml -n1 --pty sh -c \
        'test -t 0 && test -t 1 && test -t 2 && echo all terminals; exit 3'" \
        typescript
    echo "$output"
    output=${output//^@/} # so a terminal may show the end of script's input
    [[ $output == *"all terminals"* ]]
    [[ $output == *$'\r\n'"disttrain: first failure: rank 0 on n"[1-4]", exit \
status 3, "*" s after the start"$'\r'* ]]
}

# comment_of WORD...: prints the comment of a batch job, submitted with WORDs,
# in which a step fails.
comment_of() {
    local job
    job=$(dt_run --user dtuser sbatch --parsable --wait -n2 -o /dev/null \
        --chdir=/tmp "$@" --disttrain="$WORK/c.yaml" \
        --wrap 'srun sh -c "[ \$RANK = 1 ] && exit 4; sleep 30"') || true
    dt_run scontrol show job "$job" | sed -n 's/^ *Comment=\(.*[^ ]\) *$/\1/p'
}

@test "the first failure is the comment of the job, if it has none" {
    # setting it may take a second at most, too little for a busy machine
    for _ in {1..5}; do
        run comment_of
        echo "<$output>"
        [[ -z $output ]] || break
    done
    [[ $output =~ ^"disttrain: first failure: rank 1 on n"[1-4]", exit status 4, "\
[0-9.]+" s after the start"$ ]]
    run comment_of --comment="the user's own"
    [[ $output == "the user's own" ]]
    run env SETTINGS=SLURM_DISTTRAIN_JOB_COMMENT=no bash -c \
        "$(declare -f comment_of dt_run); comment_of"
    [[ -z $output ]]
}

@test "a controller that does not answer delays nothing" {
    cat >slow.sh <<'END'
mkdir -p bin
printf '#!/bin/sh\necho $$ >squeue.pid; exec sleep 30\n' >bin/squeue
chmod 755 bin/squeue
begin=$(date +%s%N)
srun -Q --disttrain=c.yaml -n1 sh -c 'exit 3' 2>&1
without=$((($(date +%s%N) - begin) / 1000000))
begin=$(date +%s%N)
PATH=$PWD/bin:$PATH srun -Q --disttrain=c.yaml -n1 sh -c 'exit 3' 2>&1
with=$((($(date +%s%N) - begin) / 1000000))
echo "$without ms and $with ms"
((with < 20000))
END
    run -0 dt_run bash slow.sh
    echo "$output"
    [[ $(grep -c '^disttrain: first failure' <<<"$output") == 2 ]]
    run ! kill -0 "$(<squeue.pid)"
}

@test "all ranks print at once, and the report has the failed rank's output" {
    local rank
    for rank in 0 7; do
        run ! env CULPRIT=$rank bash -c "$(declare -f train dt_srun dt_run)"'
            train sh -c "for i in 1 2 3; do echo line \$i of \$RANK >&2; done
                ./all_here $CULPRIT; [ \$RANK = $CULPRIT ] || exec sleep 30; exit 3"'
        diff - <(report) <<END
disttrain: first failure: rank $rank on n$((rank / 2 + 1)), exit status 3, T s after the start
    line 1 of $rank
    line 2 of $rank
    line 3 of $rank
disttrain: 7 ranks were ended by Slurm
END
    done
}

@test "the first and the last node that do not connect to rank 0 are named" {
    write_meet
    local late expected
    for late in n2 n4 "n2 n4"; do
        rm -f ready.* met
        # shellcheck disable=SC2086
        DISTTRAIN_CONSOLE_TIMEOUT=6 run -0 train python3 meet.py $late
        expected=${late/n2/n2 (ranks 2-3)}
        expected=${expected/n4/n4 (ranks 6-7)}
        expected=${expected/) n4/), n4}
        [[ $(<err) == "disttrain: rank 0 on n1 has listened on port "*" s, but \
nobody on $expected has connected"$'\n'* ]]
    done
}

@test "no process stays behind when srun or the console is stopped" {
    cat >stop.sh <<'END'
case $1 in
console) signal=$2 ;;
*) signal=$1 ;;
esac
rm -f up
srun -Q --disttrain=c.yaml -N2 -n4 sh -c 'echo >up; sleep 2; echo out; exit 3' \
    >out 2>err &
srun=$!
until [ -e up ]; do sleep 0.1; done
console=$(pgrep -P $srun -f ' console$')
if [ "$1" = console ]; then
    kill "-$signal" "$console"
else
    kill "-$signal" $srun
    [ "$signal" != INT ] || { sleep 0.3; kill -INT $srun; }
fi
wait $srun
# a console whose srun is killed still writes its output, and ends by itself
for i in $(seq 600); do
    kill -0 "$console" 2>/dev/null || exit 0
    sleep 0.1
done
exit 1
END
    local how
    for how in TERM INT HUP QUIT KILL "console TERM" "console INT" \
        "console HUP"; do
        echo "$how"
        # shellcheck disable=SC2086
        run -0 dt_run bash stop.sh $how
        [[ $how != console* ]] || grep '^disttrain: first failure' err
    done
    # and no process stays beside rank 0
    dt_wait_for 20 nobody_watches
}

@test "no process of a working doctor stays behind when srun ends" {
    mkdir -p fake
    cat >fake/srun <<END
#!/bin/sh
case "\$*" in
*--overlap*) echo \$\$ >probe.pid; exec sleep 300 ;;
*) exec $(command -v srun) "\$@" ;;
esac
END
    chmod 755 fake/srun
    cat >ask.sh <<'END'
rm -f probe.pid
srun -Q --disttrain=c.yaml -n1 sleep 300 &
until [ -s probe.pid ]; do sleep 0.1; done
kill -TERM $!
wait $!
kill -0 "$(cat probe.pid)" && exit 1
exit 0
END
    SETTINGS=SLURM_DISTTRAIN_HANG=1 PATH=$WORK/fake:$PATH run -0 dt_run \
        bash ask.sh
}

@test "a line that names no step, or another one, stops no step" {
    local line
    for line in 'slurmstepd: error: *** CANCELLED AT 2026-01-01T00:00:00 ***' \
        '[2026-01-01T00:00:00.1] error: *** x CANCELLED AT now' \
        'slurmstepd: error: *** STEP 999.0 ON n1 CANCELLED AT now ***'; do
        run ! env LINE="$line" bash -c "$(declare -f train dt_srun dt_run)"'
            train sh -c "[ \$RANK = 4 ] || exec sleep 30
                echo \"\$LINE\" >&2; sleep 0.3; echo the culprit >&2; exit 3"'
        report | grep '^disttrain: first failure: rank 4 on n3, exit status 3'
    done
}

@test "without labels, an srun in a task does not fail the step" {
    cat >nested.sh <<'END'
[ $RANK = 1 ] || exit 0
srun -Q --overlap -N1 -n1 sh -c 'exit 9'
echo "nested: $?"
echo "srun: error: Node failure on n2" >&2
exit 0
END
    run -0 dt_run env SETTINGS=SLURM_DISTTRAIN_REQUEUE=1 salloc -Q -N2 -n4 \
        srun -Qu --overlap -N2 -n2 --disttrain=c.yaml sh nested.sh
    echo "$output"
    [[ $output == *"Exited with exit code 9"* && $output == *"nested: 9"* ]]
    [[ $output != *"disttrain: "* ]]
    # and a rank that fails is named nevertheless
    sed -i 's/^exit 0$/exit 4/' nested.sh
    run ! dt_run salloc -Q -N2 -n4 srun -Qu --overlap -N2 -n2 \
        --disttrain=c.yaml sh nested.sh
    echo "$output"
    [[ $output == *"disttrain: first failure: rank 1 on n"[1-4]", exit status 4, "* ]]
}

@test "ranks that cannot be launched are the first failure" {
    local plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
    touch none.so
    dt_run --node n2 mount --bind none.so "$plugin"
    run train true
    dt_run --node n2 umount "$plugin"
    # since 26.05 Slurm says only "Unspecified error"
    reason=$(sed -n 's/^srun: error: task 2 launch failed: //p' err)
    [[ $reason == @(Plugin initialization failed|Unspecified error) ]]
    diff - <(report) <<END
disttrain: first failure: ranks 2-3 on n2 could not be launched, according to Slurm: $reason
disttrain: slurmd's log on that node says why; if a plugin has failed, run \`disttrain doctor --plugin\` there
END
}

@test "without labels, no record is shown, though it comes in pieces" {
    for _ in {1..12}; do
        run ! dt_srun -u -N2 -n2 --disttrain=c.yaml sh -c \
            '[ $RANK = 1 ] && exit 4; sleep 20'
        [[ $output != *"disttrain: record"* ]]
        [[ $output == *"disttrain: first failure: rank 1 on n"* ]]
    done
}

@test "the first step of a requeued job withdraws an earlier failure, and no later one" {
    local job comment again
    cat >again.sh <<'END'
#!/bin/sh
comment() { squeue --noheader --jobs="$SLURM_JOB_ID" --format=%k; }
tell() { echo "comment: $(comment)"; }
# until WORD: while a comment is set, a second at most
try() { for i in 1 2 3 4 5; do "$@" && break; done; }
fails() { srun sh -c 'exit 4'; comment | grep -q 'first failure'; }
begins_well() { srun true; ! comment | grep -q 'before'; }
old() { scontrol update JobId="$SLURM_JOB_ID" Comment="$*"; }
old "disttrain: first failure: before"
export "$1"
try begins_well
tell
unset "${1%%=*}"
try fails
export "$2"
srun true
tell
old "the user's own"
srun true
tell
END
    # Slurm counts requeues, disttrain steps its restarts
    for again in SLURM_RESTART_COUNT=1 SLURM_DISTTRAIN_LAUNCH=1a2b.1; do
        job=$(dt_run sbatch --parsable --wait -Q -n1 -o again.out \
            --disttrain="$WORK/c.yaml" again.sh "$again" SLURM_RESTART_COUNT=1)
        cat again.out
        mapfile -t comment < <(sed -n 's/^comment: //p' again.out)
        [[ ${comment[0]} != *before* ]]
        [[ ${comment[1]} == "disttrain: first failure: rank 0 on "* ]]
        [[ ${comment[2]} == "the user's own" ]]
    done
}

@test "a failure in a job of an array is the comment of that job alone" {
    local array one
    # the last one of an array has its number
    array=$(dt_run --user dtuser sbatch --parsable --array=0-1 -n1 -N1 \
        -o /dev/null --chdir=/tmp --disttrain="$WORK/c.yaml" \
        --wrap '[ $SLURM_ARRAY_TASK_ID = 0 ] && exec sleep 300
            until [ "$(squeue --noheader --jobs=$SLURM_ARRAY_JOB_ID \
                --states=R | wc -l)" = 2 ]; do sleep 0.2; done
            while :; do srun sh -c "exit 4"; sleep 1; done')
    comment_is_set() {
        [[ $(dt_run squeue --noheader --jobs="${array}_1" --format=%k) == \
            "disttrain: first failure: rank 0 on "* ]]
    }
    # setting it may take a second at most: a later step has a quieter moment
    dt_wait_for 180 comment_is_set
    one=$(dt_run squeue --noheader --jobs="${array}_0" --format=%k)
    dt_run scancel "$array"
    [[ $one == "(null)" ]]
}

@test "the comment of srun's own allocation is set while ranks still end" {
    local job
    cat >slow_end.sh <<'END'
[ $RANK = 0 ] || exit 4
trap 'sleep 1; exit 1' TERM
sleep 30 & wait
END
    chmod a+r slow_end.sh
    # as above, a busy machine may be too slow
    for _ in {1..5}; do
        run ! dt_run --user dtuser srun -Q -J own -N2 -n2 --chdir=/tmp \
            --disttrain="$WORK/c.yaml" sh "$WORK/slow_end.sh"
        job=$(dt_run scontrol show job -o | grep ' JobName=own ' | tail -n 1)
        echo "$job"
        [[ $job != *" Comment="* ]] || break
    done
    [[ $job == *" Comment=disttrain: first failure: rank 1 on n"[1-4]", exit status 4, "* ]]
}

# comment_of_line LINE STATUS: prints the comment of a batch job with a rank that
# prints the line and exits with the status, and leaves its output in line.out.
comment_of_line() {
    local job
    job=$(dt_run sbatch --parsable --wait -n1 -o line.out \
        --disttrain="$WORK/c.yaml" \
        --wrap "srun sh -c 'echo \"$1\" >&2; sleep 0.3; exit $2'") || true
    dt_run scontrol show job "$job" | sed -n 's/^ *Comment=\(.*[^ ]\) *$/\1/p'
}

@test "what disttrain has reported is the comment, and is not repeated" {
    for _ in {1..5}; do
        run comment_of_line "disttrain: run.output_dir: /x is not empty" 73
        echo "<$output>"
        [[ -z $output ]] || break
    done
    [[ $output == "disttrain: first failure: run.output_dir: /x is not empty" ]]
    run ! grep 'first failure' line.out
    # every user of the cluster reads it
    run comment_of_line "disttrain: http://me:hidden@h/: refused" 69
    [[ $output == "disttrain: first failure: http://(removed)@h/: refused" ]]
    # who is saved, and asks for a requeue, has not failed
    run comment_of_line "disttrain: saved" 75
    [[ -z $output ]]
}

@test "output that cannot be written is an error, and srun says so" {
    run dt_run sh -c 'srun -Q --disttrain=c.yaml -n1 sh -c \
        "echo hi; sleep 1" 2>&1 >/dev/full'
    ((status == 74))
    [[ $output == "disttrain: stdout of srun cannot be written: No space left \
on device; the rest of it is lost" ]]
    run dt_run sh -c 'srun -Q --disttrain=c.yaml -n1 sh -c \
        "echo hi >&2; sleep 1" 2>/dev/full'
    ((status == 74))
    # and srun keeps a status of its own
    run dt_run sh -c 'srun -Q --disttrain=c.yaml -n1 sh -c \
        "echo hi; sleep 1; exit 3" 2>err >/dev/full'
    cat err
    ((status == 3))
}
