#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# checks.sh - a check that could not run does not pass

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d) || exit 1
trap 'rm -rf "$data"' EXIT

# verdicts PROGRAM: of a script whose one check finds what this awk program says
verdicts() {
    cat >"$data/tests/lint/some.sh" <<END_OF_SCRIPT
. "$PWD/tests/lint/tap.sh"
expect_none "some check" "\$(awk '$1')"
done_testing
END_OF_SCRIPT
    sh "$data/tests/lint/some.sh" | grep -o '^.*ok [0-9]' | paste -sd ' '
}

mkdir -p "$data/tests/lint"
{
    verdicts 'BEGIN { exit }'
    verdicts 'BEGIN { print "a finding" }'
    verdicts 'BEGIN { no program'
} >"$data/verdicts"
expect_none "findings fail a check, and so does a program that is wrong" \
    "$(printf 'ok 1 ok 2\nnot ok 1 ok 2\nok 1 not ok 2\n' |
        diff - "$data/verdicts")"
done_testing
