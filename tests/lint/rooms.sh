#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rooms.sh - names say which file is meant, and no room grows without bound

# shellcheck disable=SC2016,SC2038 # awk programs; names without blanks
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

sources() {
    find "$@" \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
        -o -name '*.cuh' -o -name '*.def' \) -print
}

# Debuggers and profilers print the name of a file without its folder. The
# compat folder has the name of the header that it stands in for.
equal_names() {
    sources "$@" | grep -v /compat/ | LC_ALL=C sort | awk -F / '
        $NF in first { print $0 " has the name of " first[$NF] }
        !($NF in first) { first[$NF] = $0 }'
}

# A short header with one reader belongs into that. DIR is what the paths in
# includes start from.
single_readers() {
    dir=$1
    shift
    (cd "$dir" && sources "$@" | xargs awk '
        FNR == 1 {
            path = FILENAME
            sub(/^runtime\//, "", path)
        }
        path ~ /\.h$/ && path !~ /^tests/ { lines[path] = FNR }
        /^[ \t]*#[ \t]*include "/ {
            split($0, part, "\"")
            header = part[2]
            if (header !~ /\//) {
                folder = path
                sub(/[^\/]*$/, "", folder)
                header = folder header
            }
            readers[header]++
            reader[header] = FILENAME
        }
        END {
            for (header in lines)
                if (lines[header] <= 45 && readers[header] == 1)
                    print header ": " lines[header] " lines for " \
                        reader[header] " alone"
        }' | LC_ALL=C sort)
}

# Rooms of more than MOST lines; kernels for two devices are as many as they
# are.
large_rooms() {
    most=$1
    shift
    find "$@" -name local.mk | while read -r list; do
        room=${list%/local.mk}
        case $room in */ops) continue ;; esac
        inner=$(find "$room" -mindepth 2 -name local.mk \
            -exec dirname {} \; | sed 's|.*|-path & -prune -o|')
        # shellcheck disable=SC2086 # a list of arguments
        lines=$(find "$room" $inner -type f ! -name local.mk -print |
            xargs cat | wc -l)
        [ "$lines" -le "$most" ] || echo "$room has $lines lines"
    done
}

# A tree with one finding of each kind.
some_rooms() {
    mkdir -p "$1/runtime/a/b" "$1/runtime/c"
    touch "$1/runtime/a/local.mk" "$1/runtime/a/b/local.mk" \
        "$1/runtime/c/local.mk"
    echo '#include "a/shared.h"' >"$1/runtime/a/one.c"
    echo '#include "a/short.h"' >>"$1/runtime/a/one.c"
    echo '#include "long.h"' >>"$1/runtime/a/one.c"
    echo '#include "a/shared.h"' >"$1/runtime/a/b/one.c"
    yes | head -n 46 >"$1/runtime/a/long.h"
    yes | head -n 45 >"$1/runtime/a/short.h"
    yes | head -n 45 >"$1/runtime/a/shared.h"
    yes | head -n 141 >"$1/runtime/c/c.c"
}

expect_none "no two files have one name" "$(equal_names runtime spank)"
expect_none "no short header has one reader" \
    "$(single_readers . runtime spank tests)"
expect_none "no room but ops has more than 9000 lines" \
    "$(large_rooms 9000 runtime)"
some_rooms "$data/some"
expect_none "each kind is found" "$( (
    equal_names "$data/some/runtime"
    single_readers "$data/some" runtime
    large_rooms 140 "$data/some/runtime"
) | sed "s|$data/some/||g" | diff - /dev/fd/3 3<<'EOF'
runtime/a/one.c has the name of runtime/a/b/one.c
a/short.h: 45 lines for runtime/a/one.c alone
runtime/c has 141 lines
EOF
)"
done_testing
