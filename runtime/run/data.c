/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - opens the files of a configuration's data section as rows */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omp.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "data/image_text.h"
#include "run/data.h"
#include "tokenizer/chat/chat.h"

enum { PROGRESS_SECONDS = 10 };

/* --- the tokenizer --- */

const char *dt_run_tokenizer_path(const struct dt_conf *conf)
{
    switch ((enum dt_conf_tokenizer)conf->model.tokenizer) {
    case DT_CONF_TOKENIZER_PATH:
        return conf->model.tokenizer_path;
    case DT_CONF_TOKENIZER_AUTO:
        if (dt_tokenizer_in(conf->model.path))
            return conf->model.path;
        if (dt_tokenizer_in(conf->model.config_path))
            return conf->model.config_path;
        if (dt_conf_composes(conf)) /* until model.path is there */
            return conf->model.language;
        break;
    case DT_CONF_TOKENIZER_BYTE:
        break;
    }
    return "byte";
}

const char *dt_run_tokenizer_dir(const struct dt_conf *conf)
{
    const char *path = dt_run_tokenizer_path(conf);
    return strcmp(path, "byte") != 0 ? path : conf->model.path;
}

/* Refuses a model without a tokenizer: bytes are used only if asked for. */
static int need_tokenizer(const struct dt_conf *conf, size_t vocab_size,
                          struct dt_error *err)
{
    bool ids = conf->data.format == DT_FORMAT_TOKENIZED ||
               conf->data.kind == DT_KIND_TOKENS;
    if (ids || !conf->model.path || vocab_size == DT_BYTE_VOCAB ||
        conf->model.tokenizer != DT_CONF_TOKENIZER_AUTO ||
        strcmp(dt_run_tokenizer_path(conf), "byte") != 0)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "%s has no tokenizer.json or tokenizer.model: let "
                        "transformers write one, "
                        "AutoTokenizer.from_pretrained(DIR).save_pretrained("
                        "DIR), or name a tokenizer's directory, or byte, as "
                        "model.tokenizer; lines of token ids need data.format: "
                        "tokenized",
                        conf->model.path);
}

static int open_tokenizer(struct dt_run_data *data, const struct dt_conf *conf,
                          size_t vocab_size, struct dt_error *err)
{
    const char *path = dt_run_tokenizer_path(conf);
    if (!(data->tokenizer = dt_tokenizer_load(path, err)))
        return -1;
    size_t tokens = dt_tokenizer_vocab_size(data->tokenizer);
    /* given ids are checked when rows are read */
    if (tokens > vocab_size && conf->data.format != DT_FORMAT_TOKENIZED)
        return dt_error_set(err, EX_CONFIG,
                            "E120 the tokenizer %s has %zu tokens, but the "
                            "model's vocab_size is %zu: is it the tokenizer "
                            "of this model? model.resize_embeddings adds rows "
                            "for new tokens; lines of token ids need "
                            "data.format: tokenized",
                            path, tokens, vocab_size);
    return 0;
}

/* Whether the run ends before it has read all rows once. */
static bool ends_early(const struct dt_conf *conf, const struct dt_rows *rows)
{
    double read = (double)conf->training.max_steps *
                  (double)conf->training.train_batch_size;
    return read > 0 && read < (double)dt_rows_count(rows);
}

/* Logs tokens that an epoch leaves out. */
static void log_tail(const char *what, const struct dt_rows *rows, bool speaks)
{
    size_t tail = dt_rows_stats(rows).tail;
    if (tail > 0)
        dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
               "%s: the last %zu tokens do not fill a row of %zu and are left "
               "out",
               what, tail, dt_rows_max_length(rows));
}

/* --- streams --- */

bool dt_run_is_stream(const struct dt_conf *conf)
{
    return conf->data.kind == DT_KIND_TOKENS ||
           (conf->data.kind == DT_KIND_TEXT &&
            strcmp(dt_run_tokenizer_path(conf), "byte") == 0);
}

static struct dt_dataset *open_stream(const struct dt_conf *conf,
                                      const struct dt_conf_list *paths,
                                      size_t vocab_size, struct dt_error *err)
{
    return dt_dataset_open((const char *const *)paths->text, paths->count,
                           conf->data.format, vocab_size, err);
}

/* Every token of a stream is trained on once an epoch. Sets *key to that of a
 * mistake.
 */
