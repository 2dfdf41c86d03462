#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh - names that no library of others has: each external one of ours

# shellcheck disable=SC2016 # awk programs
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
: "${DT_BUILDDIR:=.}"

# Archives of what programs and the plugin are linked from; the plugin's own
# object has the names that Slurm looks for.
archives() {
    for archive in "$DT_BUILDDIR"/runtime/libdisttrain.a \
        "$DT_BUILDDIR"/runtime/ops/lib*.a \
        "$DT_BUILDDIR"/spank/.libs/libdtspank.a; do
        [ ! -e "$archive" ] || echo "$archive"
    done
}

# Of the lines of nm -A, FILE:ADDRESS TYPE SYMBOL, those of names without a
# prefix of ours. What headers of others bring is weak; sanitizers add names
# with two underscores.
unprefixed() {
    awk 'NF > 1 && $(NF - 1) ~ /^[TDBRC]$/ {
            names++
            if ($NF !~ /^(dt_|dtspank_|__)/)
                print
        }
        END { if (names == 0) print "there are no names" }'
}

expect_none "each external name begins with dt_ or dtspank_" \
    "$(archives | xargs nm -A --defined-only --extern-only | unprefixed)"
expect_none "a function and a variable without the prefix are found" \
    "$(printf 'lib.a:a.o:00 %s\n' 'T dt_zip_find' 'T zip_find' 'W weak' \
        'D dtspank_option' 'B __odr_asan.dt' 'B dt' |
        unprefixed | tr '\n' ' ' |
        sed 's/^lib.a:a.o:00 T zip_find lib.a:a.o:00 B dt $//')"
done_testing
