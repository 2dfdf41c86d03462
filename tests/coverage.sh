#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# coverage.sh - the lines that tests have run, by folder
#
# For a build directory of "configure --enable-coverage", after the tests. A
# source that is compiled several times counts once, as where most of it ran.

find . -name '*.gcno' ! -path './disttrain-*' -exec "${GCOV:-gcov}" -n {} + \
    2>/dev/null | awk '
    /^File / {
        match($0, /(runtime|spank)\/[^\047]*/)
        file = substr($0, RSTART, RLENGTH)
    }
    /^Lines executed:/ && file != "" {
        split($2, percent, /[:%]/)
        if (!(file in lines) || percent[2] * $4 > ran[file] * 100) {
            ran[file] = percent[2] * $4 / 100
            lines[file] = $4
        }
        file = ""
    }
    END {
        for (file in lines) {
            folder = file
            sub(/\/[^\/]*$/, "", folder)
            all[folder] += lines[file]
            hit[folder] += ran[file]
            all["in all"] += lines[file]
            hit["in all"] += ran[file]
        }
        for (folder in all)
            printf "%-24s %5.1f %% of %6d lines\n", folder,
                100 * hit[folder] / all[folder], all[folder] | "sort"
        close("sort")
        exit !("in all" in all)
    }'
