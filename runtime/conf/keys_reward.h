/* SPDX-License-Identifier: Apache-2.0 */
/* keys_reward.h - rows of the schema, for schema.c: reward */
/* clang-format off */

    /* reward; the keys of a function are in reward_keys.c */
    {"reward.functions", DT_CONF_REWARDS, AT(reward), .result = true,
     .help = "functions that score completions, for algorithms ppo and grpo; "
             "each is a section with a type and keys of its own, which follow"},
    {"reward.broadcast", DT_CONF_IGNORED,
     .help = "not needed here: every rank learns every reward"},
