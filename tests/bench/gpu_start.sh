#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_start.sh - how long a run on a GPU takes to its first step, and what memory
#
# Usage: gpu_start.sh [--model gpt2|tiny]
#
# GPT-2 124M, 16 x 1024 tokens a step, in bf16: with nothing kept of earlier runs
# (choices of products, plans of attention), then once more, which must have done
# its first step in less than 3 s. Then without recorded graphs. Memory of the
# whole GPU, as nvidia-smi counts it, beside what disttrain allocated: what a run
# of a tiny model has beside it is the context and libraries; what recorded graphs
# and all else add may be 512 MiB, which the plan leaves free.
#
# tiny tries the script itself, with the module of tests/simt.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/bench/limits.sh
. "$bench/limits.sh"

parse "--model" "$@" disttrain
shape=(--batch 16 --tokens 1024)
vocab=50257
[[ $model != tiny ]] || shape=(--batch 1 --tokens 16) vocab=256
export XDG_CACHE_HOME=$work/cache
mkdir "$XDG_CACHE_HOME"
tokens "$work/tokens.bin" "$vocab"
tokens "$work/few.bin" 256

# run NAME FILE [OPTION]...: first_s, card_mb and peak_mb in NAME.json
run() {
    "$bench/disttrain_step.py" --disttrain "$builddir/disttrain" \
        --device cuda --precision bf16 --data "$2" --warmup 3 --steps 3 \
        "${@:3}" >"$work/$1.json" 2>"$work/$1.log" || {
        tail -n 20 "$work/$1.log"
        echo "not ok - $1"
        exit 1
    }
}

# figure NAME KEY
figure() {
    sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$work/$1.json"
}

# beside NAME: MiB of the GPU that are not of buffers; nothing, if nothing says so
beside() {
    local card
    card=$(figure "$1" card_mb)
    [[ ! $card ]] || echo $((card - $(figure "$1" peak_mb)))
}

run cold "$work/tokens.bin" --model "$model" "${shape[@]}"
run warm "$work/tokens.bin" --model "$model" "${shape[@]}"
DISTTRAIN_CUDA_GRAPHS=0 \
    run eager "$work/tokens.bin" --model "$model" "${shape[@]}"
run small "$work/few.bin" --model tiny --batch 1 --tokens 16

echo '| run | first step s | buffers MiB | GPU MiB | beside MiB |'
echo '|---|--:|--:|--:|--:|'
for name in cold warm eager small; do
    printf '| %s | %.2f | %s | %s | %s |\n' "$name" "$(figure "$name" first_s)" \
        "$(figure "$name" peak_mb)" "$(figure "$name" card_mb)" \
        "$(beside "$name")"
done
echo
at_most "seconds to the first step, once plans are kept" \
    "$(figure warm first_s)" 3
[[ ! $(beside warm) ]] ||
    at_most "MiB that a run has beside buffers, context and libraries" \
        $(($(beside warm) - $(beside small))) 512
