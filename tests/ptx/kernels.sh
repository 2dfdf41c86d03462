#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels.sh - the module's kernels as nvcc compiled them, on the CPU
#
# Each run says in $PTX_REPORT which kernels it started, and for each barrier
# whether a run without it had a race. PTX_ALL=1 runs all cases, for minutes, and
# wants every kernel to be started, not one of each template.

here=$(cd "$(dirname "$0")" && pwd)
DISTTRAIN_CUDA_MODULE=${DT_BUILDDIR:-$PWD}/tests/ptx/disttrain-cuda.so
if [ ! -e "$DISTTRAIN_CUDA_MODULE" ]; then
    echo "1..0 # SKIP built without CUDA, see the summary of configure"
    exit 0
fi
# shellcheck source=tests/gpu/common.sh
. "$here/../gpu/common.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

comm=
[ ! -e "$build/tests/comm/test_int8" ] || comm=yes

# --- what nvcc has made ---

# run PROGRAM [WORD ...]: a test program on the emulated GPU
run() {
    program=$1
    shift
    sh "$here/../cmocka.sh" "$build/tests/$program" "$@"
}

PTX_CENSUS=$dir/census run ops/test_ops cuda only=convert >"$dir/first" 2>&1
# Functions that are called have parameters of their own.
why=$(sed -n "s/.*unknown directive '.param'.*/the module is not optimized/p
    s/.*ptx: \(an object has PTX in a form.*\)/\1/p" "$dir/first")
if [ -n "$why" ]; then
    echo "1..0 # SKIP $why"
    exit 0
fi

# named: words and a kernel a line, with the name of its template instead; CUB's
# kernels are its own business
named() {
    c++filt -p |
        sed '/cub::/d; s/(anonymous namespace):://g; s/<.*//' | sort -u
}

# except LIST: what of the input is not in that list of lists.txt; fails if
# there is something
except() {
    sed -n "/^\[$1\]/,/^\[/s/^[^[#]/&/p" "$here/lists.txt" >"$dir/list"
    ! grep -vxF -f "$dir/list"
}

spilling() {
    awk '$2 > $3 { print "spills", $6 }' "$dir/census" | named | except spills
}
adding() {
    awk '$4 > 0 { print "adds", $6 }' "$dir/census" | named | except atomics
}
reading() {
    awk '$5 > 0 { print $6 }' "$dir/census" | sort -u | c++filt -p |
        sed 's/(anonymous namespace):://g; s/<.*//' | sort | uniq -c |
        awk -v list="$here/lists.txt" -v comm="$comm" '
            { has[$2] = $1 }
            END {
                while ((getline line < list) > 0) {
                    split(line, word, " ")
                    if (line ~ /^\[/)
                        here = line == "[wide]" || comm && line ~ /^.wide in comm/
                    else if (here && word[1] + 0 > has[word[2]] + 0)
                        less = print_less(word[2], has[word[2]] + 0, word[1])
                }
                exit less
            }
            function print_less(name, some, all) {
                print name ": " some " of " all " read 16 bytes at a time"
                return 1
            }'
}
check "objects have PTX" test -s "$dir/census"
check "registers are spilled where lists.txt says" spilling
check "no atomic is on floats" adding
check "kernels read 16 bytes at a time where lists.txt says" reading

# --- what it does ---

PTX_REPORT=$dir/report
export PTX_REPORT

# ops WORD ...: the cases of test_ops that the words choose
ops() {
    check "test_ops $*" run ops/test_ops cuda small "$@"
}
# The last version of cuDNN that is too old for the module.
without_cudnn() {
    SIMT_CUDNN_VERSION=90900
    export SIMT_CUDNN_VERSION
    ops "$@"
    unset SIMT_CUDNN_VERSION
}
# Too little shared memory for a row of logits.
with_little_shared() {
    SIMT_SHARED=2815
    export SIMT_SHARED
    ops "$@"
    unset SIMT_SHARED
}
# on_gpu PROGRAM: one whose ranks have a GPU each
on_gpu() {
    [ -z "$comm" ] || DT_TEST_DEVICE=cuda check "$1" run "$1"
}

if [ -n "$PTX_ALL" ]; then
    ops
    ops math only=attention
    ops math only="see each other"
    without_cudnn only=attention
    on_gpu comm/test_collectives
else
    for case in activation glu rope norm embedding "no rows" kv sample \
        "scaled and capped" "logprob and" scatter add patch sparse convert \
        combine "hash of" sum_of step adamw "linear with" low_rank; do
        ops "only=$case"
    done
    without_cudnn only="heads of each size"
fi
ops fast "only=documents of" # backward passes that have no order of sums
with_little_shared only="scaled and capped"
on_gpu comm/test_int8

if [ -n "$PTX_ALL" ]; then
    kernels() {
        c++filt -p | sed '/cub::/d; s/(anonymous namespace):://g' | sort -u
    }
    list=never
else
    kernels() {
        named
    }
    list=seldom
fi
started() {
    [ -s "$dir/census" ] || return 1
    sed -n 's/^kernel //p' "$PTX_REPORT" | kernels >"$dir/started"
    awk '{ print $6 }' "$dir/census" | kernels | comm -23 - "$dir/started" |
        except $list
}
needed() {
    sed -n 's/^barrier //p' "$PTX_REPORT" | named >"$dir/barriers"
    sed -n 's/^needed //p' "$dir/barriers" >"$dir/needed"
    [ -s "$dir/needed" ] || return 1
    sed -n 's/^quiet //p' "$dir/barriers" | comm -23 - "$dir/needed" |
        sed 's/:[0-9]* / /' | sort -u | except quiet
}
check "every kernel is started" started
check "a barrier that is left out is missed" needed
echo "1..$count"
