/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_data.c - opens data.train as prompts */
#include "config.h"

#include "algo/data.h"
#include "base/log.h"

static void show_note(void *ctx, const char *text)
{
    (void)ctx;
    dt_log(DT_LOG_WARN, "data", "%s", text);
}

int dt_run_prompts_open(struct dt_run_data *data, const struct dt_conf *conf,
                        size_t vocab_size, bool speaks, struct dt_error *err)
{
    struct dt_prompts_options options = {
        .lines = dt_run_example_options(conf),
        .max_length = (size_t)conf->data.max_prompt_length,
        .keep_end = conf->data.prompt_cut_left,
        .shuffle = conf->data.shuffle,
        .seed = conf->run.data_seed,
        .vocab_size = vocab_size,
    };
    options.lines.note = speaks ? show_note : NULL;
    data->prompts =
        dt_prompts_open((const char *const *)conf->data.train.text,
                        conf->data.train.count, data->tokenizer, &options, err);
    if (!data->prompts)
        return -1;
    data->hash = dt_prompts_hash(data->prompts);
    struct dt_prompts_stats s = dt_prompts_stats(data->prompts);
    dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
           "data.train: %zu prompts, the longest of %zu tokens; of those "
           "longer than %ld (data.max_prompt_length) %zu were cut and %zu left "
           "out",
           s.count, s.longest, conf->data.max_prompt_length, s.cut, s.dropped);
    return 0;
}
