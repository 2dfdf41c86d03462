#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# texts.sh - shell scripts and manual pages, by the tools made for them

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"

# Shell scripts: by their ending or their first line.
scripts() {
    find autogen.sh .ci contrib debian tests -type f 2>/dev/null |
        while read -r file; do
            case $file in
            *.sh | *.bash | *.bats | */completions/*) echo "$file" ;;
            *)
                case $(head -c 64 "$file" | tr -d '\0' | head -n 1) in
                '#!'*sh | '#!'*bats) echo "$file" ;;
                esac
                ;;
            esac
        done
}

# Names in the rows of variables.c that spank_disttrain(8) does not have.
undocumented() {
    sed -n 's/^    {[A-Z |]*, "\([A-Z_]*\)".*/\1/p' \
        runtime/contract/variables.c |
        while read -r name; do
            grep -q "\<$name\>" man/spank_disttrain.8 || echo "$name"
        done
}

expect_none "every variable that tasks get is in spank_disttrain(8)" \
    "$(undocumented)"

if command -v shellcheck >/dev/null; then
    expect_none "shellcheck accepts every script" \
        "$(scripts | xargs shellcheck -x -f gcc)"
else
    skip "shellcheck is not installed"
fi

if command -v mandoc >/dev/null; then
    expect_none "mandoc accepts every manual page" \
        "$(mandoc -Tlint -Wwarning man/*.[158])"
else
    skip "mandoc is not installed"
fi
done_testing
