#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# keys.sh - every key of the schema is read by something outside conf/

# shellcheck disable=SC2016 # awk programs
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# fields CONF: the members of struct dt_conf in which keys are stored.
fields() {
    cat "$1"/keys/*.def "$1"/keys/schema.c | grep -v '^#define\|__VA_ARGS__' |
        grep -o '\(AT\|AND\)([a-z_0-9.]*)' | sed 's/.*(\(.*\))/\1/'
    sed -n -e '/^ROW/d' \
        -e 's/^COUNT(\([a-z_0-9.]*\), \([a-z_0-9]*\),.*/\1.\2_ratio/p' \
        -e 's/^[A-Z]*_OR_WORD(\([a-z_0-9.]*\), \([a-z_0-9]*\),.*/\1.\2/p' \
        -e 's/^[A-Z_0-9]*(\([a-z_0-9.]*\), \([a-z_0-9]*\),.*/\1.\2/p' \
        "$1"/keys/*.def | sed 's/^reward\.functions\./reward./'
}

# members ROOT: "FILE MEMBER" for each that a source outside conf/ names: of
# a->b.c these are b, c and b.c, and of TEXT(b.c) too; &c for the address of
# that; and names of functions and structures that stand for a section.
members() {
    find "$1" -name '*.[ch]' ! -path "$1/conf/*" -exec awk '
        function note(name, text,    chain, part, n, i, j, member) {
            gsub(/[ \n]*->[ \n]*/, ".", text)
            gsub(/\[[^][]*\]/, "", text)
            while (match(text, /&?[A-Za-z_)][A-Za-z_0-9]*(\.[a-z_][a-z_0-9]*)*/)) {
                chain = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                n = split(chain, part, ".")
                if (n > 1 || chain ~ /^dt_(conf|run)_/)
                    print name, chain
                if (n > 1 && chain ~ /^&/)
                    print name, "&" part[n]
                for (i = 2; i <= n; i++)
                    for (j = i; j <= n; j++) {
                        member = j == i ? part[i] : member "." part[j]
                        print name, member
                    }
            }
        }
        FNR == 1 { note(file, text); file = FILENAME; text = "" }
        { text = text "\n" $0 }
        END { note(file, text) }' {} + | sort -u
}

# unread ROOT: keys whose member nothing names. A source may take the address
# of the section, or name a function or a structure that stands for it, and then
# name a member of that; so do those of reward/.
unread() {
    members "$1" >"$data/members"
    fields "$1/conf" | sort -u | awk '
        NR == FNR { has[$1, $2]; any[$2]; files[$1]; next }
        function is_read(field,    part, n, i, j, rest, file) {
            n = split(field, part, ".")
            if (field in any)
                return 1
            for (i = 1; i < n; i++) {
                rest = part[i + 1]
                for (j = i + 2; j <= n; j++)
                    rest = rest "." part[j]
                for (file in files)
                    if ((file, rest) in has &&
                        ((file, "&" part[i]) in has ||
                         (part[i] == "reward" && file ~ "/reward/") ||
                         (file, "dt_conf_" part[i]) in has ||
                         (file, "dt_run_" part[i]) in has))
                        return 1
            }
            return 0
        }
        !is_read($1) { print $1 }' "$data/members" -
}

# Those that conf/ turns into other keys, or compares with what there is, and
# so uses up; and those of wandb, which contrib/wandb-follow reads in run.json.
used_up() {
    cat <<'END'
adapter.bias
checkpoint.steps_ratio
data.packing_strategy
distributed.backend
distributed.enabled
distributed.zero_stage
grpo.steps_per_generation
logging.steps_ratio
logging.wandb.entity
logging.wandb.group
logging.wandb.name
logging.wandb.notes
logging.wandb.project
logging.wandb.tags
model.reward_path
precision.opt_level
reward.secrets_from
rollout.repetition_penalty
scheduler.decay_steps_ratio
scheduler.min_lr_rate
scheduler.stable_steps_ratio
scheduler.total_num_steps
scheduler.warmup_ratio
training.batch_size
training.batch_size_is
training.eval_steps_ratio
training.global_micro_batch_size
END
}

# A schema of six keys, and a source that reads four of them, each in a way of
# its own.
small_tree() {
    mkdir -p "$1/conf/keys" "$1/algo"
    cat >"$1/conf/keys/all.def" <<'END'
INT(distributed, live, HELP("one")
INT(distributed, timeout, HELP("two")
MEMBER(struct dt_conf_sync_ref, sync_ref)
ROW(grpo.sync_ref, alpha, FLOAT, AT(grpo.sync_ref.alpha), HELP("three")
REAL(reward.functions, weight, HELP("four"))
ROW(launch, qos, STRING, AT(launch.qos), AND(launch.level), HELP("five")
END
    echo 'int live(void) { return conf->distributed.live; }' \
        >"$1/conf/keys/schema.c"
    cat >"$1/algo/reads.c" <<'END'
    wait(run->conf
             .distributed.timeout);
    mix(dt_run_sync_ref(conf)->alpha);
    {"qos", TEXT(launch.qos)},
    for (const struct dt_conf_reward *r = first; r; r++)
        sum += r[i].weight;
END
}

unread runtime >"$data/unread"
used_up >"$data/used_up"
expect_none "every key of the schema has a reader outside conf/" \
    "$(comm -23 "$data/unread" "$data/used_up")"
expect_none "what is said to have no other reader has none" \
    "$(comm -13 "$data/unread" "$data/used_up")"
small_tree "$data/tree"
expect_none "a key that only conf/ reads is found, and so is a second member" \
    "$(printf 'distributed.live\nlaunch.level\n' >"$data/wanted"
    unread "$data/tree" | diff "$data/wanted" -)"
done_testing
