/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_data.c - opens data.train and data.eval as prompts */
#include "config.h"

#include "base/log.h"
#include "run/data.h"

static void show_note(void *ctx, const char *text)
{
    (void)ctx;
    dt_log(DT_LOG_WARN, "data", "%s", text);
}

/* Files to open, and how. */
struct source {
    const char *name; /* in messages */
    const struct dt_conf_list *files;
    double begin, end; /* of their prompts, as shares */
    bool shuffle;
};

static struct dt_prompts *open_source(const struct source *source,
                                      const struct dt_run_data *data,
                                      const struct dt_conf *conf,
                                      size_t vocab_size, bool speaks,
                                      struct dt_error *err)
{
    struct dt_prompts_options options = {
        .lines = dt_run_example_options(conf),
        .max_length = (size_t)conf->data.max_prompt_length,
        .keep_end = conf->data.prompt_cut_left,
        .begin = source->begin,
        .end = source->end,
        .shuffle = source->shuffle,
        .seed = conf->run.data_seed,
        .vocab_size = vocab_size,
    };
    options.lines.stop = data->stop;
    options.lines.note = speaks ? show_note : NULL;
    struct dt_prompts *prompts =
        dt_prompts_open((const char *const *)source->files->text,
                        source->files->count, data->tokenizer, &options, err);
    if (!prompts)
        return NULL;
    struct dt_prompts_stats s = dt_prompts_stats(prompts);
    dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
           "%s: %zu prompts, the longest of %zu tokens; of those "
           "longer than %ld (data.max_prompt_length) %zu were cut and %zu left "
           "out",
           source->name, s.count, s.longest, conf->data.max_prompt_length,
           s.cut, s.dropped);
    return prompts;
}

int dt_run_prompts_open(struct dt_run_data *data, const struct dt_conf *conf,
                        size_t vocab_size, bool speaks, struct dt_error *err)
{
    const bool files = conf->data.eval.count > 0;
    const double split =
        files ? 1.0 : 1.0 - conf->data.validation_split; /* where it begins */
    const struct source train = {"data.train", &conf->data.train, 0.0, split,
                                 conf->data.shuffle};
    const struct source held_out = {
        files ? "data.eval" : "data.validation_split",
        files ? &conf->data.eval : &conf->data.train, files ? 0.0 : split, 1.0,
        false};
    data->prompts = open_source(&train, data, conf, vocab_size, speaks, err);
    if (!data->prompts)
        return -1;
    data->hash = dt_prompts_hash(data->prompts);
    if (!dt_run_holds_out(conf))
        return 0;
    data->held_out =
        open_source(&held_out, data, conf, vocab_size, speaks, err);
    if (!data->held_out)
        return dt_error_prefix(err, "%s", held_out.name);
    data->eval_hash = files ? dt_prompts_hash(data->held_out) : 0;
    return 0;
}
