#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# generate.bats - ranks that share a file of prompts

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-generate.XXXXXX)
    export WORK
    dt_cluster_up --nodes 3 --cpus 2
    [[ -z $DT_SKIP ]] || return 0
    cd "$WORK" || return
    cat >one.yaml <<'END_OF_FILE'
algorithm: sft
run: {name: one, output_dir: model}
model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: /usr/share/common-licenses/GPL-2, max_length: 16}
training: {train_batch_size: 8, max_steps: 1}
END_OF_FILE
    "$DT_BUILDDIR/disttrain" train one.yaml
    # with blank lines, which are no prompts, an uneven rest, and a line that
    # travels in pieces
    awk 'BEGIN { for (i = 0; i < 41; i++)
        printf "{\"prompt\":\"%d\",\"id\":%d}\n%s", i * i, i,
               i % 5 ? "" : "\n" }' >prompts.jsonl
    printf '{"prompt":"z","id":"%03000000d"}\n' 1 >>prompts.jsonl
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    dt_need_pmix
    cd "$WORK" || return
}

# generate RANKS WORD...: on as many nodes; rounds of 8 lines for each rank.
generate() {
    dt_srun --mpi=pmix -N"$1" -n"$1" --kill-on-bad-exit=0 \
        "$DT_BUILDDIR/disttrain" generate --model "$WORK/model" --batch 1 \
        --max-tokens 8 "${@:2}"
}

@test "any number of ranks prints the same lines" {
    "$DT_BUILDDIR/disttrain" generate --model model --prompts prompts.jsonl \
        --max-tokens 8 >alone
    (($(wc -l <alone) == 42))
    local ranks
    for ranks in 1 2 3; do
        generate "$ranks" --prompts "$WORK/prompts.jsonl" >shared
        cmp alone shared
    done
    # two prompts for three ranks, behind a byte order mark
    { printf '\xef\xbb\xbf' && sed 3q prompts.jsonl; } >few.jsonl
    generate 3 --prompts "$WORK/few.jsonl" >shared
    cmp <(sed 2q alone) shared
    : >none.jsonl
    run -0 generate 3 --prompts "$WORK/none.jsonl"
    [[ -z $output ]]
}

@test "one rank's malformed line ends all before anything is printed" {
    { sed 3q prompts.jsonl && echo '{"prompt": 3}'; } >bad.jsonl
    run -65 --separate-stderr generate 2 --prompts "$WORK/bad.jsonl"
    [[ -z $output ]]
    [[ $stderr == "disttrain: rank 0 of 2 on n1 failed: $WORK/bad.jsonl:4: \
expected an object with prompt or messages"* ]]
    (($(grep -c disttrain: <<<"$stderr") == 1))
}

@test "files that differ between the ranks are an error" {
    run -65 dt_srun --mpi=pmix -N2 -n2 --kill-on-bad-exit=0 sh -c "
        cd $WORK && head -\$((3 + SLURM_PROCID)) prompts.jsonl >my.\$SLURM_PROCID
        exec $DT_BUILDDIR/disttrain generate --model model --max-tokens 8 \
            --prompts my.\$SLURM_PROCID"
    [[ $output == *"has 2 prompts here, but between 2 and 3 on the ranks: is \
it the same file?"* ]]
}

@test "an output that is full ends all ranks" {
    run -74 dt_srun --mpi=pmix -N2 -n2 --kill-on-bad-exit=0 sh -c "
        exec $DT_BUILDDIR/disttrain generate --model $WORK/model \
            --max-tokens 8 --prompts $WORK/prompts.jsonl >/dev/full"
    [[ $output == *"rank 0 of 2 on n1 failed: cannot write: No space left"* ]]
}

@test "a killed rank ends the others, and whole lines are left" {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "configured without --enable-fault-injection"
    "$DT_BUILDDIR/disttrain" generate --model model --prompts prompts.jsonl \
        --max-tokens 8 >alone
    local status=0
    dt_run env \
        DISTTRAIN_FAULT=generate:rank=1:nth=2:kill \
        srun --quiet --mpi=pmix -N3 -n3 --kill-on-bad-exit=0 \
        "$DT_BUILDDIR/disttrain" generate --model "$WORK/model" --batch 1 \
        --max-tokens 8 --prompts "$WORK/prompts.jsonl" >begun 2>errors ||
        status=$?
    cat errors
    ((status != 0))
    grep -q "rank 0 of 3 on n1: .*rank 1 on n2" errors
    cmp <(sed 24q alone) begun # the first round
}

@test "one prompt needs one rank" {
    run -64 generate 2 --prompt a
    # after srun's line about rank 1, if that rank ended first
    [[ $output == *"disttrain: generate: only --prompts is shared by ranks, \
and there are 2: start one"* ]]
    run -0 generate 1 --prompt a
    [[ $output == a* ]]
}
