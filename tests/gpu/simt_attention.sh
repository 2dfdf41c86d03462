#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_attention.sh - who computes attention, and what a user hears of it

DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
awk 'BEGIN { for (i = 1; i <= 40; i++) print "line " i }' >text.txt
# cuDNN would take any NVRTC; here is none that can be opened.
mkdir none && : >none/libnvrtc.so
LD_LIBRARY_PATH=$work/none${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
slower="attention is slower than with cuDNN"

# train NAME KEYS_OF_MODEL [VARIABLE=VALUE]: two steps of two passes
train() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, device: cuda}
model: {type: gpt2, init: random, tokenizer: byte, n_embd: 16, n_layer: 2,
        n_head: 2, n_positions: 32, $2}
data: {train: text.txt, max_length: 32}
training: {per_device_batch_size: 2, max_steps: 2,
           gradient_accumulation_steps: 2}
checkpoint.strategy: "no"
END
    env "${3:-A=}" "$build/disttrain" train "$1.yaml" >"$1.log" 2>&1
}

# says NAME BANNER WARNINGS WHY: the line of the banner, how many warnings there
# are, and the end of each
says() {
    cat "$1.log"
    grep -q "^attention: $2" "$1.log" &&
        [ "$(grep -c "$slower" "$1.log")" -eq "$3" ] &&
        [ "$(grep -c "$slower.*: $4\$" "$1.log")" -eq "$3" ]
}

cudnn() {
    train cudnn "" && says cudnn "cuDNN 9" 0 "" &&
        "$build/disttrain" info | grep -q "^GPU attention: *cuDNN 9"
}

# A compiler that is not there: CUDA 1.
no_nvrtc() {
    train nvrtc "" SIMT_CUDNN_TOOLKIT=1000 &&
        says nvrtc "kernels of disttrain: libnvrtc.so.1, by" 1 \
            "libnvrtc.so.1, .* LD_LIBRARY_PATH" &&
        grep -q "for 2 x 32 positions, 2 heads (2 of keys) of 8, BF16" \
            nvrtc.log &&
        SIMT_CUDNN_TOOLKIT=1000 "$build/disttrain" info |
        grep -q "^GPU attention: *kernels of disttrain: libnvrtc.so.1, by"
}

refused() {
    ! train refused "attention: flash" SIMT_CUDNN_TOOLKIT=1000 &&
        cat refused.log &&
        grep -q "flash does not support .*: libnvrtc.so.1, by" refused.log
}

too_old() {
    train old "" SIMT_CUDNN_VERSION=90900 &&
        says old "kernels of disttrain: .* is cuDNN 9.9.0: attention needs" 1 \
            ".* is cuDNN 9.9.0: attention needs .*"
}

# 32 positions are no multiple of 128.
some_lengths() {
    train lengths "" SIMT_CUDNN_VERSION=91300 &&
        says lengths "kernels of disttrain: before cuDNN 9.16" 1 \
            "before cuDNN 9.16 only multiples of 128 positions are right"
}

# pack NAME MORE_OF_RUN [VARIABLE=VALUE [OPTION]...]: short lines in rows of 32
# positions
pack() {
    awk 'BEGIN { for (i = 1; i <= 40; i++)
        printf "{\"text\": \"%s\"}\n", substr("abcdefgh", i % 7 + 1) }' >short.jsonl
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, device: cuda$2}
model: {type: gpt2, init: random, tokenizer: byte, n_embd: 16, n_layer: 2,
        n_head: 2, n_positions: 32}
data: {train: short.jsonl, max_length: 32, packing: bfd}
training: {per_device_batch_size: 2, max_steps: 6}
checkpoint.strategy: "no"
END
    name=$1
    variable=${3:-A=}
    shift $(($# < 3 ? $# : 3))
    env "$variable" "$build/disttrain" train "$name.yaml" "$@" \
        >"$name.log" 2>&1
}

# The losses and norms of steps
losses() {
    sed -n 's/^step .*loss \(.*\) lr .*norm \([0-9.]*\) .*/\1 \2/p' "$1.log"
}

documents() {
    pack documents "" && says documents "cuDNN 9" 0 "" &&
        ! grep -q "masks the documents" documents.log
}

# Recorded graphs read where the documents of a batch are.
documents_in_graphs() {
    pack eager "" DISTTRAIN_CUDA_GRAPHS=0 && losses documents >graphs.txt &&
        losses eager >eager.txt && [ -s eager.txt ] &&
        cmp graphs.txt eager.txt
}

# No engine for their backward pass has one order of sums, and what is tried then
# needs NVRTC first.
documents_in_order() {
    why="\(no engine takes\|libnvrtc\)"
    pack order ", deterministic: true" && says order "cuDNN 9" 0 "" &&
        grep -q "^attention: cuDNN .*, which masks .* row: $why" order.log &&
        [ "$(grep -c "attention masks the documents" order.log)" -eq 1 ] &&
        grep -q "whole row costs, for 2 x 32 positions, .*: $why" order.log
}

# Batches of a number of tokens hold documents, too; $2: the algorithm.
pairs() {
    awk 'BEGIN { for (i = 1; i <= 40; i++)
        printf "{\"prompt\": \"w\", \"chosen\": \"%s\", " \
            "\"rejected\": \"%s\"}\n", substr("abcdefgh", i % 7 + 1),
            substr("hgfedcba", i % 5 + 1) }' >pairs.jsonl
    cat >"$1.yaml" <<END
algorithm: $2
run: {name: $1, device: cuda}
model: {type: gpt2, init: random, tokenizer: byte, n_embd: 16, n_layer: 2,
        n_head: 2, n_positions: 32}
data: {train: pairs.jsonl, max_length: 32}
training: {per_device_batch_size: 2, max_steps: 3}
checkpoint.strategy: "no"
END
    "$build/disttrain" train "$1.yaml" >"$1.log" 2>&1
}

documents_of_pairs() {
    for algorithm in dpo rm; do
        pairs "$algorithm" "$algorithm" || return
        says "$algorithm" "cuDNN 9" 0 "" || return
        if grep "masks the documents" "$algorithm.log"; then return 1; fi
    done
}

# Rows have 128 positions, but documents fewer.
documents_of_any_length() {
    pack any "" SIMT_CUDNN_VERSION=91300 --set data.max_length=128 \
        --set model.n_positions=128 && says any "cuDNN 9" 0 "" &&
        grep -q "^attention: cuDNN .*, which masks .* row: before cuDNN 9.16" \
            any.log &&
        [ "$(grep -c "attention masks the documents.*: before cuDNN 9.16" \
            any.log)" -eq 1 ]
}

asked_for() {
    train math "attention: math" &&
        says math "kernels of disttrain: model.attention: math" 0 ""
}

check "cuDNN computes it" cudnn
check "without NVRTC it cannot: one warning for the shape" no_nvrtc
check "which is an error if model.attention is flash" refused
check "cuDNN 9.9 is too old: one warning" too_old
check "cuDNN 9.13 is right for multiples of 128 only" some_lengths
check "documents are computed one by one" documents
check "by recorded graphs, too" documents_in_graphs
check "those of pairs, too" documents_of_pairs
check "or masked, with a warning: before cuDNN 9.16" documents_of_any_length
check "and where sums have one order" documents_in_order
check "model.attention: math is no reason for a warning" asked_for
echo "1..$count"
