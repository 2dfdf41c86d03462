#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# rlhf.bats - contrib/rlhf, from examples to a policy that a reward model likes

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-rlhf.XXXXXX)
    export WORK OMP_NUM_THREADS=1
}

teardown_file() {
    rm -rf "$WORK"
}

# number KEY LINE: of the line of the policy's metrics.
number() {
    sed -n "$2s,.*\"$1\": \([-+.e0-9]*\).*,\1,p" "$WORK/all/ppo/logs/metrics.jsonl"
}

@test "a policy scores more than two standard deviations higher, near its start" {
    UPDATES=30 run -0 "$DT_SRCDIR/contrib/rlhf" "$WORK/all"
    echo "$output"
    [[ ${lines[-2]} == "before "* && ${lines[-1]} == "after "* ]]
    [[ $output == *"model.value_path: $WORK/all/rm: its newest checkpoint is "* ]]
    [[ $output == *$'\nreward -'*" -> "*", objective/kl "* ]]
    local before after _
    read -r _ before _ <<<"${lines[-2]}"
    read -r _ after _ <<<"${lines[-1]}"
    awk -v before="$before" -v after="$after" \
        -v std="$(number rewards/rm/std 1)" -v kl="$(number objective/kl '$')" '
        BEGIN { print before, after, std, kl
                exit !(std > 0 && after > before + 2 * std && kl < 10) }'
}

@test "the critic of a policy is a model that scores texts" {
    "$DT_BUILDDIR/disttrain" generate \
        --model "$WORK/all/ppo/checkpoints/latest/critic" \
        --score "$WORK/all/ppo.words" >"$WORK/scores"
    (($(wc -l <"$WORK/scores") == 200))
}
