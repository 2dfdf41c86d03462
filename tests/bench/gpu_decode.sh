#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_decode.sh - tokens per second of rollouts on a GPU, against vLLM
#
# Usage: gpu_decode.sh [--model llama-1.5b|gpt2|tiny] [--limit SECONDS] PEER...
#
# PEER is disttrain or vllm=PYTHON. 1, 64 and 256 slots, two times as many
# completions of 256 tokens, in bf16; with all tokens, and with top_p 0.9. With
# 64 slots disttrain must have 0.8 of the rate of vLLM: a line of TAP says so.
# --limit is for all of it, 570 s by default.
#
# tiny tries the script itself, with the module of tests/simt.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/bench/gpu.bash
. "$bench/gpu.bash"

[[ " $* " == *" --model "* ]] || set -- --model llama-1.5b "$@"
parse "--model --limit" "$@"
all_slots=(1 64 256) tokens=256
[[ $model != tiny ]] || all_slots=(1 4) tokens=4
"$bench/disttrain_step.py" --model "$model" --print-model >"$work/config.json"

# rate PEER SLOTS TOP_P: of one run, or "failed", or "no time"
rate() {
    local left=$((limit - SECONDS)) command
    case $1 in
    disttrain)
        command=("$builddir/tests/bench/decode" -d cuda -c "$work/config.json"
            -p "$3" bf16 "$2" $((2 * $2)) "$tokens" 0)
        ;;
    vllm=*)
        command=("${1#*=}" "$bench/vllm_decode.py" "$work/config.json" "$2"
            $((2 * $2)) "$tokens" "$3")
        ;;
    *) die "there is no peer $1" ;;
    esac
    if ((left < 10)); then
        echo "no time"
    elif timeout "$left" "${command[@]}" 2>"$work/errors" >"$work/rate"; then
        sed -n 's/^\([0-9.]*\) tokens.*/\1/p' "$work/rate"
    else
        echo "exit status $?: ${command[*]}" >&2
        tail -n 20 "$work/errors" >&2
        echo failed
    fi
}

# The peers one after the other: what is slow to start leaves the others' time.
for peer in "${peers[@]}"; do
    for top_p in 1 0.9; do
        for slots in "${all_slots[@]}"; do
            rate "$peer" "$slots" "$top_p" >"$work/${peer%%=*}.$slots.$top_p"
        done
    done
done

# of PEER SLOTS TOP_P: its rate
of() {
    cat "$work/$1.$2.$3"
}

printf '| slots | top_p |'
printf ' %s |' "${peers[@]%%=*}"
printf '\n|--:|--:|'
printf -- '--:|%.0s' "${peers[@]}"
echo
for top_p in 1 0.9; do
    for slots in "${all_slots[@]}"; do
        printf '| %s | %s |' "$slots" "$top_p"
        for peer in "${peers[@]%%=*}"; do
            printf ' %s |' "$(of "$peer" "$slots" "$top_p")"
        done
        echo
    done
done
echo
at_most "rollouts of disttrain that failed" \
    "$(cat "$work"/disttrain.* | grep -c failed)" 0
[[ " ${all_slots[*]} " == *" 64 "* ]] || exit 0
for top_p in 1 0.9; do
    name="64 slots, top_p $top_p, of vLLM's rate"
    if [[ ${peers[1]-} == vllm=* && $(of vllm 64 "$top_p") == [0-9]* ]]; then
        at_least "$name" "$(quotient "$(of disttrain 64 "$top_p")" \
            "$(of vllm 64 "$top_p")")" 0.8
    else
        echo "ok - $name # SKIP vLLM gave none"
    fi
done
