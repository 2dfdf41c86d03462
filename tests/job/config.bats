#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# config.bats - srun --disttrain with the real runtime: a config with a mistake
# is refused with its message and nothing is queued; a good one reaches tasks

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-config.XXXXXX)
    export WORK
    mkdir "$WORK/sub"
    echo "some text to learn" >"$WORK/train.txt"
    cat >"$WORK/good.yaml" <<'END'
algorithm: sft
model: {n_positions: 8, n_embd: 8, n_layer: 1, n_head: 2}
data: {train: train.txt, max_length: 8}
training: {per_device_batch_size: 1, max_steps: 1}
END
    dt_cluster_up --nodes 2 --cpus 2
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
}

# next_job: the id that the next job will get.
next_job() {
    dt_run scontrol show config | grep NEXT_JOB_ID
}

# refused FILE MESSAGE: srun prints exactly that, exits with 1, queues nothing.
refused() {
    local before
    before=$(next_job)
    run -1 dt_srun -N2 -n2 --disttrain="$1"
    diff <(echo "$output") - <<END
$2
srun: error: disttrain: $1: nothing is submitted
END
    [[ $(next_job) == "$before" ]]
}

# refused_line LINE MESSAGE: the same for good.yaml with LINE added as the
# fifth.
refused_line() {
    { cat good.yaml && printf '%b\n' "$1"; } >bad.yaml
    refused bad.yaml "bad.yaml:$2"
}

# refused_edit SED-SCRIPT MESSAGE: the same for good.yaml after this edit.
refused_edit() {
    sed "$1" good.yaml >bad.yaml
    refused bad.yaml "bad.yaml:$2"
}

@test "an unknown key, with the nearest known one" {
    refused_line 'optimizer: {learning_rat: 1}' \
        '5:13: optimizer.learning_rat: unknown key; did you mean optimizer.learning_rate?'
}

@test "an unknown section" {
    refused_line 'optimiser: {lr: 1}' \
        '5:1: optimiser: unknown key; did you mean optimizer?'
}

@test "a word where a number belongs" {
    refused_line 'optimizer: {lr: fast}' \
        '5:17: optimizer.lr: expected a number > 0, got "fast"'
}

@test "a number out of range" {
    refused_line 'optimizer: {lr: -1}' \
        '5:17: optimizer.lr: expected a number > 0, got -1'
}

@test "a list with a bad element" {
    refused_line 'optimizer: {betas: [0.9, 1.5]}' \
        '5:26: optimizer.betas: expected a list of two numbers in [0, 1), got 1.5'
}

@test "a key given twice" {
    refused_line 'training: {epochs: 1}' \
        '5:1: training: given twice in one section, first in line 4'
}

@test "a required key is missing" {
    refused_edit '/^algorithm/d' \
        '1:1: algorithm: required: write algorithm: sft, rm, dpo, ppo or grpo'
}

@test "a key that is not supported yet" {
    refused_line 'lora: {r: 8}' \
        '5:1: lora: not supported yet: it needs another name: write adapter: {type: lora, r: 8}'
}

@test "two keys that contradict each other" {
    refused_edit 's/n_head: 2/n_head: 3/' \
        '2:56: model.n_head: n_embd 8 is not a multiple of n_head 3'
}

@test "a mistake in a DeepSpeed file, at its place there" {
    printf '%s\n' '{"bf16": {"enabled": true}, "gradient_clipping": 1.0,' \
        ' "optimizer": {"type": "Lion", "params": {"lr": 1e-5}},' \
        ' "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}' >ds.json
    { cat good.yaml && echo 'deepspeed: ds.json'; } >bad.yaml
    refused bad.yaml 'ds.json:2:24: optimizer.name: expected one of adamw, adamw_torch, adamw_torch_fused, adamw_hf, adam, got "Lion"'
}

@test "a tab that indents" {
    refused_line 'run:\n\tname: x' \
        '6:1: YAML: a tab cannot indent, use spaces'
}

@test "a bracket that is not closed" {
    refused_line 'run: {name: x' \
        "6:1: YAML: did not find expected ',' or '}' while parsing a flow mapping in line 5"
}

@test "a name that no environment variable can have" {
    refused_line 'env: {1A: x}' '5:7: env.1A: not a name of a variable'
}

@test "an empty file" {
    : >bad.yaml
    refused bad.yaml "bad.yaml:1:1: the file is empty"
}

@test "bytes that are not UTF-8" {
    refused_line 'run: {name: caf\xe9}' \
        '5:17: not UTF-8: invalid trailing UTF-8 octet'
}

@test "all mistakes of a file at once" {
    refused_line 'resum: auto\nevel: 3\noptimizer: {lr: fast}' \
        '5:1: resum: unknown key; did you mean resume?
bad.yaml:6:1: evel: unknown key
bad.yaml:7:17: optimizer.lr: expected a number > 0, got "fast"'
}

@test "a missing file, a directory, a pipe" {
    refused nosuch.yaml "nosuch.yaml: cannot open: No such file or directory"
    refused sub "sub: not a regular file"
    mkfifo pipe
    refused pipe "pipe: not a regular file"
}

