# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# limits.sh - what a measured figure must be, as lines of TAP

# at_least NAME VALUE LEAST: a line of TAP
at_least() {
    awk -v name="$1" -v value="$2" -v least="$3" 'BEGIN {
        printf "%s - %s: %s, at least %s\n",
            (value + 0 >= least + 0 ? "ok" : "not ok"), name, value, least }'
}

# at_most NAME VALUE MOST: a line of TAP
at_most() {
    awk -v name="$1" -v value="$2" -v most="$3" 'BEGIN {
        printf "%s - %s: %s, at most %s\n",
            (value != "" && value + 0 <= most + 0 ? "ok" : "not ok"), name,
            value, most }'
}

# quotient A B: to three places
quotient() {
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", (b > 0 ? a / b : 0) }'
}
