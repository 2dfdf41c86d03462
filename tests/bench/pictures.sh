#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pictures.sh - images of batches: how many in a second, against PyTorch's loader
#
# Usage: pictures.sh [--rounds N] PYTHON
#
# PYTHON has Pillow, numpy, torch, torchvision and transformers. JPEG files of a
# few sizes are made; then each side reads, decodes and resizes them in turns, in
# batches of 4, with 1 and with 2 workers. A line has the median images per
# second of disttrain and of the peer, and how many times as fast disttrain is.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}
make -s -C "$builddir" tests/bench/pictures
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1

median() {
    sort -n "$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

model() { # NAME JSON
    mkdir -p "$work/$1"
    echo "$2" >"$work/$1/preprocessor_config.json"
}

half='"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]'
model Qwen2.5-VL "{\"image_processor_type\": \"Qwen2VLImageProcessorFast\",
    \"patch_size\": 14, \"temporal_patch_size\": 2, \"merge_size\": 2, $half,
    \"size\": {\"shortest_edge\": 3136, \"longest_edge\": 1003520}}"
model LLaVA-1.5 "{\"image_processor_type\": \"CLIPImageProcessorFast\",
    \"do_center_crop\": true, \"crop_size\": {\"height\": 336, \"width\": 336},
    \"do_resize\": true, \"size\": {\"shortest_edge\": 336}, \"resample\": 3,
    \"do_rescale\": true, \"do_normalize\": true, \"do_convert_rgb\": true,
    \"patch_size\": 14, $half}"

files=()
for size in "480 640" "960 1280" "768 1024" "427 640"; do
    read -r height width <<<"$size"
    files+=("$work/$height.jpg")
    "$python" "$bench/image_peer.py" make "$work/$height.jpg" "$height" "$width"
done

printf '%-12s %7s %10s %10s %6s\n' processor workers disttrain peer ratio
for name in Qwen2.5-VL LLaVA-1.5; do
    for workers in 1 2; do
        rm -f "$work/ours" "$work/theirs"
        for ((round = 0; round < rounds; round++)); do
            rm -rf "$work/store"
            mkdir "$work/store"
            "$builddir/tests/bench/pictures" "$work/$name" "$work/store" \
                "$workers" 4 20 "${files[@]}" >>"$work/ours"
            "$python" "$bench/pictures_peer.py" "$work/$name" "$workers" 4 20 \
                "${files[@]}" >>"$work/theirs"
        done
        ours=$(median "$work/ours")
        theirs=$(median "$work/theirs")
        awk -v name="$name" -v n="$workers" -v a="$ours" -v b="$theirs" \
            'BEGIN { printf "%-12s %7d %10.1f %10.1f %6.2f\n", name, n, a, b, a / b }'
    done
done
