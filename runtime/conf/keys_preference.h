/* SPDX-License-Identifier: Apache-2.0 */
/* keys_preference.h - rows of the schema, for schema.c: rm */
/* clang-format off */

    /* rm */
    {"rm.center_rewards_coefficient", DT_CONF_FLOAT,
     AT(rm.center_rewards_coefficient), .fallback = "0", .min = 0,
     .max = INFINITY, .result = true,
     .aliases = ALSO("center_rewards_coefficient"),
     .help = "weight of the square of the sum of both scores of a pair, which "
             "keeps scores near 0; 0.01 is usual"},
    {"rm.last_token", DT_CONF_UNUSED,
     .help = "not needed here: a sequence is scored at its last token that is "
             "not padding, as transformers does"},
