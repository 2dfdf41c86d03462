/* SPDX-License-Identifier: Apache-2.0 */
/* eos_check.c - checks that a model stops where its chat template ends answers
 */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "rollout/stops.h"
#include "run/run.h"
#include "sampling/sampling.h"
#include "tokenizer/chat/chat.h"

enum { STOPS = 32 };

/* The token that ends answers in the data; -1: none, or unknown. */
static int32_t find_end(const struct dt_conf *conf,
                        const struct dt_tokenizer *tokenizer)
{
    const struct dt_example_options options = dt_run_example_options(conf);
    enum dt_format format;
    if (!tokenizer || conf->data.kind != DT_KIND_LINES ||
        dt_examples_format(conf->data.train.text[0], &options, &format, NULL) <
            0 ||
        format != DT_FORMAT_MESSAGES)
        return -1;
    struct dt_chat *chat = dt_chat_create(
        options.chat_template, options.chat_variables, tokenizer, NULL);
    int32_t end = chat ? dt_chat_end(chat) : -1;
    dt_chat_destroy(chat);
    return end;
}

/* Whether `generate` would stop at a token. */
static bool is_stop(const struct dt_run *run, int32_t id)
{
    const struct dt_model_config *config = &run->spec.learner.config;
    int32_t ids[STOPS];
    size_t count = 0;
    if (id == dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_EOS))
        return true;
    for (size_t i = 0; i < config->eos_count; i++)
        if (config->eos[i] == id)
            return true;
    if (run->spec.conf.model.path)
        dt_stops_read(run->spec.conf.model.path, config->vocab_size, ids, STOPS,
                      &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

void dt_run_warn_answers(const struct dt_run *run)
{
    struct dt_detokenizer state = {.tokenizer = run->data.tokenizer};
    char text[256];
    int32_t end = find_end(&run->spec.conf, run->data.tokenizer);
    if (end < 0 || is_stop(run, end))
        return;
    dt_detokenize(&state, end, text, sizeof(text));
    dt_log(DT_LOG_WARN, "algo",
           "the chat template ends answers with %s, token %d, which is no end "
           "token of the model: `disttrain generate` will not stop there "
           "unless it is named in eos_token_id of generation_config.json",
           text, end);
}
