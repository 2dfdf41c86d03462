#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# cli.bats - the command line of disttrain, and runs without any launcher

bats_require_minimum_version 1.5.0

load helpers

commands=(train check plan sbatch prepare generate export doctor info)

disttrain() {
    timeout 60 "$DT_BUILDDIR/disttrain" "$@"
}

@test "threads that wait sleep soon, unless the environment says how long" {
    local show=(env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose OMP_NUM_THREADS=2)
    run -0 "${show[@]}" "$DT_BUILDDIR/disttrain" train --help
    [[ $output == *GOMP_SPINCOUNT* ]] || skip "not GCC's OpenMP"
    [[ ${output##*GOMP_SPINCOUNT = } == "'1000'"* ]]
    run -0 "${show[@]}" OMP_WAIT_POLICY=passive \
        "$DT_BUILDDIR/disttrain" train --help
    [[ $output != *"'1000'"* ]]
}

@test "no command: the usage, exit status 64" {
    run -64 --separate-stderr disttrain
    [[ -z $output ]]
    [[ $stderr == "usage: disttrain COMMAND"* ]]
}

@test "an unknown command: the nearest one, exit status 64" {
    run -64 disttrain trian
    [[ ${lines[0]} == "disttrain: no command 'trian'; did you mean 'train'?" ]]
    [[ ${lines[1]} == "usage: disttrain COMMAND"* ]]
    run -64 disttrain --frobnicate
    [[ ${lines[0]} == "disttrain: no command '--frobnicate'" ]]
    run -64 disttrain reward serve rewards.yaml --listen unix:socket
    [[ ${lines[0]} == "disttrain: no command 'reward'; a program of type command answers other programs, too: start it there, see Rewards in disttrain.yaml(5)" ]]
}

@test "--help of the program and of each command, --version" {
    local command option
    run -0 disttrain --help
    for command in "${commands[@]}"; do
        [[ $output == *"  $command "* ]]
    done
    for command in "${commands[@]}"; do
        for option in --help -h; do
            run -0 disttrain "$command" "$option"
            [[ ${lines[0]} == "usage: disttrain $command"* ]]
        done
    done
    run -0 disttrain --version
    [[ $output =~ ^disttrain\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "unknown options and extra words: one line, exit status 64" {
    local command
    for command in "${commands[@]}"; do
        run -64 disttrain "$command" --frobnicate
        [[ $output == "disttrain $command: unknown option '--frobnicate' (see \
disttrain $command --help)" ]]
    done
    run -64 disttrain train a.yaml b.yaml
    [[ $output == "disttrain train: expected one FILE, but got 'b.yaml' too"* ]]
    run -64 disttrain train
    [[ $output == "disttrain train: expected a configuration FILE"* ]]
    run -64 disttrain info now
    [[ $output == "disttrain info: unexpected 'now'"* ]]
}

@test "info names the libraries" {
    run -0 disttrain info
    [[ ${lines[0]} == "disttrain "* ]]
    local what
    for what in start-up collectives matmul "vector code" \
        tokenizers configuration CUDA; do
        grep -q "^$what: *[^ ]" <<<"$output"
    done
}

@test "a world of one trains, and refuses to overwrite its output" {
    cd "$BATS_TEST_TMPDIR"
    cat >one.yaml <<'END'
algorithm: sft
run: {name: one}
model: {n_positions: 16, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: /usr/share/common-licenses/GPL-2, max_length: 16}
training: {train_batch_size: 8, max_steps: 3}
optimizer: {lr: 1.0e-2}
END
    run -0 disttrain train one.yaml
    [[ $output == *"8 rows per rank x 1 rank"*"step 3/3  loss "* ]]
    run -0 disttrain generate --model outputs/one/checkpoints/latest \
        --prompt "The " --max-tokens 8
    [[ $output == "The "* ]]
    run -0 disttrain export outputs/one one --dtype bf16
    [[ $output == "one: "*" parameters in bf16, from "*"/checkpoint-3" ]]
    run -0 ls one
    [[ $output == $'config.json\nmodel.safetensors' ]]
    run -0 disttrain generate --model one --prompt "The " --max-tokens 8
    [[ $output == "The "* ]]
    run -73 disttrain train one.yaml
    [[ $output == *"run.output_dir is not empty; set training.resume: auto"* ]]
    sed -i 's/max_steps: 3/max_steps: 3, resume: auto/' one.yaml
    run -0 disttrain train one.yaml
    [[ $output == *"resuming from "*"/checkpoint-3"* ]]
}

# model RATE: trains one step with this learning rate, into outputs/lrRATE.
model() {
    cat >"lr$1.yaml" <<END
algorithm: sft
run: {name: lr$1}
model: {n_positions: 16, n_embd: 8, n_layer: 1, n_head: 1}
data: {train: /usr/share/common-licenses/GPL-2, max_length: 16}
training: {train_batch_size: 8, max_steps: 1}
optimizer: {lr: $1}
END
    disttrain train "lr$1.yaml"
}

# Renaming is the decisive step; the sync after it may fail, too.
@test "an export that fails or is killed keeps the existing model" {
    cd "$BATS_TEST_TMPDIR"
    disttrain info | grep -q 'fault injection: on' ||
        skip "configured without --enable-fault-injection"
    model 1
    model 2
    disttrain export outputs/lr1 out
    disttrain export outputs/lr2 new --max-shard-size 2KB
    local old new now point action nth status
    old=$(cd out && sha256sum ./*)
    new=$(cd new && sha256sum ./*)
    for point in ckpt.write ckpt.fsync ckpt.rename; do
        for action in error kill; do
            for nth in {1..30}; do
                status=0
                DISTTRAIN_FAULT=$point:nth=$nth:$action disttrain export \
                    outputs/lr2 out --overwrite --max-shard-size 2KB \
                    2>errors || status=$?
                ((status != 0)) || break
                [[ $action == kill || $(<errors) == "disttrain: "*out* ]]
                now=$(cd out && sha256sum ./*)
                [[ $now == "$old" || ($point == ckpt.fsync && $now == "$new") ]]
                [[ $action == kill || ! -e .tmp-out ]]
            done
            ((status == 0 && nth > 1))
            disttrain export outputs/lr1 out --overwrite
            [[ $(cd out && sha256sum ./*) == "$old" && ! -e .tmp-out ]]
        done
    done
}

@test "all mistakes in a configuration are printed, exit status 78" {
    cd "$BATS_TEST_TMPDIR"
    printf 'algorithm: sft\nmodel: {n_embed: 16}\ndata: {train: none}\n' >x.yaml
    run -78 disttrain train x.yaml
    [[ $output == *"x.yaml:2:9: model.n_embed: unknown key; did you mean "* ]]
    [[ $output == *"x.yaml:3:15: data.train: "*"none: No such file"* ]]
}

# A handler on a thread in a matrix multiplication of oneDNN 2.6 crashed in a
# third of the runs of this size.
@test "a signal at any moment: a checkpoint, exit status 75" {
    cd "$BATS_TEST_TMPDIR"
    cat >usr.yaml <<'END'
algorithm: sft
run: {name: usr, overwrite: true}
model: {n_positions: 256, n_embd: 64, n_layer: 2, n_head: 2}
data: {train: /usr/share/common-licenses/GPL-2, max_length: 256}
training: {train_batch_size: 8, max_steps: 1000000}
checkpoint: {strategy: no}
END
    export OMP_NUM_THREADS=1
    local try status signals=(USR1 INT TERM USR1 INT TERM)
    for try in 1 2 3 4 5 6; do
        dt_background log "$DT_BUILDDIR/disttrain" train usr.yaml
        dt_wait_for 60 dt_lines 1 'step 1/' log
        sleep "0.$try"
        kill -"${signals[try - 1]}" $!
        dt_wait_for 60 eval "! kill -0 $! 2>&-" || kill -KILL $!
        status=0
        wait $! || status=$?
        cat log
        ((status == 75))
        [[ -e outputs/usr/checkpoints/latest/model.safetensors ]]
        rm -r outputs
    done
}

# Who ignores SIGCHLD is not told how its children end, and hands that on.
@test "a parent that ignores SIGCHLD hides no failure of a child" {
    cd "$BATS_TEST_TMPDIR"
    mkdir bin
    printf '#!/bin/sh\ncat >/dev/null\nexit 3\n' >bin/sbatch
    chmod 755 bin/sbatch
    printf 'launch: {nodes: 1, command: [true]}\n' >x.yaml
    run -3 env --ignore-signal=CHLD PATH="$PWD/bin:$PATH" \
        "$DT_BUILDDIR/disttrain" sbatch --submit x.yaml
}
