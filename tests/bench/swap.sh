#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# swap.sh - how fast tiles go to a drive and come back, against fio
#
# Usage: swap.sh [--rounds N] DIRECTORY [TILES [MIB [BUFFERS [DEPTH]]]]
#
# Each round runs swap and tiles (`make tests/bench/swap tests/bench/tiles`) and
# fio with requests of the same size and number, on a file of the same size in
# the same directory that is written once before. `update` is of reads and writes
# in turns, `optimizer` the same with AdamW on the CPU between them. The ratio
# is the median of those of the rounds.

set -euo pipefail

rounds=5
if [[ ${1-} == --rounds ]]; then
    rounds=$2
    shift 2
fi
(($# > 0)) || {
    sed -n 's/^# Usage: /usage: /p' "$0" >&2
    exit 64
}
builddir=$(readlink -f "${DT_BUILDDIR:-$PWD}")
directory=$1 megabytes=$((${2:-8} * ${3:-256})) depth=${5:-32}
file=$directory/disttrain-fio-$$
work=$(mktemp)
trap 'rm -f "$work" "$file"' EXIT

# fio_rate NAME RW: "fio-NAME RATE", in GB/s; fields 7 and 48 are KiB/s.
fio_rate() {
    fio --name="$1" --filename="$file" --size="${megabytes}M" --rw="$2" \
        --bs=1M --iodepth="$depth" --ioengine=io_uring --fixedbufs=1 \
        --direct=1 --overwrite=1 --scramble_buffers=0 --output-format=terse |
        awk -F ';' -v name="$1" \
            '{ printf "fio-%s %.3f\n", name, ($7 + $48) * 1024 / 1e9 }'
}

for ((round = 0; round < rounds; round++)); do
    {
        "$builddir/tests/bench/swap" "$@"
        "$builddir/tests/bench/tiles" "$@"
        fio_rate write write
        fio_rate read read
        fio_rate update rw
        fio_rate optimizer rw
    } >>"$work"
done

awk '
    function median(values, n,    i, j, x) {
        for (i = 2; i <= n; i++) {
            x = values[i]
            for (j = i - 1; j > 0 && values[j] > x; j--)
                values[j + 1] = values[j]
            values[j + 1] = x
        }
        return (values[int((n + 1) / 2)] + values[int(n / 2) + 1]) / 2
    }
    { rate[$1, ++count[$1]] = $2 }
    END {
        print "| what | rounds | swap GB/s | fio GB/s | ratio |"
        print "|---|---|---|---|---|"
        split("write read update optimizer", names, " ")
        for (k = 1; k <= 4; k++) {
            name = names[k]
            n = count[name]
            for (i = 1; i <= n; i++) {
                a[i] = rate[name, i]
                b[i] = rate["fio-" name, i]
                c[i] = a[i] / b[i]
            }
            printf "| %s | %d | %.2f | %.2f | %.2f |\n", name, n,
                median(a, n), median(b, n), median(c, n)
        }
    }' "$work"
