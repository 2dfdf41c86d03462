#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# plan.bats - what `disttrain plan` says is what a run takes

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-plan.XXXXXX)
    export WORK
    cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >"$WORK/text"
    dt_cluster_up --nodes 2 --cpus 2
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    dt_need_pmix
    cd "$WORK" || return
    export OMP_NUM_THREADS=1
}

# config NAME [LINE]...: writes NAME.yaml; LINEs come last.
config() {
    {
        cat <<END
algorithm: sft
run: {name: $1, output_dir: $1.out, overwrite: true}
data: {train: text, max_length: 64}
training: {per_device_batch_size: 2, max_steps: 1}
checkpoint: {strategy: "no", only_model: true}
END
        printf '%s\n' "${@:2}"
    } >"$1.yaml"
}

SMALL="model: {n_positions: 64, n_embd: 256, n_layer: 4, n_head: 4}"

# planned NAME [OPTION]...: the line that a run begins with, up to the total, as
# the plan of the strategy that is taken has it.
planned() {
    "$DT_BUILDDIR/disttrain" plan --json "${@:2}" "$1.yaml" | awk '
        function mb(bytes) { return sprintf("%.1f MB", bytes / 1e6) }
        /"taken"/ { taken = /true/ }
        taken && /"(weights|master|gradients|optimizer|activations)":/ ||
            taken && /"(tiles|batches|total|nvme)":/ {
            gsub(/[",:]/, "")
            bytes[$1] = $2
        }
        END {
            print "memory of a rank: weights " \
                mb(bytes["weights"] + bytes["master"]) ", gradients " \
                mb(bytes["gradients"]) ", optimizer " \
                mb(bytes["optimizer"] + bytes["tiles"]) ", activations " \
                mb(bytes["activations"]) ", batches " \
                mb(bytes["batches"]) ": " mb(bytes["total"])
            if (bytes["nvme"] > 0)
                print "; offloaded to files: " mb(bytes["nvme"])
        }'
}

@test "bytes are those of a run: 4 strategies on 1, 2 and 4 ranks" {
    local size strategy line nodes ranks precision=fp32
    for size in "1 1" "2 1" "2 2"; do
        read -r nodes ranks <<<"$size"
        for strategy in ddp zero1 zero2 zero3; do
            config one "$SMALL" "distributed.strategy: $strategy" \
                "precision.compute: $precision"
            line=$(planned one --nodes "$nodes" --ntasks-per-node "$ranks")
            run dt_srun -N"$nodes" --ntasks-per-node="$ranks" \
                --disttrain=one.yaml
            echo "$nodes x $ranks, $strategy, $precision: $line"
            echo "$output"
            ((status == 0))
            [[ $output == *"plan: $line of "* ]]
            [[ $precision == fp32 ]] && precision=bf16 || precision=fp32
        done
    done
}

@test "bytes are those of a run whose optimizer is on a drive" {
    local line files strategy
    dd if=/dev/zero of=probe bs=4096 count=1 oflag=direct 2>/dev/null ||
        skip "no direct I/O in $WORK"
    grep -q '^#define HAVE_URING' "$DT_BUILDDIR/config.h" ||
        skip "built without liburing"
    for strategy in zero1 zero3; do
        config drive "$SMALL" "distributed: {strategy: $strategy,
  offload_optimizer: {device: nvme, path: $WORK, tile_size: 65536}}"
        { read -r line && read -r files; } < <(planned drive --nodes 2)
        run dt_srun -N2 --disttrain=drive.yaml
        echo "$line$files"
        echo "$output"
        ((status == 0))
        [[ $output == *"plan: $line of "*"$files"* ]]
    done
}

# peak: the bytes that rank 0 had at most, as the last line of $output says.
peak() {
    awk '/^done: .*peak memory of rank 0/ { printf "%.0f", $(NF - 1) * 2^30 }' \
        <<<"$output"
}

# Beside the plan there are the program, its libraries and threads, and buffers
# of gloo: what a run of a tiny model takes.
@test "the resident memory of a rank is within 3 % of its plan" {
    local strategy beside planned
    (($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) > 6000000)) ||
        skip "two ranks of 1.5 GB do not fit"
    config tiny "model: {n_positions: 64, n_embd: 32, n_layer: 1, n_head: 2}"
    run -0 dt_srun -N2 --disttrain=tiny.yaml
    beside=$(peak)
    ((beside < 100000000))
    # steps add nothing, but to the last digit
    sed -i 's/max_steps: 1/max_steps: 200/' tiny.yaml
    run -0 dt_srun -N2 --disttrain=tiny.yaml
    echo "after a step $beside, after 200 $(peak)"
    (($(peak) < beside + 12000000))
    for strategy in ddp zero3; do
        config resident "distributed.strategy: $strategy" \
            "model: {n_positions: 64, n_embd: 768, n_layer: 12, n_head: 12}"
        planned=$("$DT_BUILDDIR/disttrain" plan --json --nodes 2 resident.yaml |
            awk '/"taken"/ { taken = /true/ }
                taken && /"total"/ { gsub(/[^0-9]/, ""); print }')
        run -0 dt_srun -N2 --disttrain=resident.yaml
        echo "$output"
        echo "$strategy: planned $planned, resident $(peak), beside it $beside"
        awk -v planned="$planned" -v own="$(($(peak) - beside))" \
            'BEGIN { exit !(own > 0.97 * planned && own < 1.03 * planned) }'
    done
}

@test "the strategy that auto takes is the one that plan marks" {
    local needs why
    config fits "$SMALL"
    run -0 "$DT_BUILDDIR/disttrain" plan --nodes 2 fits.yaml
    [[ $output == *$'\nzero1 '*'yes  <- auto'$'\nzero2 '* ]]
    why=$(grep '^strategy: ' <<<"$output")
    [[ $why == 'strategy: zero1 (auto: fits, predicted '*' % faster than ddp)' ]]
    run dt_srun -N2 --disttrain=fits.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"$why"*'zero1: optimizer state is shared over 2 ranks'* ]]

    # as measured where a collective takes long
    printf '%s\n' 'like: cpu' 'network_call: 500 ms' >slow
    config slow "$SMALL" "distributed.rates: slow"
    run -0 "$DT_BUILDDIR/disttrain" plan --nodes 2 slow.yaml
    [[ $output == *$'\nddp '*'yes  <- auto'$'\nzero1 '* ]]
    why=$(grep '^strategy: ' <<<"$output")
    run dt_srun -N2 --disttrain=slow.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"$why"* && $output != *zero1* ]]

    config large "model: {n_positions: 2048, n_layer: 80, n_head: 64,
  n_embd: 8192}" "launch.mem: 64G"
    run -78 --separate-stderr "$DT_BUILDDIR/disttrain" plan --nodes 2 large.yaml
    [[ $output == *$'\nzero3 '*' too much  <- auto'$'\n'* ]]
    [[ $stderr =~ "does not fit: zero3 needs "([0-9.]+)" GB of memory a rank" ]]
    sed -i /launch.mem/d large.yaml
    needs=${BASH_REMATCH[1]}
    run dt_srun -N2 --disttrain=large.yaml
    echo "$output"
    ((status == 78))
    [[ $output =~ "this run needs "([0-9.]+)" GB of memory a rank" ]]
    [[ $(printf '%.1f' "${BASH_REMATCH[1]}") == "$needs" ]]
}

