#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# console.bats - what the user sees of a step, especially when a rank fails

bats_require_minimum_version 1.5.0

load helpers
load console

setup_file() {
    console_up --conf SlurmdTimeout=120 --conf MessageTimeout=30
}

need_python() {
    command -v python3 >/dev/null || skip "python3 is not installed"
}

@test "the rank that fails first is named, with its traceback" {
    need_python
    cat >t.py <<'END'
import os, sys, time
os.system("./all_here 5")
if os.environ["RANK"] == "5":
    print("noise", file=sys.stderr)
    try:
        int("x")
    except ValueError as e:
        raise RuntimeError("wrapped") from e
time.sleep(30)
END
    run ! train python3 t.py
    # Python 3.13 adds lines with marks
    diff - <(report | grep -vE '^ +[~^]+$') <<END
disttrain: first failure: rank 5 on n3, exit status 1, T s after the start
    Traceback (most recent call last):
      File "$WORK/t.py", line 6, in <module>
        int("x")
    ValueError: invalid literal for int() with base 10: 'x'

    The above exception was the direct cause of the following exception:

    Traceback (most recent call last):
      File "$WORK/t.py", line 8, in <module>
        raise RuntimeError("wrapped") from e
    RuntimeError: wrapped
disttrain: 7 ranks were ended by Slurm
END
    [[ ! -s out && $(cat err) != *"disttrain: record"* ]]
}

@test "a traceback from a process pool" {
    need_python
    cat >pool.py <<'END'
import multiprocessing, os, time
def work(x):
    return 1 // x
if __name__ == "__main__":
    if os.environ["RANK"] == "2":
        with multiprocessing.Pool(1) as pool:
            pool.map(work, [0])
    time.sleep(30)
END
    run ! train python3 pool.py
    report >short
    [[ $(head -2 short) == "disttrain: first failure: rank 2 on n2, exit \
status 1, T s after the start
    Traceback (most recent call last):" ]]
    grep -q '^        return 1 // x$' short
    [[ $(grep -c 'ZeroDivisionError: ' short) == 2 ]]
}

@test "a signal is named; a rank without stderr output has its stdout shown" {
    run ! train sh -c './all_here 6; echo "my last words"
        [ $RANK = 6 ] && kill -SEGV $$; exec sleep 30'
    diff - <(report) <<'END'
disttrain: first failure: rank 6 on n4, killed by signal 11 (Segmentation fault), T s after the start
    my last words
disttrain: 7 ranks were ended by Slurm
END
}

@test "an abort of a C library" {
    need_python
    run ! train python3 -c 'import os, time
os.system("./all_here 0")
if os.environ["RANK"] == "0":
    os.write(2, b"free(): double free\n")
    os.abort()
time.sleep(30)'
    diff - <(report | sed -n '1,2p;$p') <<'END'
disttrain: first failure: rank 0 on n1, killed by signal 6 (Aborted), T s after the start
    free(): double free
disttrain: 7 ranks were ended by Slurm
END
}

@test "later failures are reported as well, even if the step is not ended" {
    run ! env SLURM_KILL_BAD_EXIT=0 bash -c "$(declare -f train dt_srun dt_run)"'
        train sh -c "await() { until grep -q \"task \$1: \" err; do
            sleep 0.1; done; }
        case \$RANK in
        1) await 7; exit 3 ;;
        2) await 7; exit 3 ;;
        7) exit 78 ;;
        4) await 1; await 2; kill -9 \$\$ ;;
        esac"'
    diff - <(report) <<'END'
disttrain: first failure: rank 7 on n4, exit status 78 (configuration error), T s after the start
disttrain: ranks 1-2: exit status 3, T to T s later
disttrain: rank 4 on n3: killed by signal 9 (Killed), T s later
END
}

@test "no failure, no report" {
    run -0 train sh -c 'echo "hello $RANK"; echo "warning $RANK" >&2'
    diff <(printf 'hello %s\n' {0..7}) <(sort out)
    diff <(printf 'warning %s\n' {0..7}) <(sort err)
}

