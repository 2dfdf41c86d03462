/* SPDX-License-Identifier: Apache-2.0 */
/* resume_check.c - compares a resumed run with the one that was saved */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/log.h"
#include "base/secret.h"
#include "train/resume/resume_impl.h"
#include "weights/adapter_file.h"

/* A line of changes, "key was -> is". */
struct changes {
    char text[768];
    size_t bytes;
};

static void add_change(struct changes *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_change(struct changes *c, const char *fmt, ...)
{
    size_t left = sizeof(c->text) - c->bytes;
    va_list ap;
    if (c->bytes > 0 && left > 2) {
        memcpy(c->text + c->bytes, ", ", 3);
        c->bytes += 2;
        left -= 2;
    }
    va_start(ap, fmt);
    int n = vsnprintf(c->text + c->bytes, left, fmt, ap);
    va_end(ap);
    c->bytes += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

/* --- the model --- */

static int compare_models(const struct dt_run *run,
                          const struct dt_model_config *saved, const char *dir,
                          struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    bool inlined = !conf->model.path && !conf->model.config_path;
    struct dt_model_change change;
    if (!dt_model_config_change(saved, &run->spec.learner.config, &change))
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "%s: was trained with %s%s %s, not %s, which changes "
                        "the model: set it back, or start a new run in another "
                        "run.output_dir",
                        dir, inlined ? "model." : "", change.key, change.was,
                        change.is);
}

/* Adds a change of dropout, which is allowed. */
static void compare_dropout(const struct dt_model_config *was,
                            const struct dt_model_config *is,
                            struct changes *changes)
{
    const struct {
        size_t offset;
        double was, is;
    } rates[] = {
        {offsetof(struct dt_model_config, embd_dropout), was->embd_dropout,
         is->embd_dropout},
        {offsetof(struct dt_model_config, attn_dropout), was->attn_dropout,
         is->attn_dropout},
        {offsetof(struct dt_model_config, resid_dropout), was->resid_dropout,
         is->resid_dropout},
    };
    for (int i = 0; i < 3; i++)
        if (rates[i].was != rates[i].is)
            add_change(changes, "%s %g -> %g",
                       dt_model_config_key(was, rates[i].offset), rates[i].was,
                       rates[i].is);
}

/* Adds a change of the model that an adapter is trained on. */
static int check_adapter(const struct dt_learner *learner, const char *dir,
                         struct changes *changes, struct dt_error *err)
{
    const char *base = learner->spec->adapter.base,
               *folder = learner->spec->folder;
    struct dt_adapter saved;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s%s%s", dir, *folder ? "/" : "", folder);
    int rc = dt_adapter_load(&saved, path, err);
    if (rc == 0 && saved.base && strcmp(saved.base, base) != 0)
        add_change(changes, "the model beside the %s%sadapter %s -> %s", folder,
                   *folder ? "'s " : "", saved.base, base);
    dt_adapter_fini(&saved);
    return rc;
}

static int check_adapters(const struct dt_run *run, const char *dir,
                          struct changes *changes, struct dt_error *err)
{
    if (check_adapter(&run->learner, dir, changes, err) < 0)
        return -1;
    return dt_learner_adapts(&run->spec.critic)
               ? check_adapter(&run->critic, dir, changes, err)
               : 0;
}

static int check_model(const struct dt_run *run, const char *dir,
                       struct changes *changes, struct dt_error *err)
{
    if (dt_learner_adapts(&run->spec.learner))
        return check_adapters(run, dir, changes, err);
    struct dt_model_config saved = {0};
    int rc = dt_model_config_load(&saved, dir, err);
    if (rc == 0)
        rc = compare_models(run, &saved, dir, err);
    if (rc == 0)
        compare_dropout(&saved, &run->spec.learner.config, changes);
    dt_model_config_fini(&saved);
    return rc;
}

/* --- the settings --- */

#define TRAINED "model.train_" /* and the name of a part */

/* Adds the name of the reference if it is a checkpoint of another run. It is
 * read again when the run resumes, and that run may have newer checkpoints by
 * then.
 */
static bool add_reference(json_t *settings, const struct dt_conf *conf)
{
    const struct dt_algo *algo = dt_algo_of(conf);
    const char *key = "model.reference_path", *dir = conf->model.reference_path;
    if (!dir && !dt_conf_starts_random(conf)) {
        key = "model.path";
        dir = conf->model.path;
    }
    if (!dir || dt_ckpt_step(dir) < 0 || !algo->needs_reference ||
        !algo->needs_reference(conf))
        return true;
    return json_object_set_new(settings, key,
                               json_string(strrchr(dir, '/') + 1)) == 0;
}

/* Says which parts of the model are trained, in place of the keys that decide
 * it; with an adapter these stay, and say whose layers have pairs. Nothing of a
 * model that is one part.
 */
static bool set_parts(json_t *settings, const struct dt_learner_spec *learner)
{
    const struct dt_layout *layout = dt_learner_model_layout(learner);
    bool there[DT_PARTS] = {false}, good = true;
    int count = 0;
    for (size_t u = 0; u < layout->unit_count; u++) {
        count += !there[layout->units[u].part];
        there[layout->units[u].part] = true;
    }
    for (int part = 0; part < DT_PARTS; part++) {
        const char *trained = learner->freezes[part] ? "false" : "true";
        char key[64];
        snprintf(key, sizeof(key), TRAINED "%s",
                 dt_model_part_name((enum dt_model_part)part));
        if (!there[part] || count == 1)
            json_object_del(settings, key);
        else if (!dt_learner_adapts(learner) &&
                 json_object_set_new(settings, key, json_string(trained)) < 0)
            good = false;
    }
    return good;
}

json_t *dt_same_settings(const struct dt_spec *spec, struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    char *text = NULL, *rest = NULL;
    size_t bytes;
    json_t *settings = json_object();
    FILE *out = open_memstream(&text, &bytes);
    bool good = out && settings;
    if (out) {
        dt_conf_print_results(conf, out);
        good = fclose(out) == 0 && good;
    }
    for (char *line = good ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strstr(line, ": ");
        *colon = '\0';
        if (json_object_set_new(settings, line, json_string(colon + 2)) < 0)
            good = false;
    }
    free(text);
    if (good && add_reference(settings, conf) &&
        set_parts(settings, &spec->learner))
        return settings;
    json_decref(settings);
    dt_error_set(err, EX_OSERR, "out of memory");
    return NULL;
}

/* Name of the fixed property that a change of this key would alter; NULL: none.
 * The hash of the rows covers most other keys of data.
 */
static const char *forbidden_change(const char *key, const char *a,
                                    const char *b)
{
    if (!strcmp(key, "data.shuffle") || !strcmp(key, "data.validation_split"))
        return "the order of the data";
    /* checkpoints from before it have no such key */
    if (!strcmp(key, "ppo.critic.share_backbone") &&
        (!strcmp(a, "true") || !strcmp(b, "true")))
        return "what is trained";
    if (!strncmp(key, TRAINED, strlen(TRAINED)) &&
        strcmp(key, "model.train_padding_row") != 0)
        return "what is trained";
    if (!strncmp(key, "adapter.", 8) && strcmp(key, "adapter.dropout") != 0)
        return "what is trained";
    return NULL;
}

/* Whether a key is compared: not if it may differ without harm or is compared
 * elsewhere.
 */
static bool is_compared(const char *key)
{
    return strncmp(key, "data.", 5) != 0 && strcmp(key, "run.data_seed") != 0 &&
           strcmp(key, "training.train_batch_size") != 0 &&
           (strncmp(key, "model.", 6) != 0 ||
            !strcmp(key, "model.disable_dropout") ||
            !strcmp(key, "model.train_padding_row") ||
            !strcmp(key, "model.path") || !strcmp(key, "model.reference_path"));
}

static const char *text_of(const json_t *settings, const char *key)
{
    const char *text = json_string_value(json_object_get(settings, key));
    return text ? text : "(not set)";
}

/* The settings without secrets, which old checkpoints may have. NULL: out of
 * memory; then nothing is compared.
 */
static json_t *clean_settings(const json_t *settings)
{
    json_t *clean = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)settings, key, value)
    {
        char *text = json_is_string(value)
                         ? dt_secret_remove_seen(json_string_value(value))
                         : NULL;
        if (text)
            json_object_set_new(clean, key, json_string(text));
        free(text);
    }
    return clean;
}

