#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sources.sh - what every source file has: a license, a sentence, a size

# shellcheck disable=SC2016,SC2038 # awk programs; names without blanks
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

c_files() {
    find runtime spank tests \( -name '*.[ch]' -o -name '*.cc' \
        -o -name '*.cu' -o -name '*.cuh' \) -print
}

# Other files that are code; scripts have no common ending.
other_files() {
    find runtime spank tests contrib m4 man configs .ci configure.ac \
        Makefile.am autogen.sh -type f \( -name '*.mk' -o -name '*.sh' -o \
        -name '*.am' -o -name '*.ac' -o -name '*dt_*.m4' -o -name '*.bats' \
        -o -name '*.bash' -o -name '*.py' -o -name '*.yaml' -o -name '*.[158]' \
        \) -print 2>/dev/null
}

license() {
    c_files | xargs awk '
        FNR == 1 && $0 != "/* SPDX-License-Identifier: Apache-2.0 */" {
            print FILENAME ":1: no SPDX line"
        }'
    other_files | xargs awk '
        FNR == 1 { if (open) print last ": no SPDX line"; open = 1 }
        FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { open = 0 }
        { last = FILENAME }
        END { if (open) print last ": no SPDX line" }'
}

# Line 2, or 3 of a longer comment: "name - sentence".
sentence() {
    c_files | xargs awk '
        FNR == 2 || FNR == 3 {
            name = FILENAME
            sub(/.*\//, "", name)
            if (index($0, "* " name " - "))
                found = FILENAME
            if (FNR == 3 && found != FILENAME)
                print FILENAME ":2: expected \"" name " - one sentence\""
        }'
}

# A comment ends on the line above a prototype or a group of them, or stands
# behind it.
prototypes() {
    find runtime spank -name '*.h' | xargs awk '
        function braces(text,    opened) {
            opened = gsub(/\{/, "{", text)
            return opened - gsub(/\}/, "}", text)
        }
        FNR == 1 { depth = comment = said = 0; statement = "" }
        comment { if (/\*\//) { comment = 0; said = 1 } next }
        /^[ \t]*\/\*/ {
            if (/\*\//) said = 1; else comment = 1
            next
        }
        /^#/ || /^extern "C"/ || /^[ \t]*$/ {
            if (depth == 0) { said = 0; statement = "" }
            next
        }
        {
            code = $0
            behind = sub(/\/\*.*/, "", code)
            if (behind && !/\*\//) comment = 1
            was = depth
            depth += braces(code)
            if (was > 0 || depth > 0 || code ~ /[{}]/) {
                said = 0
                statement = ""
                next
            }
            statement = statement " " code
            if (code !~ /;[ \t]*$/) next
            if (statement ~ /^ [a-z].*\(/ && statement !~ /^ typedef/ &&
                !said && !behind)
                print FILENAME ":" FNR ": a prototype without a comment"
            statement = ""
        }'
}

sizes() {
    c_files | xargs awk '
        FNR > 800 && !(FILENAME in long) {
            long[FILENAME]
            print FILENAME ": more than 800 lines"
        }'
    find runtime spank \( -name '*.c' -o -name '*.cc' \) -print | xargs awk '
        FNR == 1 { start = 0 }
        /^\{/ { start = FNR }
        /^\}/ && start {
            if (FNR - start > 60)
                print FILENAME ":" start ": a function of more than 60 lines"
            start = 0
        }'
}

# Lists of one file a line: in the order of LC_ALL=C, each once, with the marker
# "# End of ..." last, which a list of more than four has.
lists() {
    LC_ALL=C xargs awk '
        function finding(text) { print FILENAME ":" FNR ": " text }
        FNR == 1 { within = 0 }
        /^[A-Za-z0-9_]+ [+]?= \\$/ {
            within = 1
            before = marker = ""
            count = 0
            next
        }
        within {
            within = /\\$/
            sub(/[ \t]*\\$/, "")
            sub(/^[ \t]*/, "")
            if (marker) finding(marker " is not the last of its list")
            marker = ""
            if (/^#/) { marker = $0; next }
            if (/ /) { within = 0; next } # several a line
            if ($0 == before) finding($0 " is there twice")
            if ($0 < before) finding($0 " comes after " before)
            before = $0
            if (++count > 4 && !within)
                finding("a list without \"# End of ...\" in its last line")
        }'
}

# A list that is right, and one with each of these mistakes.
some_lists() {
    printf '%s \\\n' 'a =' b.c b_a.c c.c d.c e.c
    echo '# End of a'
    printf '%s \\\n' 'a +=' '# End of a' b.c b_a.c b.h b.h
    echo e.c
}

expect_none "every file says its license" "$(license)"
expect_none "every C file says in a sentence what it is" "$(sentence)"
expect_none "every prototype in a header has a comment" "$(prototypes)"
expect_none "files have at most 800 lines, functions 60" "$(sizes)"
expect_none "lists of files are sorted, name each once and end with a marker" \
    "$(find Makefile.am runtime spank contrib tests -name Makefile.am -o \
        -name '*.mk' | lists)"
some_lists >"$data/some.mk"
expect_none "each mistake in a list is found in its line" \
    "$(printf '10\n12\n13\n14\n' >"$data/wanted"
    echo "$data/some.mk" | lists | cut -d: -f2 | diff "$data/wanted" -)"
done_testing
