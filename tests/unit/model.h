/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - texts of config.json for tests; after cmocka.h */
#ifndef TESTS_UNIT_MODEL_H
#define TESTS_UNIT_MODEL_H

#include "model/model.h"

#define SIZES                                                                  \
    "\"vocab_size\": 97, \"n_positions\": 24, \"n_embd\": 32,"                 \
    "\"n_layer\": 2, \"n_head\": 4"
#define GPT2 "\"model_type\": \"gpt2\", " SIZES

#define LLAMA_SIZES                                                            \
    "\"vocab_size\": 97, \"max_position_embeddings\": 24, "                    \
    "\"hidden_size\": 32,"                                                     \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4,"                    \
    "\"intermediate_size\": 48"
/* A configuration in which the family decides num_key_value_heads and head_dim,
 * unless `keys` give them.
 */
#define HEADLESS(type, keys)                                                   \
    "{\"model_type\": \"" type "\", " LLAMA_SIZES ", " keys "}"
#define OTHER(type, keys)                                                      \
    HEADLESS(type, "\"num_key_value_heads\": 4, \"head_dim\": null, " keys)

static inline void parse(struct dt_model_config *c, const char *json)
{
    struct dt_error err = {0};
    if (dt_model_config_parse(c, json, "c", &err) < 0)
        fail_msg("%s", err.text);
}

#endif /* TESTS_UNIT_MODEL_H */
