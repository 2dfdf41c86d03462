#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prose.sh - comments name the thing first, in plain sentences

# shellcheck disable=SC2016 # backquotes in texts
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

MOST=4 # tells per 100 lines of comments

# Prints "ROOM TELLS LINES" for the sources of a room. A tell is an expression
# that gives away a translated sentence; it may cross the end of a line. Names
# in backquotes do not count.
count_tells() {
    cat "$1"/*.[ch] | awk -v room="$1" '
        function tells(text) {
            text = tolower(text)
            gsub(/`[^`]*`/, "", text)
            gsub(/[^a-z]+/, " ", text)
            gsub(/ /, "  ", text)
            return gsub(/ (what|of  which|beside|behind|anew|of  those  that) /,
                "", text)
        }
        {
            line = $0
            if (!inside) gsub(/"([^"\\]|\\.)*"/, "", line) # strings
            while (inside || match(line, /\/[*\/]/)) {
                if (!inside) {
                    single = substr(line, RSTART, 2) == "//"
                    line = substr(line, RSTART + 2)
                    text = ""
                }
                lines++
                end = index(line, "*/")
                inside = !single && !end
                text = text " " (inside || single ? line : \
                    substr(line, 1, end - 1))
                if (inside) break
                found += tells(text " ")
                if (single) break
                line = substr(line, end + 2)
            }
            single = 0
        }
        END { print room, found + 0, lines + 0 }'
}

rooms() {
    find "$@" -name '*.[ch]' | sed 's/[^/]*$//; s/.$//' | LC_ALL=C sort -u
}

# Rooms with more tells than a comment in 25 lines has.
translated() {
    for room in $(rooms "$@"); do
        count_tells "$room"
    done | awk -v most="$MOST" '100 * $2 > most * $3'
}

# One room at the limit, and one with a tell more; each tell is found.
some_rooms() {
    mkdir -p "$1/plain" "$1/translated"
    for room in plain translated; do
        {
            echo '/* Sums of the tokens, of which a rank has some, and of'
            echo ' * those that others have, beside them, anew.'
            echo ' */'
            echo 'int a; /* what it is */'
            echo 'const char *what = "what behind"; // behind the last'
            [ $room = translated ] && echo '/* What it is. */'
            yes '/* Bytes of `what` a rank holds. */' | head -n 145
        } >"$1/$room/a.c"
    done
}

expect_none "at most $MOST tells of translation in 100 lines of comments" \
    "$(translated runtime spank |
        awk '{ print $1 ": " $2 " in " $3 " lines" }')"
some_rooms "$data/some"
expect_none "a room with a tell too many is found, one at the limit is not" \
    "$(printf '%s 7 151\n' "$data/some/translated" >"$data/wanted"
    translated "$data/some" | diff "$data/wanted" -)"
done_testing
