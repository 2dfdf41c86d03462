#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# man.sh - every command has a manual page, and the page what its --help has

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
disttrain=${DT_BUILDDIR:-.}/disttrain
keys=${DT_BUILDDIR:-.}/man/disttrain.yaml.5
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# The commands of `disttrain --help`, each with what it does.
commands() {
    "$disttrain" --help | sed -n 's/^  \([a-z][a-z-]*\)  */\1 /p'
}

# page FILE: the page as text with plain hyphens and without fonts.
page() {
    sed -e 's/\\-/-/g' -e 's/\\f[A-Z]//g' "$1"
}

# Each command is in disttrain(1) with the words of `disttrain --help`.
overview() {
    commands | while read -r name what; do
        page man/disttrain.1 |
            grep -A1 -Fx ".BR disttrain-$name (1)" | grep -qixF "$what." ||
            echo "man/disttrain.1: disttrain-$name: $what."
    done
}

sections() {
    commands | while read -r name _; do
        sed -n 's/^\.SH //p' "man/disttrain-$name.1" 2>&1 | tr '\n' ' ' |
            grep -Eq "^NAME SYNOPSIS DESCRIPTION OPTIONS EXIT STATUS .*\
SEE ALSO $" || echo "man/disttrain-$name.1: sections"
    done
}

# heads COMMAND: the options of its --help with their arguments, one a line.
heads() {
    "$disttrain" "$1" --help |
        sed -En 's/^  ((-[a-z], )?--.*)/\1/p' | sed 's/  .*//' | sort
}

# man_heads FILE: the same of a page: the line after each .TP of its OPTIONS,
# whose macro joins words unless it is .B.
man_heads() {
    page "$1" | sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' | grep -A1 '^\.TP' |
        awk '/^\.B .*--/ { sub(/^\.B /, ""); print }
            /^\.(BI|BR) .*--/ {
                text = ""
                n = split(substr($0, 5), part, "\"")
                for (i = 1; i <= n; i++) {
                    if (i % 2 == 1)
                        gsub(/ /, "", part[i])
                    text = text part[i]
                }
                print text
            }' | sort
}

# Options that --help describes and the page does not, and the other way round,
# or with another argument.
missing() {
    commands | while read -r name _; do
        heads "$name" >"$data/help"
        man_heads "man/disttrain-$name.1" | diff "$data/help" - |
            sed -n "s/^</disttrain $name --help alone:/p
                s/^>/man\/disttrain-$name.1 alone:/p"
    done
}

installed() {
    for file in man/*.[158]; do
        grep -Eq "^(dist_man_MANS \+=|	) *$file\b" Makefile.am spank/local.mk ||
            echo "$file is not in dist_man_MANS"
    done
}

# Numbers that messages or the documentation have and disttrain.yaml(5) does not
# explain, and the other way round.
numbers() {
    sed -n 's/^\.B \(E1[0-9][0-9]\)$/\1/p' "$keys" >"$data/manual"
    find runtime spank \( -name '*.[ch]' -o -name '*.def' \) \
        -exec sed 's@/\*.*@@' {} + | grep -o '"[^"]*\bE1[0-9][0-9]\b' |
        grep -o 'E1[0-9][0-9]$' | sort -u |
        diff "$data/manual" - | sed -n 's/^[<>]/messages and manual differ:/p'
    grep -oh '\bE1[0-9][0-9]\b' README.md docs/*.md | sort -u |
        comm -13 "$data/manual" - | sed 's/^/documentation only: /'
}

# The first letter of a help text becomes a capital one, which the name of a key
# does not have; and no line of --help is too long for a terminal.
shape() {
    grep -nE '^[A-Z][a-z]+(_[a-z]+|\.[a-z_]+)+ ' "$keys" |
        sed 's/^/a sentence begins with a key: /'
    commands | while read -r name _; do
        "$disttrain" "$name" --help | grep -E '^.{80}' |
            sed "s/^/disttrain $name --help: /"
    done
}

expect_none "disttrain(1) lists every command" "$(overview)"
expect_none "every command has a page with the usual sections" "$(sections)"
expect_none "pages and --help have the same options and arguments" \
    "$(missing)"
expect_none "every manual page is installed" "$(installed)"
expect_none "disttrain.yaml(5) explains the numbers of all messages" \
    "$(numbers)"
expect_none "help texts begin as sentences do and fit a terminal" "$(shape)"
done_testing
