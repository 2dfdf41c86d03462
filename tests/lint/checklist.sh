#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# checklist.sh - docs/ answers each item of checklist.txt, and the manual knows
# the keys that docs/ names

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
item='[0-9]{3}-[0-9]{2,3}|THM-[0-9]{2}|T[0-9]{1,2}'

grep -v '^#' tests/lint/checklist.txt | cut -d ' ' -f 1 | sort >"$data/items"
# A comment is on one line.
cat docs/*.md | grep -oE '<!-- .* -->' | grep -owE "$item" |
    sort >"$data/answers"

# Keys in backquotes, such as `launch.nodes` or `distributed.strategy: ddp`,
# that disttrain.yaml(5) has neither as a key nor as another name of one.
unknown_keys() {
    sections=$(sed -n 's/^\.SS \([a-z]*\)$/\1/p' man/disttrain.yaml.5)
    sections="$(echo "$sections" | paste -sd '|')|rm|dpo|ppo|grpo|reward"
    cat README.md docs/*.md | grep -oE "\`($sections)\.[a-z0-9_.]+(:[^\`]*)?\`" |
        tr -d '`' | cut -d : -f 1 | sort -u | grep -vE '\.(c|h|md|sh|yaml)$' |
        while read -r key; do
            grep -qwF "$key" man/disttrain.yaml.5 || echo "$key"
        done
}

# Keys that docs/ says are to come, and that disttrain.yaml(5) does not list
# among those of later versions.
present_keys() {
    sed -n '/^\.SH KEYS OF LATER/,/^\.SH DIAGNOSTICS/p' \
        man/disttrain.yaml.5 >"$data/later"
    awk 'BEGIN { RS = "" }
        { gsub(/\n/, " "); n = split($0, part, /\*\*Not yet\*\*/)
          for (i = 2; i <= n; i++) {
              sub(/(\. |;|<!--|\|).*/, "", part[i]); print part[i] } }' \
        docs/*.md | grep -oE "\`[a-z]+\.[a-z_]+\`" | tr -d '`' | sort -u |
        while read -r key; do
            grep -qwF "$key" "$data/later" || echo "$key"
        done
}

expect_none "the items of checklist.txt have a number of their own" \
    "$(uniq -d "$data/items")"
expect_none "docs/ answers each item" \
    "$(uniq "$data/answers" | comm -23 "$data/items" -)"
expect_none "docs/ answers no item that does not exist" \
    "$(uniq "$data/answers" | comm -13 "$data/items" -)"
expect_none "docs/ answers an item in one place" "$(uniq -d "$data/answers")"
expect_none "disttrain.yaml(5) has every key that README.md and docs/ name" \
    "$(unknown_keys)"
expect_none "what docs/ says is to come is a key of later versions" \
    "$(present_keys)"
done_testing
