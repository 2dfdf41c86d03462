#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# chat.sh - rendering conversations: equal to transformers, and how fast
#
# Usage: chat.sh [--rounds N] PYTHON
#
# PYTHON has transformers and xxhash. Conversations of 20 MB are rendered on one
# thread with a few templates of tests/parity; the texts are compared, and the
# best CPU seconds of all rounds are printed, then the rate of `disttrain prepare`
# on two threads, of 200 MB and with a tokenizer made for them.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}
make -s -C "$builddir" tests/bench/render
export PYTHONDONTWRITEBYTECODE=1

best() { # of lines "parse A s, render B s, trained C s": the least of each
    awk '{ for (i = 2; i <= 8; i += 3)
               if (NR == 1 || $i < least[i]) least[i] = $i }
         END { print least[2], least[5], least[8] }'
}

"$python" "$bench/chat_peer.py" make "$work/chats.jsonl" 20000000 "$work/texts"
bytes=$(stat -c %s "$work/chats.jsonl")
printf '%-18s %12s %12s %14s %8s\n' template disttrain trained transformers \
    ratio
status=0
for name in chatml_line chatml_marks reasoning phi4 llama3_tools; do
    file=$bench/../parity/templates/$name.jinja
    for ((round = 0; round < rounds; round++)); do
        "$builddir/tests/bench/render" "$file" "$work/chats.jsonl" \
            "$work/ours" >>"$work/ours.$name"
        "$python" "$bench/chat_peer.py" render "$file" "$work/chats.jsonl" \
            "$work/theirs" >>"$work/theirs.$name" 2>/dev/null
    done
    cmp "$work/ours" "$work/theirs" || status=1
    read -r _ ours trained < <(best <"$work/ours.$name")
    read -r _ theirs _ < <(best <"$work/theirs.$name")
    awk -v f="$name" -v a="$ours" -v t="$trained" -v b="$theirs" -v n="$bytes" \
        'BEGIN { printf "%-18s %7.0f MB/s %7.0f MB/s %9.0f MB/s %8.1f\n", f,
            n / a / 1e6, n / t / 1e6, n / b / 1e6, b / a }'
done

"$python" "$bench/tokenizer_peer.py" make "$work/texts" "$work" 32000
mkdir "$work/qwen"
mv "$work/qwen.json" "$work/qwen/tokenizer.json"
for ((i = 0; i < 10; i++)); do
    cat "$work/chats.jsonl"
done >"$work/many.jsonl"
for loss in full assistant; do
    start=$(date +%s.%N)
    "$builddir/disttrain" prepare --threads 2 --tokenizer "$work/qwen" \
        --chat-template "$bench/../parity/templates/chatml_line.jinja" \
        --loss-on "$loss" --cache-dir "$work/cache" "$work/many.jsonl" \
        >/dev/null
    echo "prepare, loss on $loss: $(awk -v a="$start" -v b="$(date +%s.%N)" \
        -v n="$bytes" 'BEGIN { printf "%.0f MB/s", 10 * n / (b - a) / 1e6 }')"
done
exit $status
