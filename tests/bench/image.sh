#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# image.sh - decoding and resizing JPEG files: how fast, against the reference
#
# Usage: image.sh [--rounds N] PYTHON
#
# PYTHON has Pillow, numpy, torch and torchvision. Files of three sizes are made,
# then each side decodes and resizes them in turns on one thread. A line has the
# median milliseconds of the CPU, of disttrain and of the peer, for decoding, for
# resizing and for both, and how many times as fast disttrain is in all. Pillow
# decodes for torchvision, too.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}
make -s -C "$builddir" tests/bench/image
export PYTHONDONTWRITEBYTECODE=1

median() { # of the numbers of a file's column, and of their sum if it is 3
    awk -v column="$2" '{ print column == 3 ? $1 + $2 : $column }' "$1" |
        sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

# height width, to height width, filter, times in a round
cases="480 640 336 448 3 20
960 1280 672 896 3 20
3000 4000 336 448 3 4
3000 4000 1512 2016 1 4"

printf '%-30s %-11s %15s %15s %15s %6s\n' from backend decode resize both ratio
while read -r height width to_height to_width filter times; do
    file=$work/$height.jpg
    [[ -e $file ]] ||
        "$python" "$bench/image_peer.py" make "$file" "$height" "$width"
    for backend in pillow torchvision; do
        rm -f "$work/ours" "$work/theirs"
        for ((round = 0; round < rounds; round++)); do
            set -- "$file" "$to_height" "$to_width" "$filter" "$backend" "$times"
            "$builddir/tests/bench/image" "$@" >>"$work/ours"
            "$python" "$bench/image_peer.py" "$@" >>"$work/theirs"
        done
        printf '%-30s %-11s' "$width x $height to $to_width x $to_height" \
            "$backend"
        for column in 1 2 3; do
            ours=$(median "$work/ours" $column)
            theirs=$(median "$work/theirs" $column)
            printf ' %7.1f %7.1f' "$ours" "$theirs"
        done
        awk -v a="$ours" -v b="$theirs" 'BEGIN { printf " %6.2f\n", b / a }'
    done
done <<<"$cases"