@test "a plan needs no GPU and reads no weights" {
    mkdir model
    cat >model/config.json <<END
{"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
 "intermediate_size": 11008, "num_hidden_layers": 32,
 "num_attention_heads": 32, "max_position_embeddings": 4096,
 "rms_norm_eps": 1e-6}
END
    config seven "model.path: model" "launch: {nodes: 2, gpus_per_node: 8}"
    run -0 "$DT_BUILDDIR/disttrain" plan seven.yaml
    echo "$output"
    [[ $output == "seven.yaml: llama, 6738415616 parameters"$'\n'* ]]
    [[ $output == *"2 nodes x 8 ranks with a GPU each"* ]]
    [[ $output == *$'\nddp '*" too much"$'\nzero1 '*"  <- auto"* ]]
    [[ $output == *"by the number of parameters alone: zero2 "* ]]
}

@test "doctor --rates measures what plan reads, and adds to what is there" {
    local network
    config shapes "$SMALL"
    run dt_srun -N2 --mpi=pmix "$DT_BUILDDIR/disttrain" doctor --rates rates \
        shapes.yaml
    echo "$output"
    ((status == 0))
    grep -Eq '^network: [0-9.e+]+ GB/s$' rates
    run -1 grep '^node:' rates
    run -0 "$DT_BUILDDIR/disttrain" plan --nodes 2 --rates rates shapes.yaml
    [[ $output == *$'\nrates: rates\n'* ]]
    network=$(grep '^network: ' rates)
    run -65 "$DT_BUILDDIR/disttrain" plan --ntasks-per-node 2 --rates rates \
        shapes.yaml
    [[ $output == *"rates has no rate 'node', which this job needs"* ]]

    run dt_srun -N1 -n2 --mpi=pmix "$DT_BUILDDIR/disttrain" doctor \
        --rates rates shapes.yaml
    echo "$output"
    ((status == 0))
    grep -q '^ranks_per_node: 2$' rates
    grep -Eq '^node: [0-9.e+]+ GB/s$' rates
    [[ $(grep '^network: ' rates) == "$network" ]]
    run -0 "$DT_BUILDDIR/disttrain" plan --nodes 2 --ntasks-per-node 2 \
        --rates rates shapes.yaml
}

@test "it measures the micro-batches of a mini-batch where there are some" {
    echo '{"prompt": "a"}' >prompts.jsonl
    cat >ppo.yaml <<END
algorithm: ppo
run.device: cpu
model: {n_positions: 16, n_embd: 16, n_layer: 1, n_head: 2}
data: {train: prompts.jsonl, max_length: 16}
rollout.max_completion_length: 8
training.per_device_batch_size: 16
ppo.num_mini_batches: 4
reward.functions: [{type: json_valid}]
END
    run -0 "$DT_BUILDDIR/disttrain" doctor --rates mini ppo.yaml
    grep -q '^# passes of gpt2, 16 channels, 4 x 16 tokens, fp32$' mini
}

@test "doctor --rates does not write over a file that it cannot read" {
    config shapes "$SMALL"
    echo "not rates" >mine
    run dt_srun -N1 --mpi=pmix "$DT_BUILDDIR/disttrain" doctor --rates mine \
        shapes.yaml
    echo "$output"
    ((status == 65))
    [[ $output == *"mine:1:1: expected 'name: number unit', got 'not'"* ]]
    [[ $(<mine) == "not rates" ]]
    run -64 "$DT_BUILDDIR/disttrain" doctor --drive /tmp
    [[ $output == "disttrain doctor: --drive needs --rates"* ]]
}