/* Compares the keys of the checkpoint, then those that only the run has. */
static int compare_settings(const json_t *was, const json_t *is,
                            const char *dir, struct changes *changes,
                            struct dt_error *err)
{
    const json_t *const sides[] = {was, is};
    const char *key;
    json_t *value;
    for (int side = 0; side < 2; side++) {
        json_object_foreach((json_t *)sides[side], key, value)
        {
            const char *a = text_of(was, key), *b = text_of(is, key);
            if (!strcmp(a, b) || (side == 1 && json_object_get(was, key)))
                continue;
            const char *what = forbidden_change(key, a, b);
            if (what)
                return dt_error_set(err, EX_CONFIG,
                                    "%s: was trained with %s %s, not %s, "
                                    "which changes %s; set it back, or start "
                                    "a new run in another run.output_dir",
                                    dir, key, a, b, what);
            if (is_compared(key))
                add_change(changes, "%s %s -> %s", key, a, b);
        }
    }
    return 0;
}

/* --- the data --- */

/* Lists changes of the keys that the rows depend on. */
static struct changes compare_data(const json_t *was, const json_t *is)
{
    struct changes changes = {0};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)is, key, value)
    {
        const char *a = text_of(was, key), *b = text_of(is, key);
        if (!strncmp(key, "data.", 5) && strcmp(a, b) != 0)
            add_change(&changes, "%s %s -> %s", key, a, b);
    }
    json_object_foreach((json_t *)was, key, value)
    {
        if (!strncmp(key, "data.", 5) && !json_object_get(is, key))
            add_change(&changes, "%s %s -> (not set)", key, text_of(was, key));
    }
    return changes;
}

