#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_autotune.sh - algorithms are timed once, and the choices kept for later

DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir cache
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
awk 'BEGIN { for (i = 1; i <= 40; i++) print "line " i }' >text.txt

# train NAME [WORDS]: two steps of two passes; the second adds to gradients
train() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, device: cuda}
model: {type: gpt2, init: random, tokenizer: byte, n_embd: 32, n_layer: 1,
        n_head: 2, n_positions: 32}
data: {train: text.txt, max_length: 32}
training: {per_device_batch_size: 2, max_steps: 2,
           gradient_accumulation_steps: 2}
checkpoint.strategy: "no"
END
    DISTTRAIN_AUTOTUNE=${2-log} "$build/disttrain" train "$1.yaml" \
        >"$1.log" 2>&1
    status=$?
    cat "$1.log"
    return $status
}

timed() {
    grep -c "^autotune: .*: ms: " "$1.log"
}

file() {
    ls cache/disttrain/matmul-*
}

# What adds to a gradient has the choice of what does not: none is timed twice.
first() {
    train first && [ "$(timed first)" -gt 8 ] &&
        [ -z "$(grep "^autotune:" first.log | sed 's/ ms: .*//' | sort |
            uniq -d)" ] && [ "$(file | wc -l)" -eq 1 ] &&
        head -n 1 "$(file)" | grep -q "; SIMT, sm_90, .*, cuBLASLt 1" &&
        [ "$(wc -l <"$(file)")" -eq $((1 + $(timed first))) ]
}

second() {
    cp "$(file)" kept
    train second && [ "$(timed second)" -eq 0 ] && cmp kept "$(file)"
}

fresh() {
    train fresh log,fresh && [ "$(timed fresh)" -gt 8 ] && cmp kept "$(file)"
}

damaged() {
    sed '3s/ .*/ x/' kept >"$(file)"
    train damaged && [ "$(timed damaged)" -gt 8 ] &&
        [ "$(grep -c "matmul-.* is damaged: " damaged.log)" -eq 1 ] &&
        [ "$(wc -l <kept)" -eq "$(wc -l <"$(file)")" ] &&
        train mended && [ "$(timed mended)" -eq 0 ] &&
        ! grep "is damaged" mended.log
}

# Some lines may be lost, but none is broken.
together() {
    rm "$(file)"
    train one >/dev/null &
    train two && wait $! && train three && ! grep "is damaged" three.log &&
        [ "$(find cache -type f | wc -l)" -eq 1 ]
}

# As below sudo; only root can make a folder of another user.
anothers() {
    rm -r cache/disttrain
    chown 65534 cache && train sudo && [ ! -e cache/disttrain ]
}

loss() {
    sed -n '$s/.*"loss": \([^,]*\).*/\1/p' "outputs/$1/logs/metrics.jsonl"
}

# Forced choices are right, and kept for nobody.
forced() {
    train apart apart && train library log,library &&
        [ ! -e cache/disttrain ] && [ "$(timed library)" -gt 8 ] &&
        ! grep " apart " library.log &&
        awk -v a="$(loss apart)" -v b="$(loss library)" 'BEGIN {
            print a, b; exit !(a > 0 && (a - b) ^ 2 < 1e-4) }'
}

unknown() {
    train unknown race && grep -q 'DISTTRAIN_AUTOTUNE: expected log, apart, .*"race"' \
        unknown.log
}

check "a run times each product once, and keeps the choices" first
check "the next run times none" second
check "DISTTRAIN_AUTOTUNE=fresh does not look at them" fresh
check "a damaged file is replaced, with one warning" damaged
check "two runs at the same time leave a whole file" together
if [ "$(id -u)" -eq 0 ]; then
    check "nothing is left in the folder of another user" anothers
    chown 0 cache
fi
rm -rf cache/disttrain
check "apart and library force a side" forced
check "another word is a warning" unknown
echo "1..$count"
