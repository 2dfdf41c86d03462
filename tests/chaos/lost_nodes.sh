#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lost_nodes.sh [LOSSES [CASE]...]: does a step survive the loss of its nodes?
#
# Each CASE (spare, zero, fewer, leader, both, keeper, return, reset, stepd,
# halves, three; all by default) trains undisturbed, and then LOSSES times (3), each on a new
# cluster of 4 nodes, while a node is lost at a random moment:
#
#     spare   a node with ranks loses power, a spare takes its place, in ddp
#     zero    the same in zero2
#     fewer   the same without a spare
#     leader  the node of the leader loses power, with a spare
#     both    the leader's node loses power, and soon after it the next leader's
#     keeper  a keeper is killed, with a spare
#     return  a node loses power, and comes back when it is out of the job
#     reset   a node loses power, and is back after 3 s, before Slurm or keepers
#             have missed it; in a batch job that may start another step
#     stepd   slurmstepd is killed: the ranks are not, but srun waits for it
#     halves  two nodes and two do not hear each other
#     three   three nodes do not hear the leader
#
# Prints for each case how many runs have gone on and ended well, how many have the final
# bits of the undisturbed run, how often both halves have gone on, and the
# seconds from a loss until the ranks are back at work. Needs root and Slurm
# (contrib/devcluster); DT_BUILDDIR is the build.
set -u

here=$(cd "$(dirname "$0")" && pwd)
losses=${1:-3}
shift
(($# > 0)) || set -- spare zero fewer leader both keeper return reset stepd \
    halves three
work=$(mktemp -d /tmp/disttrain-nodes.XXXXXX)
cluster=nodes$$
devcluster() {
    DT_BUILDDIR=${DT_BUILDDIR:-$here/../..} \
        "$here/../../contrib/devcluster" "$1" --name "$cluster" "${@:2}"
}
# run WORD...: on the head; run_on NODE WORD...
run() {
    devcluster run --user root timeout 300 "$@"
}
run_on() {
    devcluster run --user root --node "$1" timeout 300 "${@:2}"
}
trap 'devcluster down 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit
cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >text
export OMP_NUM_THREADS=1

# config CASE NAME: writes NAME.yaml.
config() {
    local strategy=ddp launch="nodes: 2, ntasks_per_node: 2, spares: 1"
    case $1 in
    zero) strategy=zero2 ;;
    fewer) launch="nodes: 2, ntasks_per_node: 2, min_ranks: 2" ;;
    halves | three) launch="nodes: 4, ntasks_per_node: 1, min_ranks: 2" ;;
    both) launch="nodes: 2, ntasks_per_node: 2, spares: 2" ;;
    reset) launch+=", max_restarts: 3" ;;
    esac
    cat >"$2.yaml" <<END
algorithm: sft
run: {name: $2, output_dir: $2.out, overwrite: true}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
training: {train_batch_size: 8, max_steps: ${STEPS:-800}}
optimizer: {lr: 1.0e-3}
checkpoint: {steps: 50, total_limit: 2}
logging: {steps: 1}
distributed: {strategy: $strategy}
launch: {$launch}
END
}

# lose CASE: what happens to a node.
lose() {
    local one other side="1 2" rest="3 4"
    [[ $1 != three ]] || { side=1 rest="2 3 4"; }
    case $1 in
    leader) devcluster kill n1 ;;
    both)
        devcluster kill n1
        sleep "$((RANDOM % 8)).$((RANDOM % 10))"
        devcluster kill n2
        ;;
    keeper) run_on "n$((RANDOM % 2 + 1))" pkill -KILL -n -x disttrain-keep ;;
    halves | three)
        for one in $side; do
            for other in $rest; do
                run_on "n$one" ip route add blackhole "10.11.12.$other"
                run_on "n$other" ip route add blackhole "10.11.12.$one"
            done
        done
        ;;
    stepd) run_on n2 pkill -KILL -x slurmstepd ;;
    *) devcluster kill n2 ;;
    esac
    if [[ $1 == reset ]]; then
        sleep 3
        devcluster boot n2
    fi
    [[ $1 == return ]] || return 0
    until [[ $(run squeue --noheader --format=%N) == "n[1,3]" ]]; do
        kill -0 "$srun" 2>/dev/null || return 0
        sleep 0.1
    done
    devcluster boot n2
}

# train CASE NAME: runs it, with its output in NAME.log.
train() {
    local words=(srun --quiet "--disttrain=$2.yaml") log=$2.log
    if [[ $1 == reset ]]; then
        words=("$DT_BUILDDIR/disttrain" sbatch --submit "$2.yaml" --
            --wait "--output=$2.log")
        log=/dev/null
    fi
    run "${words[@]}" >"$log" 2>&1
}

# The line that says that ranks start again.
again="all ranks start again|exit status [0-9]+: restart"

# await_work: prints the seconds since $at until a step after that line.
await_work() {
    until awk -v again="$again" '$0 ~ again { n++ } /^step / && n { found = 1 }
        END { exit !found }' hit.log; do
        kill -0 "$srun" 2>/dev/null || return
        sleep 0.02
    done
    awk -v at="$at" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.1f", now - at }'
}

same_bits() {
    local file
    for file in whole.out/checkpoints/latest/*.safetensors; do
        cmp -s "$file" "hit${file#whole}" || return
    done
}

printf '%-8s %6s %6s %6s %6s  %s\n' case runs good bits both \
    "s from a loss until ranks are back at work: median, most"
failed=0
for case; do
    config "$case" whole
    config "$case" hit
    devcluster up --nodes 4 --cpus 2 >/dev/null || exit
    train "$case" whole || { tail -n 5 whole.log && failed=1; }
    good=0 bits=0 both=0 times=()
    for ((i = 0; i < losses; i++)); do
        devcluster down
        devcluster up --nodes 4 --cpus 2 --conf SlurmdTimeout=100 \
            --conf KillWait=1 >/dev/null || exit
        rm -rf hit.out hit.log
        train "$case" hit &
        srun=$!
        until grep -qs "^step " hit.log || ! kill -0 $srun 2>/dev/null; do
            sleep 0.05
        done
        sleep "0.$((RANDOM % 9))"
        at=$EPOCHREALTIME
        lose "$case"
        times+=("$(await_work)")
        status=0
        wait $srun || status=$?
        restarts=$(grep -cE "$again" hit.log)
        ((status == 0)) && [[ $restarts != 0 || $case == stepd ]] &&
            good=$((good + 1))
        ((restarts > 1)) && [[ $case != both ]] && both=$((both + 1))
        same_bits && bits=$((bits + 1))
    done
    devcluster down
    mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
    printf '%-8s %6d %6d %6d %6d  %s %s\n' "$case" "$losses" $good $bits $both \
        "${sorted[${#sorted[@]} / 2]:-}" "${sorted[-1]:-}"
    ((good == losses && both == 0)) || { failed=1 && tail -n 15 hit.log; }
done
exit $failed
