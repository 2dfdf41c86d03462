#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs.sh - the manual knows the keys that README.md and docs/ name, and keys
# and models are as docs/ says

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
disttrain=${DT_BUILDDIR:-.}/disttrain
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

# Keys of other programs in tables, each with what its row says: "accepted",
# "refused" or "unknown here". One that stands only in a section, or whose value
# decides, is left out; one without a value has true.
foreign_keys() {
    awk -F '|' '$2 ~ /only in|also with/ || $3 ~ /^ *accepted if/ { next }
        match($3, /^ *(accepted|refused)|unknown here/) {
            split(substr($3, RSTART, RLENGTH), what, " ")
            while (match($2, /`[^`]*`/)) {
                key = substr($2, RSTART + 1, RLENGTH - 2)
                $2 = substr($2, RSTART + RLENGTH)
                sub(/^--/, "", key)
                if (key !~ /:/ && !sub(/ /, ": ", key))
                    key = key ": true"
                if (key !~ /\.\.\./)
                    print what[1], key
            } }' "$1"
}

# other_keys FILE: those with which check does otherwise.
other_keys() {
    foreign_keys "$1" | while read -r what line; do
        printf '%s\n' "algorithm: sft" "run: {name: a}" \
            "model: {config_path: .}" "data: {train: a.jsonl}" "$line" \
            >"$data/one.yaml"
        said=$("$disttrain" check "$data/one.yaml" 2>&1 | grep "one.yaml:5:")
        case $what:$said in
        accepted:warning:*here:*) ;;
        unknown:*"unknown key"*) ;;
        unknown:*) echo "$1: $line: not unknown to check: $said" ;;
        refused:"$data"*) ;;
        *) echo "$1: $line: $what, but check says: $said" ;;
        esac
    done
}

# Models of images and text that docs/images.md does not list.
unlisted_models() {
    # shellcheck disable=SC2016 # of markdown
    sed -n '/^`model_type`/,/^$/p' docs/images.md >"$data/listed"
    sed -n '/^const struct dt_vision_family/,/;/s/^    \.type = "\(.*\)",/\1/p' \
        runtime/model/family/vision/*.c | while read -r type; do
        grep -qF "\`$type\`" "$data/listed" || echo "$type"
    done
}

cat >"$data/rows" <<'END'
| `do_train`, `neftune_noise_alpha` | accepted, no effect |
| `do_train`, `neftune_noise_alpha` | refused: remove it |
| `mm_patch_merge_type flat`, `bits: 8` | accepted |
| `do_train`, `no_such_key` | leave them out: they are unknown here |
END

expect_none "check takes and refuses keys as docs/migrating.md says" \
    "$(other_keys docs/migrating.md)"
expect_none "a key that check takes otherwise is found" \
    "$(other_keys "$data/rows" | grep -c . | grep -vx 4)"
expect_none "docs/images.md lists the models of images and text" \
    "$(unlisted_models)"
expect_none "disttrain.yaml(5) has every key that README.md and docs/ name" \
    "$(unknown_keys)"
expect_none "what docs/ says is to come is a key of later versions" \
    "$(present_keys)"
done_testing