@test "env: reaches the tasks, whatever is in the values" {
    cat good.yaml - >env.yaml <<'END'
env: {A: "two words", B: "back\\slash and\nnew line", C: 3, D: ""}
END
    run -0 dt_srun --disttrain=env.yaml \
        sh -c 'printf "<%s>\n" "$A" "$B" "$C" "${D-unset}"'
    [[ $output == '<two words>
<back\slash and
new line>
<3>
<>' ]]
}

@test "tasks find the config by its absolute path" {
    cd sub
    run -0 dt_srun -N2 -n2 --disttrain=../good.yaml \
        sh -c 'cd / && head -n1 "$SLURM_DISTTRAIN_CONFIG"'
    [[ $output == $'algorithm: sft\nalgorithm: sft' ]]
}

@test "a forgotten value is named" {
    run -1 dt_run srun --disttrain -N2 hostname
    [[ $output == "srun: error: disttrain: --disttrain needs a value: FILE.yaml \
or env; here it is followed by -N2" ]]
    run -1 dt_run sbatch --disttrain --wrap=hostname
    [[ $output == "sbatch: error: disttrain: --disttrain needs a value: \
FILE.yaml or env; here it is followed by --wrap=hostname" ]]
}

@test "sbatch and salloc refuse a size that differs from the file's" {
    printf 'launch:\n  nodes: 2\n' >two.yaml
    printf '#!/bin/sh\n#SBATCH -N3\ntrue\n' >three.sh
    local says="two.yaml:2:10: launch.nodes: 2 nodes, but this job has 3"
    run -1 dt_run sbatch --disttrain=two.yaml three.sh
    [[ $output == "$says"$'\nsbatch: error: disttrain: two.yaml: nothing is submitted' ]]
    run -1 dt_run sbatch -N3 --disttrain=two.yaml --wrap=true
    [[ $output == "$says"* ]]
    run -1 dt_run salloc -N3 --disttrain=two.yaml true
    [[ $output == "$says"* ]]
    run -0 dt_run sbatch --disttrain=two.yaml -o /dev/null -N2 three.sh
}

@test "srun names a file that was edited while its job waited" {
    local file
    file=$(pwd)/waiting.yaml
    local says="disttrain: warning: $file has changed since the job was \
submitted: this step uses it as it is now"
    printf 'launch:\n  nodes: 1\n' >waiting.yaml
    printf '#!/bin/sh\n[ ! -e edit ] || echo "# mine" >>waiting.yaml\nsrun -Q true\n' >job.sh
    run -0 dt_run sbatch -Q --wait -N1 --disttrain=waiting.yaml -o out job.sh
    [[ $(<out) == "" ]]
    touch edit
    run -0 dt_run sbatch -Q --wait -N1 --disttrain=waiting.yaml -o out job.sh
    [[ $(<out) == "$says" ]]
    printf 'launch:\n  nodes: 1\n  command: [echo, done]\n' >waiting.yaml
    rm out
    run -0 dt_run "$DT_BUILDDIR/disttrain" sbatch --submit waiting.yaml -- \
        --hold --output=out
    echo "  ntasks_per_node: 1" >>waiting.yaml
    dt_run scontrol release "${output##* }"
    timeout 60 bash -c 'until grep -q ^done out; do sleep 0.1; done' 2>/dev/null
    [[ $(<out) == "$says"$'\n'done ]]
}

@test "sbatch's size is read as sbatch reads it" {
    printf 'launch:\n  nodes: 2\n' >two.yaml
    printf '#!/bin/sh\n \n  # x\n#SBATCH -N3\ntrue\n' >three.sh
    printf '#!/bin/sh\n#SBATCH -N3\n#SBATCH -N2\ntrue\n' >last.sh
    local says="two.yaml:2:10: launch.nodes: 2 nodes, but this job has 3"
    run -1 dt_run sbatch --wait --disttrain=two.yaml three.sh
    [[ $output == "$says"* ]]
    run -1 dt_run sbatch --disttrain=two.yaml <three.sh
    [[ $output == "$says"* ]]
    mkdir bin
    install -m 755 three.sh bin/found.sh
    run -1 dt_run env PATH="$PATH:$(pwd)/bin" sbatch --disttrain=two.yaml found.sh
    [[ $output == "$says"* ]]
    run -1 dt_run salloc --disttrain=two.yaml true
    [[ $output == "two.yaml:2:10: launch.nodes: 2 nodes, but this job asks for \
one: add --nodes=2"* ]]
    run -0 dt_run sbatch --hold --disttrain=two.yaml last.sh
    dt_run scancel "${output##* }"
}

@test "components of a batch job share a relative file, and what becomes of it" {
    local file
    file=$(pwd)/shared.yaml
    printf 'launch:\n  nodes: 1\n' >shared.yaml
    printf '#!/bin/sh\necho "# mine" >>shared.yaml\nsrun -Q true\n' >job.sh
    run -0 dt_run sbatch -Q --wait --disttrain=shared.yaml -N1 -o out : -N1 job.sh
    [[ $(<out) == "disttrain: warning: $file has changed since the job was \
submitted: this step uses it as it is now" ]]
}

@test "a word that was taken for a forgotten value is named" {
    run -1 dt_run srun --disttrain hostname -s
    [[ $output == *"disttrain: hostname: nothing is submitted; it is the value of \
--disttrain: write --disttrain=FILE.yaml or --disttrain=env before it" ]]
}
