# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# tap.sh - TAP lines of the lint scripts, which source it in the source tree

cd "$(dirname "$0")/../.." || exit 1
LC_ALL=C
export LC_ALL
count=0

# A program of a check that fails finds nothing, which would pass: what it says
# on stderr is a finding of its own. A script that ends before done_testing has
# no plan, which fails; run it with sh -x to see why.
said=$(mktemp) || exit 1
exec 3<"$said"
exec 2>"$said"
rm "$said"

# expect_none NAME FINDINGS: passes if there are none, else shows them.
expect_none() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count # SKIP $1"
}

done_testing() {
    expect_none "every check ran" "$(cat <&3)"
    echo "1..$count"
}
