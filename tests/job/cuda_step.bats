#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# cuda_step.bats - steps of a real Slurm whose ranks compute on GPUs: those of
# tests/simt, which runs the module's kernels on the CPU and has an NCCL that
# never notices a missing peer by itself

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-cuda-step.XXXXXX)
    export WORK
    head -c 6000 /usr/share/common-licenses/GPL-2 >"$WORK/text"
    dt_cluster_up --nodes 2 --cpus 4
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    export DISTTRAIN_CUDA_MODULE=$DT_BUILDDIR/tests/simt/disttrain-cuda.so
    [[ -e $DISTTRAIN_CUDA_MODULE ]] || skip "there is no $DISTTRAIN_CUDA_MODULE"
    dt_need_pmix
    cd "$WORK" || return
    export OMP_NUM_THREADS=1 SIMT_DEVICES=2
}

# config NAME [LINE]...: writes NAME.yaml, whose output goes to NAME.out; LINEs
# come last.
config() {
    local name=$1
    shift
    {
        cat <<END
algorithm: sft
model: {n_positions: 32, n_embd: 16, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
optimizer: {lr: 1.0e-3, weight_decay: 0.1}
logging: {steps: 1}
run.name: $name
run.output_dir: $name.out
run.overwrite: true
END
        printf '%s\n' "$@"
        [[ $* == *training:* ]] ||
            echo "training: {train_batch_size: 4, max_steps: 5}"
        [[ $* == *run.device* ]] || echo "run.device: cuda"
        [[ $* == *precision* ]] || echo "precision.compute: fp32"
    } >"$name.yaml"
}

losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

# agree A B: the losses are equal, up to the rounding of sums in another order.
agree() {
    paste <(losses "$1") <(losses "$2") | awk '
        { off = ($1 - $2) / $1; if (off * off > 4e-12) bad = 1 }
        { print }
        END { exit bad || NR != 5 }'
}

need_faults() {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
}

@test "four GPUs on two nodes have the same losses as one" {
    config one
    config four "logging.trace.steps: [3, 4]"
    run -0 "$DT_BUILDDIR/disttrain" train one.yaml
    run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain=four.yaml
    [[ $output == *"1 row per rank x 4 ranks x 1 accumulation"* ]]
    [[ $output == *"steps 3 to 4 of all 4 ranks; clocks aligned to +-"* ]]
    run -0 agree one four
    # what the GPUs have told of the last steps, when none is in flight
    run -0 grep '"step": 5,.*"compute_s"' four.out/logs/metrics.jsonl
    [[ $output =~ \"compute_s\":\ ([0-9.e-]+) && ${BASH_REMATCH[1]} != 0 ]]
    [[ $output =~ \"comm_exposed_s\":\ [0-9] ]]
    [[ $output =~ \"rank_step_s/argmax\":\ [0-3] ]]
}

@test "zero1, zero2 and zero3 have the losses of one GPU, and are resumed" {
    local strategy training="training: {train_batch_size: 8,
  per_device_batch_size: 1, max_steps: 5"
    config one "$training}"
    run -0 "$DT_BUILDDIR/disttrain" train one.yaml
    for strategy in zero1 zero2 zero3; do
        config "$strategy" "$training}" "checkpoint: {steps: 3}" \
            "distributed.strategy: $strategy" "run.deterministic: true"
        run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain="$strategy.yaml"
        [[ $output == *"$strategy: "*" over 4 ranks"* ]]
        run -0 agree one "$strategy"
        [[ $strategy != zero1 ]] || continue # zero2 reads the same parts
        config rest "$training, resume: $strategy.out/checkpoints/checkpoint-3}" \
            "distributed.strategy: $strategy" "run.deterministic: true"
        run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain=rest.yaml
        diff <(losses "$strategy" | tail -n 2) <(losses rest)
    done
}

@test "offloaded state has the same bits, wherever AdamW computes" {
    local name file
    local base=("run.deterministic: true" "precision: {compute: bf16}"
        "checkpoint: {steps: 1000000}")
    config none "${base[@]}" "distributed.strategy: zero3"
    config streamed "${base[@]}" "distributed.strategy: zero2" \
        "offload_optimizer: {device: cpu, compute: device}"
    config here "${base[@]}" "distributed.strategy: zero3" \
        "offload_optimizer: {device: cpu, compute: host}" \
        "offload_param: {device: cpu}"
    config drive "${base[@]}" "distributed.strategy: zero1" \
        "offload_optimizer: {device: nvme, path: $WORK, compute: device}"
    run -0 dt_srun -N2 --ntasks-per-node=2 --disttrain=none.yaml
    for name in streamed here drive; do
        run dt_srun -N2 --ntasks-per-node=2 --disttrain="$name.yaml"
        if [[ $name == drive && $output == *"direct I/O"* ]]; then
            continue # no file system here has it
        fi
        echo "$output"
        ((status == 0))
        [[ $output == *"offload: AdamW computes on the "* ]]
        diff <(losses none) <(losses "$name")
        for file in none.out/checkpoints/latest/*.safetensors; do
            cmp "$file" "$name${file#none}"
        done
    done
}

@test "gradient_checkpointing: offload has the bits of true, in less memory" {
    local layers="n_positions: 32, n_embd: 32, n_layer: 8, n_head: 2"
    local rows="training: {train_batch_size: 16, per_device_batch_size: 8, max_steps: 2}"
    local plan='s/.*memory of a rank: .* activations ([0-9.]+) MB.*/\1/p'
    config kept "run.deterministic: true" "$rows" "checkpoint: {steps: 1000000}" \
        "model.gradient_checkpointing: true"
    config sent "run.deterministic: true" "$rows" "checkpoint: {steps: 1000000}" \
        "model.gradient_checkpointing: offload"
    sed -i "s/^model:.*/model: {$layers}/" kept.yaml sent.yaml
    "$DT_BUILDDIR/disttrain" train kept.yaml &>kept.log
    "$DT_BUILDDIR/disttrain" train sent.yaml &>sent.log
    cmp {kept,sent}.out/checkpoints/latest/model.safetensors
    cmp {kept,sent}.out/checkpoints/latest/optim-rank-00000-of-00001.safetensors
    cat kept.log sent.log
    grep -q 'offloaded to host memory' sent.log
    awk -v kept="$(sed -nE "$plan" kept.log)" -v sent="$(sed -nE "$plan" sent.log)" \
        'BEGIN { exit !(sent > 0 && kept - sent > 0.15) }' # six inputs of 32 KiB
}

@test "with a 16-bit reduce dtype too, up to rounding" {
    config one "precision: {compute: bf16}"
    config two "precision: {compute: bf16, reduce_dtype: bf16}"
    run -0 "$DT_BUILDDIR/disttrain" train one.yaml
    run -0 dt_srun -N2 -n2 --disttrain=two.yaml
    paste <(losses one) <(losses two) | awk '
        { off = ($1 - $2) / $1; if (off * off > 1e-4) bad = 1 }
        END { exit bad || NR != 5 }'
}

@test "a killed rank: all go on with a copy in host memory, with the same bits" {
    need_faults
    local file lines=("run.deterministic: true" "checkpoint: {steps: 1000}"
        "distributed.strategy: zero2"
        "training: {train_batch_size: 2, max_steps: 12}")
    config whole "${lines[@]}"
    config hit "${lines[@]}"
    run -0 dt_srun -N2 -n2 --disttrain=whole.yaml
    DISTTRAIN_FAULT=train.step:rank=1:step=10:life=1:kill run dt_srun -N2 -n2 \
        --disttrain=hit.yaml
    echo "$output"
    ((status == 0))
    [[ $output == *"continuing after step "*" with the copy that the processes before have left in host memory"* ]]
    [[ $output != *"resuming from "* && $output != *"first failure"* ]]
    diff <(losses whole) <(losses hit)
    for file in whole.out/checkpoints/latest/*.safetensors; do
        cmp "$file" "hit${file#whole}"
    done
}

@test "a rank that is killed is named within seconds" {
    need_faults
    config killed "launch.keeper: off"
    DISTTRAIN_FAULT=train.step:rank=2:step=3:kill run dt_srun -N2 --ntasks-per-node=2 \
        --disttrain=killed.yaml
    ((status != 0 && status != 124)) # 124: of timeout
    [[ $output == *"first failure: rank 2 on n2, killed by signal 9"* ]]
}

@test "a rank that hangs is named also with many micro-batches per step" {
    need_faults
    config hung "distributed.timeout_s: 30" "launch.keeper: off" \
        "training: {train_batch_size: 16, per_device_batch_size: 1, max_steps: 5}"
    DISTTRAIN_FAULT=train.step:rank=3:step=3:stop run dt_srun -N2 \
        --ntasks-per-node=2 --disttrain=hung.yaml
    ((status != 0))
    [[ $output == *"rank 3 on n2 did not answer within 30000 ms"* ]]
}

@test "a rank that hangs is named after timeout_s" {
    need_faults
    config hung "distributed.timeout_s: 30" "launch.keeper: off"
    DISTTRAIN_FAULT=train.step:rank=3:step=3:stop run dt_srun -N2 --ntasks-per-node=2 \
        --disttrain=hung.yaml
    ((status != 0))
    [[ $output == *"rank 3 on n2 did not answer within 30000 ms"* ]]
}

@test "all ranks report the error of the rank that failed" {
    need_faults
    config failed "launch.keeper: off"
    DISTTRAIN_FAULT=train.step:rank=1:step=3:error run dt_srun -N2 --ntasks-per-node=2 \
        --disttrain=failed.yaml
    ((status != 0))
    [[ $output == *"rank 1 of 4 on n1 failed: failed on purpose"* ]]
}

@test "a bit that a GPU has lost is found, and the rank named" {
    need_faults
    config bits "distributed: {strategy: ddp, check_replicas: 2}" \
        "launch: {keeper: off}"
    DISTTRAIN_FAULT=replica.m:rank=3:step=3:error run dt_srun -N2 --ntasks-per-node=2 \
        --disttrain=bits.yaml
    echo "$output"
    ((status == 71))
    [[ $output == *"rank 3 of 4 on n2 failed: step 4: ranks hold different bits"* ]]
    [[ $output == *"; rank 3 on n2: AdamW's m from transformer.h.1.ln_1.weight on, and 1 more; most replicas"* ]]
}

@test "two ranks with one GPU are an error that says what to do" {
    config same
    SIMT_DEVICES=1 run -78 dt_srun -N2 --ntasks-per-node=2 --disttrain=same.yaml
    [[ $output == *"ranks 0 and 1 on n1 have the same GPU, "* ]]
    [[ $output == *"(srun --gpus-per-node=N) or one of its own (launch.gpu_visibility: one)"* ]]
}

@test "so are more ranks than GPUs on a node" {
    config many "training: {train_batch_size: 3, max_steps: 5}"
    run dt_srun -N1 -n3 --disttrain=many.yaml
    ((status != 0))
    [[ $output == *"this is local rank 2, and only 2 GPUs are visible on n1"* ]]
}

@test "auto on nodes that differ is an error that names both" {
    config mixed "run.device: auto"
    cat >rank.sh <<END
#!/bin/sh
[ "\$SLURM_PROCID" = 0 ] || export SIMT_DEVICES=0
exec "$DT_BUILDDIR/disttrain" train mixed.yaml
END
    chmod +x rank.sh
    run -78 dt_srun --mpi=pmix -N2 -n2 ./rank.sh
    [[ $output == *"E131 run.device is cpu on n2 (rank 1) and cuda on n1 \
(rank 0): allocate nodes that are alike, or set run.device: cpu"* ]]
}
