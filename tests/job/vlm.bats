#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# vlm.bats - contrib/vlm, from a tower and a language model to answers

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-vlm.XXXXXX)
    export WORK OMP_NUM_THREADS=1
}

teardown_file() {
    rm -rf "$WORK"
}

@test "a model that is made of two is trained in stages, and answers questions" {
    PICTURES=600 STEPS=60 run -0 "$DT_SRCDIR/contrib/vlm" "$WORK/all"
    echo "$output"
    [[ $output == *"/pretrain/composed: made of the tower of $WORK/all/tower and the language model of $WORK/all/text/"* ]]
    [[ $output == *"done: 120 steps"*"done: 60 steps"* ]]
    [[ ${lines[-1]} =~ ^"right answers about new pictures: color "([0-9]+)\.[0-9]" %, shape "[0-9.]+" %"$ ]]
    ((BASH_REMATCH[1] >= 60)) # of four colors by chance: 25
}

@test "pictures are drawn and answers asked for the same way each time" {
    grep -c circle "$WORK/all/test.captions.jsonl"
    (($(wc -l <"$WORK/all/answers.jsonl") == 400))
    (cd "$WORK/all" && cat test/*.png test.*.jsonl) | cksum >"$WORK/sum"
    # shellcheck disable=SC1090
    (cd "$WORK" && source <(sed -n '/^pictures() {/,/^}/p' "$DT_SRCDIR/contrib/vlm") &&
        pictures test 1000000 200 && cat test/*.png test.*.jsonl) | cksum |
        cmp - "$WORK/sum"
}

# raised LINE: whether a rule's reward has become larger, by more than chance.
raised() {
    [[ $1 =~ ^"reward by the rule: 0."([0-9]+)" at first, 0."([0-9]+)" at the end"$ ]]
    ((10#${BASH_REMATCH[2]} >= 10#${BASH_REMATCH[1]} + 5))
}

@test "--align trains on pairs of its answers, and with a rule alone" {
    run -1 "$DT_SRCDIR/contrib/vlm" "$WORK/none" --align
    [[ $output == "vlm: $WORK/none: first vlm $WORK/none" ]]
    STEPS=160 run -0 "$DT_SRCDIR/contrib/vlm" "$WORK/all" --align
    echo "$output"
    [[ $output == *"rm: llava, "*"dpo: llava, "* ]]
    [[ $output =~ "preferred by the reward model: "([0-9]+)\.[0-9]" %, by dpo: "([0-9]+)\.[0-9]" %" ]]
    ((BASH_REMATCH[1] >= 60 && BASH_REMATCH[2] >= 60)) # by chance: 50
    raised "${lines[-1]}"
}

@test "two ranks learn from a rule as one does, with equal tokens" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    cd "$WORK/all"
    mv grpo alone
    mpirun --allow-run-as-root --oversubscribe -n 2 "$DT_BUILDDIR/disttrain" \
        train grpo.yaml >two.log || { cat two.log && return 1; }
    # shellcheck disable=SC1090
    source <(sed -n '/^reward() {/,/^}/p' "$DT_SRCDIR/contrib/vlm")
    raised "reward by the rule: $(reward grpo)"
    local key='s/.*"completions\/mean_length": \([0-9.]*\).*/\1/p'
    diff <(sed -n "$key" alone/logs/metrics.jsonl | head -n 1) \
        <(sed -n "$key" grpo/logs/metrics.jsonl | head -n 1)
}
