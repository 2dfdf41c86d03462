# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# tap.sh - TAP lines of the lint scripts, which source it in the source tree

cd "$(dirname "$0")/../.." || exit 1
count=0

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
    echo "1..$count"
}
