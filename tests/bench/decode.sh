#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# decode.sh - tokens per second of rollouts, against transformers' generate
#
# Usage: decode.sh [--rounds N] PYTHON [LLAMA MODELS]
#
# PYTHON has torch and transformers; LLAMA is llama.cpp's llama-batched-bench,
# which does not sample: the same work without drawing a token; MODELS has
# fp32.gguf and bf16.gguf, which convert_hf_to_gguf.py makes of GPT-2 124M with
# --outtype f32 and bf16. 64 slots: 64 completions of 128 tokens, and 256 of 1
# to 128; one slot: one of 128. Medians of rounds that alternate. Of the latter,
# also what part it is of the rate at which its weights can be read.
# transformers keeps freed memory, as malloc=PYTHON does elsewhere.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}
make -s -C "$builddir" tests/bench/decode
tune
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2

median() {
    sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
# llama TYPE N: the rate at which N sequences grow, without their prompts
llama() {
    "$llama" -m "$models/$1.gguf" -c 16384 -npp 16 -ntg 128 -npl "$2" -t 2 \
        -tb 2 2>"$work/llama.log" | awk -F'|' -v n="$2" '$4 + 0 == n { print $9 }'
}

llama=${peers[1]-} models=${peers[2]-}

printf '%-24s %12s %12s %8s\n' work disttrain transformers ratio
while read -r name task; do
    for ((round = 0; round < rounds; round++)); do
        # shellcheck disable=SC2086
        "$builddir/tests/bench/decode" $task >>"$work/$name.ours"
        # shellcheck disable=SC2086
        env "${malloc[@]}" "$python" "$bench/decode_peer.py" $task >>"$work/$name.theirs"
    done
    ours=$(median <"$work/$name.ours")
    theirs=$(median <"$work/$name.theirs")
    awk -v n="$name" -v a="$ours" -v b="$theirs" 'BEGIN {
        printf "%-24s %8.1f t/s %8.1f t/s %8.2f\n", n, a, b, a / b }'
done <<WORK
fp32-equal fp32 64 64 128 0
fp32-uneven fp32 64 256 128 785
bf16-equal bf16 64 64 128 0
fp32-one fp32 1 1 128 0
bf16-one bf16 1 1 128 0
WORK
for name in fp32-one bf16-one; do
    echo "$name: $(cut -d' ' -f5 "$work/$name.ours" | median) % of the reads"
done
[[ $llama ]] || exit 0
printf '%-24s %12s %12s %8s\n' work disttrain llama.cpp ratio
for task in fp32-equal bf16-equal fp32-one bf16-one; do
    slots=64
    [[ $task == *-equal ]] || slots=1
    for ((round = 0; round < rounds; round++)); do
        llama "${task%-*}" "$slots" >>"$work/$task.llama"
    done
    awk -v n="$task" -v a="$(median <"$work/$task.ours")" \
        -v b="$(median <"$work/$task.llama")" 'BEGIN {
            printf "%-24s %8.1f t/s %8.1f t/s %8.2f\n", n, a, b, a / b }'
done