@test "scancel and Ctrl-C are not failures" {
    local i stopped='Ctrl-C\|CANCELLED\|aborted'
    # Two of these signals within a second end the step. A rank that ends early
    # would be taken for the first failure, so the ranks wait for the message.
    for i in "scancel --me" "while kill -INT \$! 2>&-; do sleep 0.3; done"; do
        rm -f out err
        dt_run sh -c "srun --disttrain=c.yaml -N2 -n2 sh -c '
            trap \"until grep -q \\\"$stopped\\\" err; do sleep 0.1; done; exit 1\" TERM INT
            echo up; sleep 50 >&- 2>&- & wait' >>out 2>>err &
            until [ \"\$(grep -c up out)\" = 2 ]; do sleep 0.1; done
            $i; wait" || true
        cat err
        [[ $(<err) == *"Job step aborted: "* || $(<err) == *"Ctrl-C"* ]]
        [[ $(<err) != *"first failure"* ]]
    done
}

@test "the report comes last, and srun keeps its own exit status" {
    run -7 dt_srun --disttrain=c.yaml -n1 sh -c 'echo a; exit 7'
    echo "$output"
    [[ ${lines[-2]} == "disttrain: first failure: rank 0 on n"[1-4]", exit \
status 7, "* ]]
    [[ ${lines[-1]} == "    a" ]]
    run -0 dt_run sh -c 'srun -Q --disttrain=c.yaml -n1 sh -c "exit 7" 2>&1
        echo next'
    [[ ${lines[-1]} == next ]]
    [[ ${lines[-2]} == "disttrain: first failure: "* ]]
}

@test "a batch job has the same report" {
    run ! dt_run sbatch --quiet --wait -n2 -o out --disttrain=c.yaml \
        --wrap 'srun sh -c "[ \$RANK = 1 ] && exit 4; sleep 30"'
    cat out
    grep '^disttrain: first failure: rank 1 on n[1-4], exit status 4' out
}

@test "lines of one rank stay whole, whatever it writes" {
    need_python
    python3 - >want <<'END'
import random
random.seed(1)
for _ in range(300):
    print("x" * random.choice([0, 1, 80, 1023, 1024, 1025, 2048, 5000]))
print("\0\r\x1b[1m\xff", end="\n")
END
    # srun may lose the end of what a task writes last
    run -0 train sh -c '[ $RANK = 3 ] || exit 0
        cat want; cat want >&2
        for file in out err; do
            until [ $(wc -c <$file) -ge $(wc -c <want) ]; do sleep 0.1; done
        done'
    cmp want out
    head -c 1000 err
    cmp want err
}

@test "unbuffered output is not changed" {
    head -c 300000 /dev/urandom >want
    run -0 dt_run sh -c 'srun -u --disttrain=c.yaml -n1 cat want >out'
    # srun -u by itself also loses the end in a tenth of the runs
    cmp --bytes="$(stat -c %s out)" want out
    [[ -s out ]]
    run ! train -u sh -c '[ $RANK = 1 ] || exec sleep 30
        printf "\r50%%" >&2; sleep 0.3; printf "\r100%%" >&2; exit 2'
    [[ $(head -c 8 err) == $'\r50%\r100' ]]
    [[ $(report) == "disttrain: first failure: rank 1 on n1, exit status 2,"*"
disttrain: the last lines on stderr, of all ranks:
    100%"* ]]
    run -0 dt_run env SETTINGS=SLURM_DISTTRAIN_RANK_LOGS=/x srun -Qu \
        --disttrain=c.yaml -n1 true
    [[ $output == "disttrain: with --unbuffered srun does not say which rank \
printed a line: no rank logs are written, and all ranks are shown" ]]
}

@test "labels that the user asked for stay, also for sruns in tasks" {
    local form
    for form in -l --label -lK1; do
        run -0 dt_srun "$form" -n12 --disttrain=c.yaml sh -c 'echo hi'
        diff <(printf '%2d: hi\n' {0..11}) <(sort -n <<<"$output")
    done
    run -0 dt_run env SLURM_LABELIO=1 srun -Q --disttrain=c.yaml -n1 \
        sh -c 'echo $SLURM_LABELIO'
    [[ $output == "0: 1" ]]
    run -0 dt_srun --disttrain=c.yaml -n1 sh -c 'echo "<$SLURM_LABELIO>"'
    [[ $output == "<>" ]]
}

@test "output that srun writes elsewhere is not changed" {
    run -0 dt_srun --disttrain=c.yaml -n2 -o file sh -c 'echo hi'
    [[ -z $output && $(<file) == $'hi\nhi' ]]
    run -0 dt_srun --disttrain=c.yaml -n1 --error=file sh -c 'echo hi; env >&2'
    [[ $output == hi ]]
    run ! grep -q "SLURM_LABELIO\|SLURM_DISTTRAIN_CONSOLE" file
    run -0 dt_run script -qec \
        "srun -Q --disttrain=c.yaml -n1 --pty sh -c 'test -t 1 && echo terminal'" \
        /dev/null
    # script(1) may have sent the end of its input before that
    [[ $output == *terminal* && $output != *0:* ]]
}

@test "ranks have log files, and the console shows the selected ranks" {
    local i
    for i in 1 2; do
        run -0 env SETTINGS="SLURM_DISTTRAIN_RANK_LOGS=$WORK/logs/ranks \
            SLURM_DISTTRAIN_CONSOLE_RANKS=0,6-7" \
            bash -c "$(declare -f train dt_srun dt_run)"'
            train sh -c "echo out \$RANK; echo err \$RANK >&2"'
        [[ $(sort out) == $'out 0\nout 6\nout 7' ]]
        [[ $(sort err) == $'err 0\nerr 6\nerr 7' ]]
    done
    [[ $(ls logs/ranks) == $(printf 'rank-%04d.log\n' {0..7}) ]]
    # the second run appended to the files of the first; the order of a rank's
    # two streams is not defined
    for i in "head -n 2" "tail -n +3"; do
        [[ $($i logs/ranks/rank-0003.log | sort) == $'err 3\nout 3' ]]
    done
}

@test "a hidden rank that fails is reported" {
    SETTINGS=SLURM_DISTTRAIN_CONSOLE_RANKS=0 run ! train sh -c \
        '[ $RANK = 3 ] && { echo "not to be seen" >&2; exit 2; }; sleep 30'
    [[ $(grep -n 'not to be seen' err) == *":    not to be seen" ]]
    report | grep '^disttrain: first failure: rank 3 on n2, exit status 2'
}

@test "if logs cannot be written, logging stops and the run continues" {
    SETTINGS=SLURM_DISTTRAIN_RANK_LOGS=/dev/null/x run -0 train sh -c \
        'echo "out $RANK"'
    [[ $(wc -l <out) == 8 ]]
    [[ $(<err) == "disttrain: rank logs are no longer written: "*"/dev/null"* ]]
}

@test "32 ranks" {
    run ! dt_srun --disttrain=c.yaml -N4 -n32 --overcommit sh -c \
        'seq $RANK 32 3200; touch said.$RANK; [ $RANK = 31 ] || exec sleep 50
        until [ $(ls said.* | wc -l) = 32 ]; do sleep 0.1; done; exit 9'
    [[ $(grep -c '^[0-9]*$' <<<"$output") -ge 3100 ]]
    [[ $output == *"disttrain: first failure: rank 31 on n4, exit status 9, "* ]]
    [[ $output == *$'\n'"disttrain: 31 ranks were ended by Slurm" ]]
}

# closed_pipe END [OPTION]...: what srun prints if nobody reads all of it. The
# task ends with the command END. What slurmstepd says of a kill may be lost.
closed_pipe() {
    dt_run sh -c "srun -Q ${*:2} -n1 sh -c 'seq 100000; $1' | head -n 1" 2>&1 |
        sed -E '/ CANCELLED AT /d; s/n[1-4]//g'
}

@test "large output arrives whole, and nobody waits for a closed pipe" {
    local version end="sleep 1; echo end >&2"
    seq 2000000 >want
    # srun may lose the end of what a task writes last
    run -0 dt_run sh -c "srun -Q --disttrain=c.yaml -n1 sh -c 'cat want
        until [ \$(wc -c <out) = \$(wc -c <want) ]; do sleep 0.1; done' |
        cat >out"
    cmp want out
    # Since 26.05 srun ends such a step, on a busy machine after some seconds;
    # before, it goes on.
    version=$(dt_run srun --version |
        sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/')
    ((version < 2605)) || end="exec sleep 60"
    closed_pipe "$end" >want
    closed_pipe "$end" --disttrain=c.yaml >out
    diff want out
    [[ $(head -n 1 out) == 1 && $(wc -l <out) -gt 1 ]]
}

@test "a console that cannot start causes one message" {
    VANISH=yes run -0 dt_srun --disttrain=c.yaml -n1 echo hi
    mv disttrain.gone disttrain
    [[ $output == "srun: error: disttrain: failures will not be reported, because the \
console cannot be started: No such file or directory
0: hi" ]]
    # since 26.05, srun itself may end as nobody reads its output
    CONSOLE=false run ! dt_srun --disttrain=c.yaml -n1 true
    [[ $status == @(74|1) ]]
    [[ $output == *"disttrain: the console has failed, with wait status 256: \
some output may be lost" ]]
}

@test "ranks that do not start are named with their host" {
    local started='disttrain: all 8 ranks have started, [0-9]+ s after the launch'
    # on a busy machine others may be late, too
    local late='s after the launch [2-8] of 8 ranks have not started: ([^;]+; )*'
    late+='ranks 4-5 on n3(; [^'$'\n'']+)?'
    : >err
    dt_run --node n3 pkill -STOP slurmd
    {
        dt_wait_for 40 dt_lines 1 'of 8 ranks have not' err || true
        dt_run --node n3 pkill -CONT slurmd
    } 3>&- &
    DISTTRAIN_CONSOLE_TIMEOUT=4 run -0 train sh -c 'echo hi'
    wait
    [[ $(<err) =~ ^'disttrain: '[0-9]+\ $late$'\n'$started$ ]]
    # ranks may be late again; once started, they are not missing
    DISTTRAIN_CONSOLE_TIMEOUT=2 run -0 train sh -c 'touch here.$RANK
        until [ $(ls here.* | wc -l) = 8 ]; do sleep 0.1; done; sleep 3'
    [[ ! -s err || $(<err) =~ "not started: "[^$'\n']+$'\n'$started$ ]]
}

@test "nodes that do not connect to rank 0 are named" {
    need_python
    write_meet
    rm -f ready.* met
    DISTTRAIN_CONSOLE_TIMEOUT=6 run -0 train python3 meet.py n3
    [[ $(<err) =~ ^"disttrain: rank 0 on n1 has listened on port "6[0-9]{4}" for \
"[0-9]+" s, but nobody on n3 (ranks 4-5) has connected
disttrain: all nodes have connected to rank 0, after "[0-9]+" s"$ ]]
    rm -f ready.* met
    DISTTRAIN_CONSOLE_TIMEOUT=6 run -0 train python3 meet.py n2 n3 n4
    [[ $(<err) == *" but nobody on n2 (ranks 2-3), n3 (ranks 4-5), \
n4 (ranks 6-7) has connected"* ]]
    rm -f ready.* met
    DISTTRAIN_CONSOLE_TIMEOUT=6 run -0 train python3 meet.py
    [[ ! -s err ]]
    # without a port to watch, the watching process ends soon
    run -0 train sleep 1
    dt_wait_for 20 nobody_watches
}

@test "a lost node is named with its ranks, also in the files of the run" {
    # the other cases must not lose a node that is only slow
    dt_cluster_down
    dt_devcluster up --nodes 4 --cpus 8 --runtime "$WORK/disttrain" \
        --conf SlurmdTimeout=20 --conf MessageTimeout=10
    : >out
    {
        dt_wait_for 40 dt_lines 8 up out
        dt_kill n4
    } 3>&- &
    mkdir run
    cat >run.sh <<'END'
step=$SLURM_JOB_ID.$SLURM_STEP_ID
[ "$RANK" != 7 ] ||
    echo "{\"job\": \"$step\", \"status\": \"running\"}" >run/run.json
echo up
exec sleep 200
END
    SETTINGS="SLURM_DISTTRAIN_RUN=$WORK/run" run ! train sh run.sh
    wait
    cat err run/*
    grep -q '"verdict": "failed: node n4 was lost, according' run/run.json
    grep -q '"event": "failed".* "host": "n4"' run/events.jsonl
    [[ $(report) == "disttrain: first failure: node n4 was lost, according to Slurm, \
T s after the start: ranks 6-7 on n4"* ]]
}
