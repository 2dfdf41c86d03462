#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# circles.sh - no two files call each other, neither directly nor through others

# shellcheck disable=SC2016,SC2069 # awk programs; tsort tells on stderr
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
: "${DT_BUILDDIR:=.}"

# objects FOLDER PREFIX: the objects of the sources that there are, not those of
# older builds; libtool puts PREFIX before their names.
objects() {
    find "$1" -name '*.c' -o -name '*.cc' | sed 's/\.cc*$//' |
        while read -r stem; do
            object=$DT_BUILDDIR/${stem%/*}/$2${stem##*/}.o
            [ ! -e "$object" ] || echo "$object"
        done
}

# "A B" for each two files of which A uses B. A line of nm -A is
# FILE:ADDRESS TYPE SYMBOL.
uses() {
    xargs nm -A | awk -v folder="$DT_BUILDDIR/" -v prefix="$1" '
        {
            split($1, part, ":")
            file = substr(part[1], length(folder) + 1)
            sub(prefix, "", file)
            sub(/\.o$/, "", file)
        }
        $(NF - 1) ~ /^[TDBRCV]$/ { home[$NF] = file }
        $(NF - 1) == "U" { used[file " " $NF] = 1 }
        END {
            for (use in used) {
                split(use, part, " ")
                if (part[2] in home && home[part[2]] != part[1])
                    print part[1], home[part[2]]
            }
        }' | sort -u
}

# Values hold lists of values, and sections of them.
# A checkpoint is one module in four files.
# Templates: macros have bodies, and filters of lists apply filters and tests,
# which know them.
allowed() {
    grep -v -e '^runtime/conf/\(lists\|reward_functions\) runtime/conf/value$' \
        -e '^runtime/ckpt/\(add\|ckpt_find\|verify\) runtime/ckpt/checkpoint$' \
        -e '^runtime/ckpt/ckpt_find runtime/ckpt/verify$' \
        -e '^runtime/template/eval runtime/template/render$' \
        -e '^runtime/template/list_filters runtime/template/filters$'
}

# circles FOLDER [PREFIX]
circles() {
    objects=$(objects "$1" "${2-}")
    if [ -z "$objects" ]; then
        echo "no objects in $DT_BUILDDIR/$1"
        return
    fi
    echo "$objects" | uses "${2-}" | allowed | tsort 2>&1 >/dev/null
}

expect_none "no circle of calls in the runtime" "$(circles runtime)"
if [ -e "$DT_BUILDDIR/spank/libdtspank.la" ]; then
    expect_none "no circle of calls in the plugin" \
        "$(circles spank .libs/libdtspank_la-)"
fi
done_testing
