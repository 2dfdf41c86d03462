#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs.sh - the manual knows the keys that README.md and docs/ name

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
keys=${DT_BUILDDIR:-.}/man/disttrain.yaml.5
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# Keys in backquotes, such as `launch.nodes` or `distributed.strategy: ddp`,
# that disttrain.yaml(5) has neither as a key nor as another name of one.
unknown_keys() {
    sections=$(sed -n 's/^\.SS \([a-z]*\)$/\1/p' "$keys")
    sections="$(echo "$sections" | paste -sd '|')|rm|dpo|ppo|grpo|reward"
    cat README.md docs/*.md | grep -oE "\`($sections)\.[a-z0-9_.]+(:[^\`]*)?\`" |
        tr -d '`' | cut -d : -f 1 | sort -u | grep -vE '\.(c|h|md|sh|yaml)$' |
        while read -r key; do
            grep -qwF "$key" "$keys" || echo "$key"
        done
}

# Keys that docs/ says are to come, and that disttrain.yaml(5) does not list
# among those of later versions.
present_keys() {
    sed -n '/^\.SH KEYS OF LATER/,/^\.SH DIAGNOSTICS/p' \
        "$keys" >"$data/later"
    awk 'BEGIN { RS = "" }
        { gsub(/\n/, " "); n = split($0, part, /\*\*Not yet\*\*/)
          for (i = 2; i <= n; i++) {
              sub(/(\. |;|\|).*/, "", part[i]); print part[i] } }' \
        docs/*.md | grep -oE "\`[a-z]+\.[a-z_]+\`" | tr -d '`' | sort -u |
        while read -r key; do
            grep -qwF "$key" "$data/later" || echo "$key"
        done
}

expect_none "disttrain.yaml(5) has every key that README.md and docs/ name" \
    "$(unknown_keys)"
expect_none "what docs/ says is to come is a key of later versions" \
    "$(present_keys)"
done_testing
