#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simt_words.sh - test_ops of an emulated GPU with the words behind `cuda`

DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/simt/disttrain-cuda.so
export DISTTRAIN_CUDA_MODULE
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/../gpu/common.sh"
ops=$build/tests/ops/test_ops

# runs COUNT WORD ...: all cases that the words choose pass, and are COUNT
runs() {
    wanted=$1
    shift
    output=$(CMOCKA_MESSAGE_OUTPUT=TAP "$ops" cuda "$@" 2>&1) || {
        printf '%s\n' "$output"
        return 1
    }
    printf '%s\n' "$output"
    [ "$(printf '%s\n' "$output" | grep -c '^ok ')" -eq "$wanted" ]
}

# refused TEXT WORD ...
refused() {
    text=$1
    shift
    output=$("$ops" cuda "$@" 2>&1)
    [ $? -eq 64 ] && [ "$output" = "$text" ]
}

# starts_with BYTES SHARED: the first kernel of a loss asks for BYTES of the
# SHARED that a multiprocessor has, as the message of its failure says
starts_with() {
    SIMT_SHARED=$2 SIMT_FAIL_LAUNCH=1 \
        "$ops" cuda "only=cross_entropy without targets" 2>&1 |
        grep "1024 threads could not be started with $1 bytes"
}

export DISTTRAIN_AUTOTUNE
for DISTTRAIN_AUTOTUNE in fresh library apart; do
    check "linear layers whose kernels are chosen: $DISTTRAIN_AUTOTUNE" \
        runs 5 fast only=linear
done
check "a loss whose rows of 256 bytes fit into shared memory twice" \
    starts_with 256 2816
check "rows that do not" starts_with 0 2815
export SIMT_SHARED=2815
for case in "scaled and capped logits" "logprob and cross_entropy agree"; do
    check "longer rows: $case" runs 1 small only="$case"
done
unset SIMT_SHARED
check "attention by no library" runs 1 math "only=attention keeps NaN"
check "one case" runs 1 small only=zero
check "a word that is unknown is refused" refused \
    "test_ops: unknown word 'fats': expected fast, math, small or only=TEXT" \
    fats
check "so are cases that are not there" refused \
    "test_ops: no case that runs here has 'lniear' in its name" only=lniear
echo "1..$count"
