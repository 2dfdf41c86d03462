#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# completion.bats - what bash offers after `disttrain`

bats_require_minimum_version 1.5.0

load helpers

setup() {
    # shellcheck source=contrib/completions/disttrain
    source "$DT_SRCDIR/contrib/completions/disttrain"
    cd "$BATS_TEST_TMPDIR" || return
    touch a.yaml b.yml c.txt 'd e.yaml' g.jsonl h.json
    mkdir configs model
    touch configs/f.yaml
}

# Replaces compopt, which bash refuses outside of a completion.
compopt() {
    echo "$*" >"$BATS_TEST_TMPDIR/.compopt"
}

# offers LINE: what the completion of the last word of LINE offers. bash treats
# each "=" as a word, as here one between blanks.
offers() {
    read -ra COMP_WORDS <<<"$1"
    [[ $1 != *' ' ]] || COMP_WORDS+=('')
    COMP_WORDS[0]=$DT_BUILDDIR/disttrain
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _disttrain "${COMP_WORDS[0]}"
    printf '%s\n' "${COMPREPLY[@]}" | sort
}

# expect LINE WORD...: for LINE, exactly these words are offered.
expect() {
    diff <(printf '%s\n' "${@:2}" | sort) <(offers "$1")
}

@test "bash calls our function to complete disttrain" {
    [[ $(complete -p disttrain) == "complete -F _disttrain disttrain" ]]
}

@test "commands are those of disttrain --help" {
    local command
    expect "disttrain ch" check
    expect "disttrain --v" --version
    expect "disttrain nothing"
    while read -r command; do
        [[ $command == --* ]] || "$DT_BUILDDIR/disttrain" "$command" --help
    done < <(offers "disttrain ")
    run -0 offers "disttrain "
    [[ $output == *check* && $output == *train* && $output == *info* ]]
}

@test "options are those of the command" {
    expect "disttrain check --" --allocation --contract --explain --help --keys --outlives --resolved --set --world
    expect "disttrain check --re" --resolved
    expect "disttrain sbatch --a" --array=
    [[ $(<.compopt) == "-o nospace" ]]
    expect "disttrain info --model"
    expect "disttrain nothing --"
}

@test "an option's value is what the help says it is" {
    expect "disttrain generate --model " configs model
    expect "disttrain generate --model m" model
    expect "disttrain generate --prompts " g.jsonl h.json configs model
    expect "disttrain generate --dtype " bf16 fp16 fp32
    expect "disttrain generate --prompt "
    expect "disttrain export --dtype " bf16 fp16 fp32
    expect "disttrain export --dtype b" bf16
    expect "disttrain export --max-shard-size "
    expect "disttrain check --world "
    expect "disttrain plan --nodes "
    expect "disttrain plan --rates " a.yaml b.yml 'd e.yaml' configs model
    expect "disttrain check --explain run.o" run.output_dir run.overwrite
    expect "disttrain check --explain h." h.json
    expect "disttrain train --set optimizer.l" optimizer.lr=
    [[ $(<.compopt) == "-o nospace" ]]
    run -0 offers "disttrain check --explain "
    [[ $output == *launch.nodes* && $output == *optimizer.lr* ]]
    expect "disttrain sbatch --array ="
    expect "disttrain sbatch --array = 1"
}

@test "train, check, plan and sbatch take YAML files, also in directories" {
    for command in train check plan sbatch; do
        expect "disttrain $command " a.yaml b.yml 'd e.yaml' configs model
    done
    [[ $(<.compopt) == "-o filenames" ]] # folders get a slash, blanks a \
    expect "disttrain check --resolved a" a.yaml
    expect "disttrain train configs/" configs/f.yaml
    expect "disttrain info "
}

@test "export takes directories" {
    expect "disttrain export " configs model
    expect "disttrain export model c" configs
    expect "disttrain export --o" --overwrite
}

@test "prepare takes data files" {
    expect "disttrain prepare " c.txt g.jsonl h.json configs model
    expect "disttrain prepare --tokenizer " configs model
    expect "disttrain prepare --config " a.yaml b.yml 'd e.yaml' configs model
    expect "disttrain prepare --f" --format
    expect "disttrain prepare --format p" prompt_completion preference
    expect "disttrain report --o" --output
    expect "disttrain report --to " tensorboard
}

@test "a program that does not run offers nothing" {
    DT_BUILDDIR=/nowhere expect "disttrain "
    DT_BUILDDIR=/nowhere expect "disttrain check --"
}
