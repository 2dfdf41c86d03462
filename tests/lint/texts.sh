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

# Tests behind the last semicolon of the column "ours", or in "shown by".
missing_tests() {
    awk -F '|' '/^## / { training = /Training/ }
        NF == 5 && $3 ~ /;/ { sub(/.*;/, "", $3); print $3 }
        NF == 4 && training && $3 !~ /---|shown by/ { print $3 }' \
        docs/comparison.md | tr ',' '\n' |
        while read -r name; do
            [ -e "tests/job/$name.bats" ] || [ -e "tests/$name.c" ] ||
                echo "$name"
        done
}

# Targets in parentheses that are neither on the web nor a heading.
missing_links() {
    for file in README.md CONTRIBUTING.md tests/README.md docs/*.md; do
        grep -oE '\]\([^)]*\)' "$file" | sed 's/^](//; s/)$//; s/#.*//' |
            grep -vE '^$|^https?://' | while read -r target; do
            [ -e "$(dirname "$file")/$target" ] || echo "$file: $target"
        done
    done
}

# Words that American English spells in another way; data.format accepts one.
british() {
    grep -rnE "(tokeni|normali|initiali|recogni|optimi|organi|seriali|\
summari|minimi|maximi)s(e|ed|es|ing|ation)\\>|behaviour|colour|licence|\
neighbour" README.md NEWS.md CONTRIBUTING.md tests/README.md docs man configs \
        contrib runtime spank | grep -v 'tokenised[";]'
}

expect_none "README.md has at most 130 lines" "$(sed -n '131,$p' README.md)"
expect_none "every test that docs/comparison.md names is there" \
    "$(missing_tests)"
expect_none "every link of README.md, CONTRIBUTING.md and docs/ leads somewhere" \
    "$(missing_links)"
expect_none "texts and comments have American spelling" "$(british)"
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