static int check_stream(const struct dt_conf *conf, const char **key,
                        struct dt_error *err)
{
    const struct dt_conf_list *files[] = {&conf->data.train, &conf->data.eval};
    int loss = conf->data.loss_on;
    for (size_t k = 0; k < 2; k++) {
        *key = k == 0 ? "data.train" : "data.eval";
        for (size_t i = 0; i < files[k]->count; i++)
            if (files[k]->weight[i] != 1.0)
                return dt_error_set(err, EX_CONFIG,
                                    "%s: a weight is for files of examples, "
                                    "not for a stream of tokens: name the "
                                    "file more than once",
                                    files[k]->text[i]);
    }
    *key = "data.loss_on";
    if (loss == DT_LOSS_COMPLETION || loss == DT_LOSS_ASSISTANT)
        return dt_error_set(err, EX_CONFIG, "E112 %s is one stream, without %s",
                            files[0]->text[0],
                            loss == DT_LOSS_COMPLETION ? "completions"
                                                       : "conversations");
    return 0;
}

static int open_streams(struct dt_run_data *data, const struct dt_conf *conf,
                        size_t vocab_size, bool speaks, struct dt_error *err)
{
    size_t T = (size_t)conf->data.max_length;
    const char *key;
    if (check_stream(conf, &key, err) < 0)
        return dt_error_prefix(err, "%s", key);
    data->stream = open_stream(conf, &conf->data.train, vocab_size, err);
    if (!data->stream)
        return -1;
    size_t tokens = dt_dataset_tokens(data->stream), held_out = 0;
    if (conf->data.eval.count == 0)
        held_out = (size_t)((double)tokens * conf->data.validation_split);
    data->hash = dt_dataset_hash(data->stream);
    data->train = dt_rows_of_stream(data->stream, 0, tokens - held_out, T, err);
    if (!data->train)
        return -1;
    log_tail("data.train", data->train,
             speaks && !ends_early(conf, data->train));
    if (conf->data.eval.count > 0) {
        data->eval_stream =
            open_stream(conf, &conf->data.eval, vocab_size, err);
        if (!data->eval_stream)
            return -1;
        data->eval_hash = dt_dataset_hash(data->eval_stream);
        data->eval = dt_rows_of_stream(
            data->eval_stream, 0, dt_dataset_tokens(data->eval_stream), T, err);
    } else if (conf->data.validation_split > 0) {
        data->eval = dt_rows_of_stream(data->stream, tokens - held_out,
                                       held_out, T, err);
    } else {
        return 0;
    }
    if (!data->eval)
        return dt_error_prefix(err, "%s: held-out data", conf->file);
    log_tail("held out", data->eval, speaks);
    return 0;
}

/* --- examples --- */

/* The template of a stage that trains a projector is plain, unless another is
 * given or the model marks its images otherwise. A model that is still to be
 * made will have that of LLaVA.
 */
static int template_of(const struct dt_conf *conf,
                       const struct dt_run_images *images)
{
    const bool others =
        images && images->there &&
        strcmp(images->options.text->mark, DT_IMAGE_MARKER) != 0;
    if (conf->data.chat_template != DT_CONF_CHAT_AUTO)
        return conf->data.chat_template;
    if (conf->model.stage == DT_CONF_STAGE_PRETRAIN && !others)
        return DT_CONF_CHAT_LLAVA_PLAIN;
    return dt_conf_composes(conf) && !dt_tokenizer_in(conf->model.path)
               ? DT_CONF_CHAT_LLAVA
               : DT_CONF_CHAT_AUTO;
}