/* Refuses other rows. The hash covers the content of the files and how it
 * becomes rows.
 */
static int refuse_rows(const struct dt_run *run, const char *dir,
                       const struct dt_same_state *was, const char *mine,
                       struct dt_error *err)
{
    const struct changes changes =
        was->settings ? compare_data(was->settings, run->settings)
                      : (struct changes){0};
    if (changes.bytes > 0)
        return dt_error_set(err, EX_CONFIG,
                            "%s: was trained on other rows: %s; set this back, "
                            "or start a new run in another run.output_dir",
                            dir, changes.text);
    return dt_error_set(err, EX_CONFIG,
                        "%s: was trained on other data (hash %s, data.train "
                        "has %s); use the same files, with the same weights, "
                        "and the same tokenizer, or start a new run in another "
                        "run.output_dir",
                        dir, was->data_hash, mine);
}

/* Checks that the resumed run has the same data in the same order. */
static int check_data(const struct dt_run *run, const char *dir,
                      const struct dt_same_state *was, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const uint64_t seed = spec->conf.run.data_seed;
    bool own = dt_conf_given(&spec->conf, "run.data_seed");
    char mine[17];
    snprintf(mine, sizeof(mine), "%016" PRIx64, run->data.hash);
    if (was->max_length != spec->T)
        return dt_error_set(err, EX_CONFIG,
                            "%s: was trained with data.max_length %zu, not "
                            "%zu; set it back, or start a new run in another "
                            "run.output_dir",
                            dir, was->max_length, spec->T);
    if (strcmp(mine, was->data_hash) != 0)
        return refuse_rows(run, dir, was, mine, err);
    if (was->data_seed != seed)
        return dt_error_set(
            err, EX_CONFIG,
            "%s: was trained with %s %" PRIu64 ", not %" PRIu64
            ", which changes the order of the data; set run.data_seed: %" PRIu64
            ", or start a new run in another run.output_dir",
            dir, own ? "run.data_seed" : "run.seed", was->data_seed, seed,
            was->data_seed);
    return 0;
}

static int compare_runs(const struct dt_run *run, const char *dir,
                        const struct dt_same_state *was, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct changes changes = {0};
    const bool goes_on = !spec->conf.training.eval_only;
    size_t now = spec->B * spec->A * (size_t)spec->world;
    if (check_model(run, dir, &changes, err) < 0)
        return -1;
    if (goes_on && was->settings &&
        compare_settings(was->settings, run->settings, dir, &changes, err) < 0)
        return -1;
    if (check_data(run, dir, was, err) < 0)
        return -1;
    if ((size_t)was->samples != now)
        add_change(&changes, "training.train_batch_size %ld -> %zu",
                   was->samples, now);
    if (goes_on && changes.bytes > 0)
        dt_log(DT_LOG_WARN, "algo", "resuming with changed settings: %s",
               changes.text);
    return 0;
}

int dt_same_run(const struct dt_run *run, const char *dir,
                const struct dt_same_state *was, struct dt_error *err)
{
    struct dt_same_state clean = *was;
    json_t *settings = was->settings ? clean_settings(was->settings) : NULL;
    clean.settings = settings;
    int rc = compare_runs(run, dir, &clean, err);
    json_decref(settings);
    return rc;
}
