#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spank.sh - the plugin shows little, needs little, and compiles everywhere

set -u
: "${DT_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"
plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
number=0

# claim TEXT COMMAND...: one test; the command's output explains a failure.
claim() {
    local text=$1 output
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $text"
    else
        echo "not ok $number - $text"
        echo "# ${output//$'\n'/$'\n'# }"
    fi
}

exports_only_hooks() {
    local names
    names=$(nm --dynamic --defined-only "$plugin" | awk '{ print $3 }')
    grep -q '^slurm_spank_task_init$' <<<"$names" &&
        ! grep -vE '^(plugin_|slurm_spank_)' <<<"$names"
}

# Sanitizers bring libraries of their own.
needs_only_libc() {
    local needed
    needed=$(objdump --private-headers "$plugin" | awk '/NEEDED/ { print $2 }')
    echo "$needed"
    ! grep -vE '^(libc\.so|libasan|libubsan|libtsan)' <<<"$needed"
}

is_hardened() {
    readelf --wide --program-headers --dynamic "$plugin" >"$tmp" || return
    grep -q GNU_RELRO "$tmp" && grep -q 'BIND_NOW\|FLAGS.*NOW' "$tmp" &&
        grep -q 'GNU_STACK.*RW ' "$tmp" && ! grep -q TEXTREL "$tmp"
}

# compiles_with RELEASE: such as 22.05, whose SLURM_VERSION_NUMBER is 0x160500.
compiles_with() {
    local file version
    version=$(((10#${1%.*} << 16) + (10#${1#*.} << 8)))
    for file in "$DT_SRCDIR"/spank/*.c "$DT_SRCDIR"/spank/*/*.c; do
        "${CC:-cc}" -std=gnu17 -fsyntax-only -Wall -Wextra -Werror \
            -DSLURM_VERSION_NUMBER="$version" -DDTSPANK_RUNTIME='"/x"' \
            -I"$DT_BUILDDIR" -I"$DT_SRCDIR/tests/lint/slurm_api" \
            -I"$DT_SRCDIR" -I"$DT_SRCDIR/runtime" "$file" || return
    done
}

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
claim "exports only what Slurm calls" exports_only_hooks
claim "links nothing but libc" needs_only_libc
claim "is hardened: full RELRO, no executable stack" is_hardened
for release in 22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05; do
    claim "compiles with Slurm $release" compiles_with "$release"
done
echo "1..$number"