struct dt_example_options dt_run_example_options(
    const struct dt_conf *conf, const struct dt_run_images *images)
{
    static const char *const templates[] = {
        [DT_CONF_CHAT_AUTO] = "auto",
        [DT_CONF_CHAT_NONE] = "none",
        [DT_CONF_CHATML] = "chatml",
        [DT_CONF_CHAT_QWEN25] = "qwen2.5",
        [DT_CONF_CHAT_QWEN3] = "qwen3",
        [DT_CONF_CHAT_LLAMA2] = "llama2",
        [DT_CONF_CHAT_LLAMA3] = "llama3",
        [DT_CONF_CHAT_LLAMA31] = "llama3.1",
        [DT_CONF_CHAT_MISTRAL] = "mistral",
        [DT_CONF_CHAT_LLAVA] = "llava",
        [DT_CONF_CHAT_LLAVA_PLAIN] = "llava-plain",
    };
    return (struct dt_example_options){
        .format = conf->data.format,
        .loss_on = conf->data.loss_on,
        .text_key = conf->data.text_column,
        .prompt_key = conf->data.prompt_column,
        .completion_key = conf->data.completion_column,
        .messages_key = conf->data.messages_column,
        .chosen_key = conf->data.chosen_column,
        .rejected_key = conf->data.rejected_column,
        .margin_key = conf->data.margin_column,
        .chat_template = conf->data.chat_template == DT_CONF_CHAT_FILE
                             ? conf->data.chat_template_path
                             : templates[template_of(conf, images)],
        .chat_variables = conf->data.chat_template_kwargs,
        .parse_special = conf->data.parse_special,
        .images = images && images->there ? &images->options : NULL,
        .bad_limit = conf->data.bad_lines,
        .threads = omp_get_max_threads(),
        .cache_dir = conf->data.cache_dir,
    };
}

/* The progress of a file that takes long. */
struct display {
    const char *path;
    double next; /* when the next line is due */
};

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct display *display = ctx;
    if (dt_clock_now() < display->next)
        return;
    display->next = dt_clock_now() + PROGRESS_SECONDS;
    dt_log(DT_LOG_NEWS, "data", "%s: %.0f %% of %.1f MB tokenized",
           display->path, 100.0 * (double)done / (double)total,
           (double)total / 1e6);
}

static void show_note(void *ctx, const char *text)
{
    (void)ctx;
    dt_log(DT_LOG_WARN, "data", "%s", text);
}

/* `speaks`: this rank logs what it finds. */
static int open_files(struct dt_run_data *data, const struct dt_conf *conf,
                      const struct dt_conf_list *files, size_t vocab_size,
                      bool speaks, struct dt_error *err)
{
    struct dt_example_options options =
        dt_run_example_options(conf, data->images);
    options.vocab_size = vocab_size;
    options.cached = data->cached;
    for (size_t i = 0; i < files->count; i++) {
        struct display display = {files->text[i],
                                  dt_clock_now() + PROGRESS_SECONDS};
        bool made;
        options.ctx = &display;
        options.stop = data->stop;
        options.note = speaks ? show_note : NULL;
        options.progress = speaks ? show_progress : NULL;
        struct dt_examples *examples = dt_examples_open(
            files->text[i], data->tokenizer, &options, &made, err);
        if (!examples)
            return -1;
        data->examples[data->example_count++] = examples;
        if (made)
            dt_log(DT_LOG_INFO, "data",
                   "%s: %zu example%s, %" PRIu64 " tokens, %" PRIu64
                   " of them targets",
                   files->text[i], dt_examples_count(examples),
                   dt_str_plural(dt_examples_count(examples)),
                   dt_examples_tokens(examples), dt_examples_targets(examples));
    }
    return 0;
}

static int open_all(struct dt_run_data *data, const struct dt_conf *conf,
                    size_t vocab_size, bool speaks, struct dt_error *err)
{
    size_t count = conf->data.train.count + conf->data.eval.count;
    data->examples = calloc(count, sizeof(struct dt_examples *));
    if (!data->examples)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    if (data->images && !data->cached &&
        dt_run_images_make_store(data->images, err) < 0)
        return -1;
    if (open_files(data, conf, &conf->data.train, vocab_size, speaks, err) < 0)
        return -1;
    return open_files(data, conf, &conf->data.eval, vocab_size, speaks, err);
}

/* A file of plain text is one example, longer than any row. */
static enum dt_packing packing_of(const struct dt_conf *conf)
{
    return conf->data.kind == DT_KIND_TEXT ? DT_PACK_WRAPPED
                                           : conf->data.packing;
}

bool dt_run_packs(const struct dt_conf *conf)
{
    enum dt_packing packing = packing_of(conf);
    return !dt_run_is_stream(conf) &&
           (packing == DT_PACK_BFD || packing == DT_PACK_BFD_SPLIT);
}

size_t dt_run_prefetch(const struct dt_conf *conf)
{
    long workers = conf->data.num_workers;
    return (size_t)(conf->data.prefetch_factor * (workers > 1 ? workers : 1));
}

