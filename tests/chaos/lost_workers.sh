#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lost_workers.sh [KILLS [CASE]...]: does a run survive the loss of its ranks?
#
# LOST=keepers kills the keepers of ranks, in a batch job that may restart steps;
# LOST=workers, the default, the ranks themselves, in a step of srun.
# Each CASE (ddp, zero3, hybrid, lora, ppo, with a critic, grpo, follow, a
# reference that follows; all by default) trains undisturbed, and then again
# while processes, one of 4 on 2 nodes at a time, are killed at random moments,
# KILLS times (20). Prints for each case how many were killed,
# whether losses and final bits are those of the undisturbed run, and the
# seconds from a kill to the next step. Needs root and Slurm
# (contrib/devcluster); DT_BUILDDIR is the build.
set -u

here=$(cd "$(dirname "$0")" && pwd)
kills=${1:-20} lost=${LOST:-workers}
shift
(($# > 0)) || set -- ddp zero3 hybrid lora ppo grpo follow
work=$(mktemp -d /tmp/disttrain-lost.XXXXXX)
cluster=lost$$
devcluster() {
    DT_BUILDDIR=${DT_BUILDDIR:-$here/../..} \
        "$here/../../contrib/devcluster" "$1" --name "$cluster" "${@:2}"
}
trap 'devcluster down; rm -rf "$work"' EXIT
devcluster up --nodes 2 --cpus 2 >/dev/null || exit
cd "$work" || exit
cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >text
export OMP_NUM_THREADS=1

# config CASE NAME: writes NAME.yaml.
config() {
    local model="{n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}"
    local algorithm=sft data="{train: text, max_length: 32}" more="" evals=""
    case $1 in
    ddp)
        data="{train: text, eval: text, max_length: 32}"
        evals=", eval_strategy: steps, eval_steps: 20"
        ;;
    zero3) more="distributed: {strategy: zero3, shard_group: world}" ;;
    hybrid) more="distributed: {strategy: zero3, shard_group: node}" ;;
    lora) model="{path: base}" more="adapter: {type: lora, r: 4}" ;;
    ppo)
        algorithm=ppo
        more="ppo: {epochs: 2, num_mini_batches: 2}"
        ;;
    grpo)
        algorithm=grpo
        more="grpo: {num_generations: 4, num_iterations: 2}"
        ;;
    follow)
        algorithm=grpo
        more="grpo: {num_generations: 4, beta: 0.1,
  sync_ref: {enabled: true, alpha: 0.5, steps: 2}}"
        ;;
    esac
    if [[ $algorithm != sft ]]; then
        data="{train: prompts.jsonl, max_length: 32, max_prompt_length: 16}"
        more+="
rollout: {max_completion_length: 8}
reward: {functions: [{type: length, shape: target, tokens: 4}]}"
    fi
    cat >"$2.yaml" <<END
algorithm: $algorithm
run: {name: $2, output_dir: $2.out, overwrite: true}
model: $model
data: $data
training: {train_batch_size: 8, max_steps: ${STEPS:-$((120 * kills + 100))}$evals}
optimizer: {lr: 1.0e-3}
checkpoint: {steps: 5, total_limit: 2}
logging: {steps: 1}
launch: {max_worker_restarts: 20, max_restarts: 1000, nodes: 2, ntasks_per_node: 2}
$more
END
}

train() {
    rm -f "$1.log" # a batch job appends
    if [[ $lost == keepers ]]; then
        devcluster run --user root timeout 900 "$DT_BUILDDIR/disttrain" sbatch \
            --submit "$1.yaml" -- --wait --output="$1.log" >/dev/null 2>&1
    else
        devcluster run --user root timeout 600 srun --quiet -N2 \
            --ntasks-per-node=2 --overcommit --disttrain="$1.yaml" \
            >"$1.log" 2>&1
    fi
}

# Prints the processes here that are to be killed; a rank is the child of a
# keeper, which has its own name only once it has begun.
victims() {
    local name=disttrain pid parent
    [[ $lost != keepers ]] || name=disttrain-keep
    for pid in $(pgrep -x "$name"); do
        parent=$(ps -o ppid= -p "$pid")
        [[ /proc/$pid/cwd -ef $work ]] &&
            grep -qz '^SLURM_PROCID=' "/proc/$pid/environ" &&
            [[ $lost == keepers ||
                $(<"/proc/${parent// /}/comm") == disttrain-keep ]] &&
            echo "$pid"
    done 2>/dev/null
}

# The line that says that ranks start again.
case $lost in
keepers) restart="disttrain: exit status [0-9]*: restart" ;;
*) restart="start again" ;;
esac

# Counts the lines of the log that match.
count() {
    local lines
    lines=$(grep -c "$1" "$2")
    echo "${lines:-0}"
}

# kill_one LOG: kills one of them; prints the seconds until the next step.
kill_one() {
    local pids before begin now
    mapfile -t pids < <(victims)
    ((${#pids[@]} > 0)) || return
    before=$(count "$restart" "$1")
    begin=${EPOCHREALTIME/./}
    kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null || return
    while kill -0 "$srun" 2>/dev/null; do
        now=${EPOCHREALTIME/./}
        if awk -v before="$before" -v restart="$restart" '
            $0 ~ restart { restarts++ }
            /^step / && restarts > before { found = 1 }
            END { exit !found }' "$1"; then
            echo $(((now - begin) / 1000))
            return
        fi
        ((now - begin < 60000000)) || { echo "60000" && return; }
        sleep 0.02
    done
}

losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

same_bits() {
    local file
    while read -r file; do
        cmp -s "$file" "$2${file#"$1"}" || return
    done < <(find -L "$1".out/checkpoints/latest -name '*.safetensors')
}

# The model of lora, and the prompts of ppo, grpo and follow.
STEPS=20 config ddp base
train base || { tail -n 5 base.log && exit 1; }
cp -rL base.out/checkpoints/latest base
for i in {1..40}; do
    echo "{\"prompt\": \"line $i \"}"
done >prompts.jsonl

printf '%-8s %6s %9s %7s %6s  %s\n' case kills restarts losses bits \
    "ms from a kill to the next step: median, most"
failed=0
for case; do
    config "$case" whole
    config "$case" hit
    train whole || { tail -n 5 whole.log && failed=1 && continue; }
    train hit &
    srun=$!
    times=()
    while ((${#times[@]} < kills)) && kill -0 "$srun" 2>/dev/null; do
        sleep 0.$((RANDOM % 9))
        ms=$(kill_one hit.log)
        [[ -z $ms ]] || times+=("$ms")
    done
    wait "$srun"
    status=$?
    losses=$(cmp -s <(losses whole) <(losses hit) && echo same || echo DIFFER)
    bits=$(same_bits whole hit && echo same || echo DIFFER)
    [[ $status == 0 && $losses$bits == samesame && ${#times[@]} == "$kills" ]] ||
        failed=1
    mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
    printf '%-8s %6d %9d %7s %6s  %s %s\n' "$case" ${#times[@]} \
        "$(count "$restart" hit.log)" "$losses" "$bits" \
        "${sorted[${#sorted[@]} / 2]:-}" "${sorted[-1]:-}"
    ((status == 0)) || tail -n 15 hit.log
    rm -rf whole.out hit.out
done
exit $failed
