#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tokenizer.sh - tokens of mixed text: equal to the reference's, and how fast
#
# Usage: tokenizer.sh [--rounds N] PYTHON
#
# PYTHON has the library tokenizers. For each family, a tokenizer is trained on
# 8 MB of made and found text; both encode it on one thread, the tokens are
# compared, and the best CPU seconds of all rounds are printed.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

parse "--rounds" "$@"
python=${peers[0]}
make -s -C "$builddir" tests/bench/tokenize
export PYTHONDONTWRITEBYTECODE=1

best() { # of lines "load A s, encode B s": the least A and B
    awk '{ if (NR == 1 || $2 < load) load = $2
           if (NR == 1 || $5 < encode) encode = $5 }
         END { print load, encode }'
}

"$bench/tokenizer_texts.py" "$work/texts" 4000000 4000000
"$python" "$bench/tokenizer_peer.py" make "$work/texts" "$work" 8000
bytes=$(stat -c %s "$work/texts")
printf '%-8s %12s %12s %8s\n' family disttrain tokenizers ratio
status=0
for file in "$work"/*.json; do
    family=$(basename "$file" .json)
    for ((round = 0; round < rounds; round++)); do
        "$builddir/tests/bench/tokenize" "$file" "$work/texts" "$work/ours" \
            >>"$work/ours.$family"
        "$python" "$bench/tokenizer_peer.py" encode "$file" "$work/texts" \
            "$work/theirs" >>"$work/theirs.$family"
    done
    cmp "$work/ours" "$work/theirs" || status=1
    read -r _ ours < <(best <"$work/ours.$family")
    read -r _ theirs < <(best <"$work/theirs.$family")
    awk -v f="$family" -v a="$ours" -v b="$theirs" -v n="$bytes" 'BEGIN {
        printf "%-8s %7.1f MB/s %7.1f MB/s %8.1f\n", f, n / a / 1e6,
            n / b / 1e6, b / a }'
done
exit $status
