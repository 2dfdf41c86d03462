#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# learn.sh - what GRPO and PPO learn in minutes, on one rank and on two
#
# Usage: learn.sh [--steps N] [--keep DIR] [TASK]...
#
# larger: the larger one of two digits. A model that was trained on both as
#         answers gives it half of the time; GRPO rewards it for being right.
#         Share of right answers for pairs of digits that no run has seen.
# length: words of 11 letters, with their end 12 tokens, by a model whose words
#         have 1 to 16 letters. Lengths of the first and the last completions.
# rlhf:   contrib/rlhf: words that a reward model scores higher, by PPO. Mean
#         score of 200 words before and after, and the standard deviation of
#         the rewards and the KL divergence as metrics.jsonl has them.
#
# Trains with `disttrain` of $DT_BUILDDIR or of the PATH, one thread a rank, and
# prints a line for each task and number of ranks. --steps is how many GRPO
# takes, 200. Two ranks need mpirun.

set -euo pipefail

disttrain=${DT_BUILDDIR:+$DT_BUILDDIR/}disttrain
here=$(cd "$(dirname "$0")" && pwd)
STEPS=200
export OMP_NUM_THREADS=1

die() {
    printf 'learn.sh: %s\n' "$*" >&2
    exit 64
}

# launch RANKS COMMAND...
launch() {
    if (($1 == 1)); then
        "${@:2}"
    else
        mpirun --allow-run-as-root --oversubscribe -n "$@"
    fi
}

# lines TASK KIND COUNT: KIND is examples, prompts, or those that are held out.
lines() {
    awk -v task="$1" -v kind="$2" -v count="$3" '
    function next_random(n) { # of Park and Miller
        seed = seed * 16807 % 2147483647
        return int(seed / 7) % n
    }
    function word(letters,    text) {
        while (letters-- > 0)
            text = text substr("abcdefgh", 1 + next_random(8), 1)
        return text
    }
    BEGIN {
        seed = length(kind) * 7919 + 17
        while (made < count) {
            a = next_random(10)
            b = next_random(10)
            if (a == b || ((10 * a + b) % 7 == 0) != (kind == "held"))
                continue
            made++
            answer = a > b ? a : b
            example = task == "length" ? word(1 + next_random(16)) : \
                next_random(2) ? a : b
            printf "{\"prompt\": \"%s%d %s%d:\"", word(1), a, word(1), b
            if (kind == "examples")
                printf ", \"completion\": \"%s\"", example
            else
                printf ", \"answer\": \"%d\"", answer
            print "}"
        }
    }'
}

# config ALGORITHM BATCH STEPS [LINE]...: writes ALGORITHM.yaml.
config() {
    cat >"$1.yaml" <<END
algorithm: $1
run: {name: $1, output_dir: $1}
training: {train_batch_size: $2, max_steps: $3}
checkpoint: {strategy: steps, steps: 1000, total_limit: 1}
logging: {steps: 20}
END
    printf '%s\n' "${@:4}" >>"$1.yaml"
}

# answers MODEL TEMPERATURE: of the prompts that are held out.
answers() {
    "$disttrain" generate --model "$1" --prompts held.jsonl --max-tokens 20 \
        --batch 64 --temperature "$2"
}

# right MODEL TEMPERATURE: per cent of right answers.
right() {
    answers "$1" "$2" | awk -F '"' '
    { for (i = 2; i < NF; i += 2) value[$i] = $(i + 2)
      good += value["answer"] == value["completion"] }
    END { printf "%.1f %%", 100 * good / NR }'
}

# number FOLDER KEY LINE: of metrics.jsonl.
number() {
    sed -n "$3s,.*\"$2\": \([-+.e0-9]*\).*,\1,p" "$1/logs/metrics.jsonl"
}

# lengths LINE: of the completions of a generation.
lengths() {
    printf '%.2f tokens in the mean, %.2f to %.2f, a share of %.3f cut' \
        "$(number grpo completions/mean_terminated_length "$1")" \
        "$(number grpo completions/min_length "$1")" \
        "$(number grpo completions/max_length "$1")" \
        "$(number grpo completions/clipped_ratio "$1")"
}

# measure TASK MODEL LINE
measure() {
    if [[ $1 == larger ]]; then
        printf '%s greedy, %s sampled' "$(right "$2" 0)" "$(right "$2" 1)"
    else
        lengths "$3"
    fi
}

# try_grpo TASK RANKS: in a new directory.
try_grpo() {
    local reward='{type: exact}' start
    [[ $1 == larger ]] || reward='{type: length, shape: target, tokens: 12}'
    lines "$1" examples 4000 >examples.jsonl
    lines "$1" prompts 4000 >prompts.jsonl
    lines "$1" held 500 >held.jsonl
    config sft 64 400 \
        'model: {n_positions: 32, n_embd: 64, n_layer: 2, n_head: 4}' \
        'data: {train: examples.jsonl, max_length: 32}' \
        'optimizer.lr: 2.0e-3'
    config grpo 256 "$STEPS" 'model: {path: sft}' \
        'data: {train: prompts.jsonl, max_prompt_length: 8, max_length: 32}' \
        'rollout: {max_completion_length: 20}' \
        "reward.functions: [$reward]" \
        'optimizer.lr: 1.0e-3' 'scheduler.name: constant'
    launch "$2" "$disttrain" train sft.yaml >sft.log 2>&1
    start=$SECONDS
    launch "$2" "$disttrain" train grpo.yaml >grpo.log 2>&1
    printf '| %s | %d | %s | %s | %d steps, %d s |\n' "$1" "$2" \
        "$(measure "$1" sft 1)" "$(measure "$1" grpo '$')" "$STEPS" \
        $((SECONDS - start))
}

try_rlhf() {
    local start=$SECONDS
    (($1 == 1)) ||
        export LAUNCH="mpirun --allow-run-as-root --oversubscribe -n $1"
    "$here/../../contrib/rlhf" all >log 2>&1
    awk -v ranks="$1" -v std="$(number all/ppo rewards/rm/std 1)" \
        -v kl="$(number all/ppo objective/kl '$')" \
        -v seconds=$((SECONDS - start)) \
        -v explained="$(number all/ppo val/explained_variance '$')" '
    $1 == "before" { before = $2 }
    $1 == "after" { after = $2 }
    END { printf "| rlhf | %d | %.2f | %.2f: %.1f standard deviations, " \
          "KL %.1f nats, explained variance %.2f | %d s in all |\n", ranks,
          before, after, (after - before) / std, kl, explained, seconds }' log
}

keep=
while [[ ${1:-} == --* ]]; do
    case $1 in
    --steps) STEPS=${2:?} ;;
    --keep) keep=${2:?} ;;
    *) die "unknown option $1" ;;
    esac
    shift 2
done
work=${keep:-$(mktemp -d /tmp/disttrain-learn.XXXXXX)}
mkdir -p "$work"
[[ -n $keep ]] || trap 'rm -rf "$work"' EXIT

echo '| task | ranks | before | after | took |'
echo '|---|--:|---|---|---|'
(($# > 0)) || set -- larger length rlhf
for task; do
    for ranks in 1 2; do
        mkdir "$work/$task-$ranks"
        cd "$work/$task-$ranks"
        case $task in
        larger | length) try_grpo "$task" "$ranks" ;;
        rlhf) try_rlhf "$ranks" ;;
        *) die "unknown task $task" ;;
        esac
    done
done
