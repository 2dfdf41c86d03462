#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_faults.sh - what CUDA refuses ends the run, or costs it nothing

DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
awk 'BEGIN { for (i = 1; i <= 40; i++) print "line " i }' >text.txt

# train NAME [VARIABLE=VALUE]: four steps on the GPU
train() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, device: cuda, deterministic: true}
model: {type: gpt2, init: random, tokenizer: byte, n_embd: 32, n_layer: 1,
        n_head: 2, n_positions: 32}
data: {train: text.txt, max_length: 32}
training: {per_device_batch_size: 2, max_steps: 4}
END
    env "${2:-A=}" "$build/disttrain" train "$1.yaml" >"$1.log" 2>&1
}

# All launches of the first steps, that of the last gradient included, come
# before the host waits for one; one of them fails.
refused() {
    train "refused$1" "SIMT_FAIL_LAUNCH=$1"
    status=$?
    cat "refused$1.log"
    [ "$status" -ne 0 ] && grep -q "a kernel of .* could not be started" \
        "refused$1.log" && [ ! -e "$(weights "refused$1")" ]
}

weights() {
    echo "outputs/$1/checkpoints/checkpoint-4/model.safetensors"
}

same_weights() {
    cmp "$(weights whole)" "$(weights "$1")"
}

unrecorded() {
    train unrecorded SIMT_FAIL_CAPTURE=2
    status=$?
    cat unrecorded.log
    [ "$status" -eq 0 ] && [ "$(grep -c "cannot be recorded as a graph" \
        unrecorded.log)" -eq 1 ]
}

check "a run" train whole
for launch in 2 9 30; do
    check "kernel $launch is refused: the run ends" refused $launch
done
check "a graph that cannot be recorded: one warning" unrecorded
check "and the same weights" same_weights unrecorded
check "DISTTRAIN_CUDA_GRAPHS=0" train eager DISTTRAIN_CUDA_GRAPHS=0
check "has the same weights" same_weights eager
echo "1..$count"
