#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_profile.sh - every kernel of a step on a GPU, summed by name
#
# Usage: gpu_profile.sh [--model gpt2|tiny] OUT
#
# Two layers of GPT-2 124M, 2 x 64 x 1024 tokens a step, under ncu, or under
# nsys where there is no ncu. The last step is taken: recorded graphs are
# replayed in it. OUT/profile.raw.csv is what the tool wrote.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--model" "$@"
to=${peers[0]}
raw=$to/profile.raw.csv
case $model in
gpt2) shape=(--batch 64 --tokens 1024) vocab=50257 ;;
tiny) shape=(--batch 2 --tokens 16) vocab=256 ;;
*) die "there is no model $model" ;;
esac

toolkit=/usr/local/cuda/bin
tool=$(command -v ncu || command -v nsys || command -v $toolkit/ncu ||
    command -v $toolkit/nsys) || {
    echo "not ok - a profile: neither ncu nor nsys is in PATH; they come with" \
        "the CUDA toolkit, or as nsight-compute and nsight-systems"
    exit 1
}
rm -f "$raw" "$work/profile.nsys-rep"
if [[ $tool == *ncu ]]; then
    under=("$tool" --csv --log-file "$raw" --target-processes all
        --graph-profiling node --clock-control none --print-units base
        --metrics gpu__time_duration.sum)
else
    under=("$tool" profile --trace cuda --sample none --cuda-graph-trace node
        --output "$work/profile")
fi
cat >"$work/disttrain" <<END_OF_PROGRAM
#!/bin/bash
exec ${under[*]@Q} ${builddir@Q}/disttrain "\$@"
END_OF_PROGRAM
chmod +x "$work/disttrain"

"$bench/disttrain_step.py" --model "$model" --print-model |
    sed 's/"n_layer": [0-9]*/"n_layer": 2/' >"$work/config.json"
tokens "$work/tokens.bin" "$vocab"
"$bench/disttrain_step.py" --disttrain "$work/disttrain" \
    --data "$work/tokens.bin" --config "$work/config.json" --device cuda \
    --precision bf16 "${shape[@]}" --accumulate 2 --warmup 2 --steps 2
[[ $tool == *ncu ]] ||
    "$tool" stats --report cuda_gpu_trace --format csv --output - \
        "$work/profile.nsys-rep" >"$raw"
echo "$model of two layers, by $tool:"
echo
"$bench/kernels.py" --csv "$to/profile.csv" "$raw"
