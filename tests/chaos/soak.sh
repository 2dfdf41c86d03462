#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak.sh [LAUNCHES]: does anything stay behind of runs that fail?
#
# LAUNCHES (60) steps of srun continue one run of 4 ranks on 2 nodes, and each
# is disturbed after a random time, in turn: not at all, by the loss of a rank,
# of a keeper or of srun, by signals, by a save that is killed, by an error at
# each start, and by a wrong configuration. After each launch no process of it
# may be left, and no file in /dev/shm and TMPDIR; after all of them, no descriptor
# of a daemon of Slurm more than after the first round, no file in the output
# directory that does not belong there. Needs root and Slurm; DT_BUILDDIR is the
# build, with --enable-fault-injection.
set -u

here=$(cd "$(dirname "$0")" && pwd)
launches=${1:-60}
work=$(mktemp -d /tmp/disttrain-soak.XXXXXX)
cluster=soak$$
devcluster() {
    DT_BUILDDIR=${DT_BUILDDIR:-$here/../..} \
        "$here/../../contrib/devcluster" "$1" --name "$cluster" "${@:2}"
}
trap 'devcluster down; rm -rf "$work"' EXIT
devcluster up --nodes 2 --cpus 2 >/dev/null || exit
cd "$work" || exit
cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >text
mkdir tmp
export OMP_NUM_THREADS=1 TMPDIR=$work/tmp
failed=0
cat >run.yaml <<END
algorithm: sft
run: {name: soak, output_dir: out}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
training: {train_batch_size: 8, max_steps: 1000000, resume: auto}
checkpoint: {steps: 20, total_limit: 2}
END

# processes NAME COMMAND: prints those that were started here, whose environment
# has NAME, and whose command is COMMAND, a pattern.
processes() {
    local pid
    for pid in $(pgrep -x "$2"); do
        [[ /proc/$pid/cwd -ef $work ]] &&
            grep -qz "^$1=" "/proc/$pid/environ" && echo "$pid"
    done 2>/dev/null
}

# hit SIGNAL NAME COMMAND: sends it to one of them.
hit() {
    local pids
    mapfile -t pids < <(processes "$2" "$3")
    ((${#pids[@]} > 0)) && kill "-$1" "${pids[RANDOM % ${#pids[@]}]}"
} 2>/dev/null

job() {
    devcluster run --user root squeue -h -o %i | head -n 1
}

disturb() {
    case $1 in
    rank) hit KILL DISTTRAIN_KEEPER disttrain ;;
    keeper) hit KILL SLURM_PROCID disttrain-keep ;;
    srun) hit KILL SLURM_CONF srun ;;
    stopped)
        hit STOP DISTTRAIN_KEEPER disttrain
        devcluster run --user root scancel "$(job)"
        ;;
    cancelled) devcluster run --user root scancel "$(job)" ;;
    esac 2>/dev/null
}

# Ends the run in order; it is saved.
stop() {
    devcluster run --user root scancel --signal=TERM "$(job).0" 2>/dev/null
}

count_descriptors() {
    local pid
    for pid in $(pgrep -x 'slurmd|slurmctld|munged'); do
        grep -qsz "/$cluster/" "/proc/$pid/environ" &&
            find "/proc/$pid/fd" -mindepth 1 2>/dev/null
    done | wc -l
}

# What a launch has left; it has ten seconds to end.
left() {
    local node i
    for ((i = 0; i < 100; i++)); do
        [[ -n $(processes SLURM_PROCID '.*') ]] || break
        sleep 0.1
    done
    for i in $(processes SLURM_PROCID '.*'); do
        echo "process $(tr '\0' ' ' <"/proc/$i/cmdline")"
    done
    for node in n1 n2; do
        devcluster run --node "$node" find /dev/shm -mindepth 1
    done
    find "$TMPDIR" -mindepth 1
    devcluster run --user root ipcs -m | grep '^0x'
}

ways=(none rank keeper srun cancelled stopped save error config)
for ((n = 0; n < launches; n++)); do
    way=${ways[n % ${#ways[@]}]}
    unset DISTTRAIN_FAULT
    case $way in
    save) export DISTTRAIN_FAULT=ckpt.rename:rank=0:nth=2:life=1:kill ;;
    error) export DISTTRAIN_FAULT=train.step:rank=1:nth=30:error ;;
    esac
    sed "s/n_head: 2/n_head: $([[ $way == config ]] && echo 3 || echo 2)/" \
        run.yaml >now.yaml
    devcluster run --user root timeout 60 srun --quiet -N2 \
        --ntasks-per-node=2 --overcommit --disttrain=now.yaml >log 2>&1 &
    launch=$!
    until grep -q "^step " log || ! kill -0 "$launch" 2>/dev/null; do
        sleep 0.05
    done
    sleep "0.$((RANDOM % 9))"
    disturb "$way"
    sleep 1
    stop
    wait "$launch"
    status=$?
    rest=$(left)
    printf '%3d %-10s status %3d, %s\n' "$n" "$way" "$status" \
        "$(tail -n 1 log | cut -c1-80)"
    if [[ -n $rest ]]; then
        echo "left: $rest"
        failed=1
    fi
    ((n != ${#ways[@]} - 1)) || descriptors=$(count_descriptors)
done

# The number after NAME in a line.
number() {
    sed -n 's/.*"'"$1"'": *\([-+.e0-9]*\).*/\1/p' | head -n 1
}

# Seconds of the parts of the run's account, and from its first start to its end.
account() {
    local part parts sum=0 events=out/logs/events.jsonl
    parts=$(tr -d '\n' <out/logs/run.json | sed 's/.*"account": *{\([^}]*\)}.*/\1/')
    for part in startup steps data saving evaluation recovery lost idle; do
        sum="$sum + $(number "$part" <<<"$parts")"
    done
    awk "BEGIN {
        sum = $sum
        end = $(tail -n 1 $events | number wall)
        begin = $(head -n 1 $events | number wall)
        all = end - begin + $(head -n 1 $events | number startup)
        off = sum > all ? sum - all : all - sum
        printf \"account: %.3f of %.3f s\\n\", sum, all
        exit off > 0.001 * all
    }"
}

sleep 1
more=$(count_descriptors)
echo "descriptors of daemons: $descriptors after a round, $more at the end"
((more <= descriptors)) || failed=1
odd=$(find out -name '.tmp*' -o -name '.old*' -o -name '.owner-*')
[[ -z $odd ]] || { echo "left: $odd" && failed=1; }
account || failed=1
exit $failed