static struct dt_rows *make_rows(const struct dt_run_data *data,
                                 const struct dt_conf *conf, size_t first,
                                 const struct dt_conf_list *files,
                                 const struct dt_rows_options *options,
                                 struct dt_error *err)
{
    struct dt_rows_source *sources = calloc(files->count, sizeof(*sources));
    struct dt_rows *rows = NULL;
    for (size_t i = 0; sources && i < files->count; i++)
        sources[i] = (struct dt_rows_source){data->examples[first + i],
                                             files->weight[i]};
    if (sources)
        rows = (conf->data.format == DT_FORMAT_PREFERENCE
                    ? dt_rows_of_pairs
                    : dt_rows_of_examples)(sources, files->count, options, err);
    else
        dt_error_set(err, EX_OSERR, "data: out of memory");
    free(sources);
    if (!rows)
        dt_error_prefix(err, "%s", conf->file);
    return rows;
}

/* A hash of the examples, how often each is used, which share a row, and the
 * files of their images.
 */
static uint64_t hash_rows(const struct dt_run_data *data,
                          const struct dt_conf *conf,
                          const struct dt_rows_options *options)
{
    const double numbers[] = {options->packing,
                              options->keep_end + 2 * options->drop_long,
                              options->end, (double)dt_rows_count(data->train)};
    uint64_t hash = XXH3_64bits(numbers, sizeof(numbers));
    for (size_t i = 0; i < conf->data.train.count; i++) {
        uint64_t example = dt_examples_hash(data->examples[i]);
        hash = XXH3_64bits_withSeed(&example, sizeof(example), hash);
        hash = XXH3_64bits_withSeed(&conf->data.train.weight[i], sizeof(double),
                                    hash);
    }
    if (dt_rows_images(data->train)) {
        const uint64_t images = dt_rows_stats(data->train).image_hash;
        hash = XXH3_64bits_withSeed(&images, sizeof(images), hash);
    }
    return hash;
}

static uint64_t hash_eval(const struct dt_run_data *data,
                          const struct dt_conf *conf)
{
    uint64_t hash = 0;
    for (size_t i = conf->data.train.count; i < data->example_count; i++) {
        uint64_t example = dt_examples_hash(data->examples[i]);
        hash = XXH3_64bits_withSeed(&example, sizeof(example), hash);
    }
    return hash;
}

enum { IMAGES_TEXT = 80 };

/* Writes "; 12 images, ..", or nothing of rows without any. Returns text. */
static const char *images_text(const struct dt_rows *rows,
                               char text[IMAGES_TEXT])
{
    const struct dt_rows_stats s = dt_rows_stats(rows);
    text[0] = '\0';
    if (dt_rows_images(rows))
        snprintf(text, IMAGES_TEXT,
                 "; %zu image%s, %zu left out where examples were cut",
                 s.images, dt_str_plural(s.images), s.images_cut);
    return text;
}

/* Pairs, and which rule those met that were too long. */
static void log_pairs(const char *what, const struct dt_rows *rows,
                      const struct dt_conf *conf, bool speaks)
{
    static const char *const rules[] = {[DT_CONF_KEEP_START] = "keep_start",
                                        [DT_CONF_KEEP_END] = "keep_end",
                                        [DT_CONF_DROP] = "drop"};
    struct dt_rows_stats s = dt_rows_stats(rows);
    char images[IMAGES_TEXT];
    dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
           "%s: %zu pairs, the longest of %zu tokens; a side has at most %ld "
           "(data.truncation: %s): %zu pairs cut, %zu left out%s",
           what, dt_rows_count(rows), dt_rows_max_length(rows),
           conf->data.max_length, rules[conf->data.truncation], s.truncated,
           s.dropped, images_text(rows, images));
}

static void log_rows(const char *what, const struct dt_rows *rows,
                     const struct dt_conf *conf, bool speaks)
{
    struct dt_rows_stats s = dt_rows_stats(rows);
    char images[IMAGES_TEXT];
    double room =
        (double)dt_rows_count(rows) * (double)dt_rows_max_length(rows);
    if (conf->data.format == DT_FORMAT_PREFERENCE) {
        log_pairs(what, rows, conf, speaks);
        return;
    }
    dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
           "%s: %zu example%s in %zu row%s, %.1f %% of %zu positions used; %zu "
           "cut, %zu dropped without a target%s",
           what, s.examples, dt_str_plural(s.examples), dt_rows_count(rows),
           dt_str_plural(dt_rows_count(rows)),
           100.0 * fmin((double)s.tokens / room, 1.0), dt_rows_max_length(rows),
           s.truncated, s.dropped, images_text(rows, images));
}

/* --- prompts --- */

/* Files to open, and how. */
struct prompt_source {
    const char *name; /* in messages */
    const struct dt_conf_list *files;
    double begin, end; /* of their prompts, as shares */
    bool shuffle;
};

static struct dt_prompts *open_prompts(const struct prompt_source *source,
                                       const struct dt_run_data *data,
                                       const struct dt_conf *conf,
                                       size_t vocab_size, bool speaks,
                                       struct dt_error *err)
{
    struct dt_prompts_options options = {
        .lines = dt_run_example_options(conf, data->images),
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
    char lost[80] = "";
    if (s.lost > 0)
        snprintf(lost, sizeof(lost),
                 "; %zu left out, as an image of theirs is missing or bad",
                 s.lost);
    dt_log(speaks ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
           "%s: %zu prompts, the longest of %zu tokens; of those "
           "longer than %ld (data.max_prompt_length) %zu were cut and %zu left "
           "out%s",
           source->name, s.count, s.longest, conf->data.max_prompt_length,
           s.cut, s.dropped, lost);
    return prompts;
}

/* Makes the store of images. Prompts have no cache: they are prepared once it
 * is there.
 */
static int open_store(const struct dt_run_data *data, struct dt_error *err)
{
    if (!data->images || !data->images->there)
        return 0;
    if (!data->cached)
        return dt_run_images_make_store(data->images, err);
    return access(data->images->store_dir, F_OK) == 0
               ? 0
               : dt_error_set(err, EX_NOINPUT, "%s: not prepared",
                              data->images->store_dir);
}

/* The same as open_examples for prompts, with the tokenizer that is there. */
static int open_all_prompts(struct dt_run_data *data,
                            const struct dt_conf *conf, size_t vocab_size,
                            bool speaks, struct dt_error *err)
{
    const bool files = conf->data.eval.count > 0;
    const double split =
        files ? 1.0 : 1.0 - conf->data.validation_split; /* where it begins */
    const struct prompt_source train = {"data.train", &conf->data.train, 0.0,
                                        split, conf->data.shuffle};
    const struct prompt_source held_out = {
        files ? "data.eval" : "data.validation_split",
        files ? &conf->data.eval : &conf->data.train, files ? 0.0 : split, 1.0,
        false};
    if (open_store(data, err) < 0)
        return -1;
    data->prompts = open_prompts(&train, data, conf, vocab_size, speaks, err);
    if (!data->prompts)
        return -1;
    data->hash = dt_prompts_hash(data->prompts);
    if (!dt_run_holds_out(conf))
        return 0;
    data->held_out =
        open_prompts(&held_out, data, conf, vocab_size, speaks, err);
    if (!data->held_out)
        return dt_error_prefix(err, "%s", held_out.name);
    data->eval_hash = files ? dt_prompts_hash(data->held_out) : 0;
    return 0;
}

/* --- either --- */

static int open_examples(struct dt_run_data *data, const struct dt_conf *conf,
                         size_t vocab_size, bool speaks, struct dt_error *err)
{
    bool split = conf->data.eval.count == 0 && conf->data.validation_split > 0;
    struct dt_rows_options options = {
        .T = (size_t)conf->data.max_length,
        .packing = packing_of(conf),
        .in_order = !conf->data.shuffle,
        .keep_end = conf->data.truncation == DT_CONF_KEEP_END,
        .drop_long = conf->data.truncation == DT_CONF_DROP,
        .end = split ? 1.0 - conf->data.validation_split : 1.0,
        .seed = conf->run.data_seed,
        .vocab_size = vocab_size,
        .images =
            data->images && data->images->there ? &data->images->options : NULL,
    };
    if (options.T < 2)
        return dt_error_set(err, EX_CONFIG,
                            "%s: data.max_length: examples need at least 2",
                            conf->file);
    if (open_tokenizer(data, conf, vocab_size, err) < 0)
        return -1;
    if (conf->data.format == DT_FORMAT_PROMPT)
        return open_all_prompts(data, conf, vocab_size, speaks, err);
    if (open_all(data, conf, vocab_size, speaks, err) < 0)
        return -1;
    data->train = make_rows(data, conf, 0, &conf->data.train, &options, err);
    if (!data->train)
        return -1;
    data->hash = hash_rows(data, conf, &options);
    data->eval_hash = hash_eval(data, conf);
    log_rows("data.train", data->train, conf, speaks);
    log_tail("data.train", data->train,
             speaks && !ends_early(conf, data->train));
    if (conf->data.eval.count > 0) {
        data->eval = make_rows(data, conf, conf->data.train.count,
                               &conf->data.eval, &options, err);
    } else if (split) {
        options.begin = options.end;
        options.end = 1.0;
        data->eval = make_rows(data, conf, 0, &conf->data.train, &options, err);
    } else {
        return 0;
    }
    if (!data->eval)
        return dt_error_prefix(err,
                               split ? "data.validation_split" : "data.eval");
    log_rows("held out", data->eval, conf, speaks);
    log_tail("held out", data->eval, speaks);
    return 0;
}

/* The key that chooses the tokenizer. */
static const char *tokenizer_key(const struct dt_conf *conf)
{
    if (conf->model.tokenizer == DT_CONF_TOKENIZER_AUTO && conf->model.path)
        return "model.path";
    if (conf->model.tokenizer == DT_CONF_TOKENIZER_AUTO &&
        conf->model.config_path)
        return "model.config_path";
    return "model.tokenizer";
}

/* Conversations need a chat template. Errors of the file itself are reported
 * when it is read as a whole. Sets *key to that of a mistake, unless it is in
 * the tokenizer's own template.
 */
static int check_chat(const struct dt_run_data *data,
                      const struct dt_conf *conf, const char **key,
                      struct dt_error *err)
{
    struct dt_example_options options = dt_run_example_options(conf, NULL);
    enum dt_format format;
    if (conf->data.kind != DT_KIND_LINES ||
        dt_examples_format(conf->data.train.text[0], &options, &format, NULL) <
            0 ||
        format != DT_FORMAT_MESSAGES || !strcmp(options.chat_template, "none"))
        return 0;
    if (dt_conf_given(conf, "data.chat_template"))
        *key = "data.chat_template";
    struct dt_chat *chat =
        dt_chat_create(options.chat_template, NULL, data->tokenizer, err);
    dt_chat_destroy(chat);
    if (!chat || !options.chat_variables)
        return chat ? 0 : -1;
    *key = "data.chat_template_kwargs";
    chat = dt_chat_create(options.chat_template, options.chat_variables,
                          data->tokenizer, err);
    dt_chat_destroy(chat);
    return chat ? 0 : -1;
}

int dt_run_data_check(const struct dt_conf *conf, size_t vocab_size,
                      const char **key, struct dt_error *err)
{
    struct dt_run_data data = {0};
    *key = tokenizer_key(conf);
    if (need_tokenizer(conf, vocab_size, err) < 0)
        return -1;
    if (dt_run_is_stream(conf))
        return check_stream(conf, key, err);
    int result = open_tokenizer(&data, conf, vocab_size, err);
    if (result == 0)
        result = check_chat(&data, conf, key, err);
    dt_run_data_fini(&data);
    return result;
}

int dt_run_data_open(struct dt_run_data *data, const struct dt_conf *conf,
                     size_t vocab_size, bool speaks, struct dt_error *err)
{
    if (need_tokenizer(conf, vocab_size, err) < 0)
        return -1;
    int rc = dt_run_is_stream(conf)
                 ? open_streams(data, conf, vocab_size, speaks, err)
                 : open_examples(data, conf, vocab_size, speaks, err);
    /* a run that resumes in another order would train on other rows */
    if (!conf->data.shuffle)
        data->hash = ~data->hash;
    return rc;
}

void dt_run_data_fini(struct dt_run_data *data)
{
    dt_rows_destroy(data->eval);
    dt_rows_destroy(data->train);
    dt_prompts_close(data->prompts);
    dt_prompts_close(data->held_out);
    for (size_t i = 0; i < data->example_count; i++)
        dt_examples_close(data->examples[i]);
    free(data->examples);
    dt_dataset_close(data->eval_stream);
    dt_dataset_close(data->stream);
    dt_tokenizer_destroy(data->tokenizer);
}
