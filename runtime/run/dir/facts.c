/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - makes and writes run.json */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/secret.h"
#include "run/dir/dir.h"
#include "run/exchange.h"
#include "run/spec.h"

enum {
    FACTS_VERSION = 1,
    FACTS_MAX_BYTES = 16 << 20, /* of the file of an earlier start */
    DEVICE_TEXT = 60,
};

/* --- strings --- */

/* A string of JSON without secrets, and with '?' for bytes that are not UTF-8.
 * NULL is null.
 */
static json_t *text_json(const char *text)
{
    if (!text)
        return json_null();
    char *clean = dt_secret_remove(text);
    json_t *json = clean ? json_string(clean) : NULL;
    for (char *p = clean; p && *p && !json; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    if (clean && !json)
        json = json_string(clean);
    free(clean);
    return json;
}

/* --- the configuration --- */

/* The words of a list like "[stdout, jsonl]", which JSON would have quoted. */
static json_t *words_json(const char *text)
{
    json_t *words = json_array();
    for (const char *p = text + 1; *p && *p != ']';) {
        size_t n = strcspn(p, ",]");
        json_array_append_new(words, json_stringn(p, n));
        p += n + strspn(p + n, ", ");
    }
    return words;
}

static bool is_list_of_words(const char *text)
{
    return text[0] == '[' && !strpbrk(text, "\"{");
}

/* A value as the dump prints it, YAML in one line, as JSON where it is that. */
static json_t *value_json(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!json)
        json = is_list_of_words(text) ? words_json(text) : text_json(text);
    return json;
}

struct configuration {
    json_t *values, *given;
};

static void add_key(void *ctx, const char *key, const char *value, bool given)
{
    const struct configuration *c = ctx;
    bool variable = strncmp(key, "env.", 4) == 0;
    char *clean = dt_secret_remove(value);
    json_t *json = clean && !variable ? value_json(clean) : text_json(value);
    if (variable && dt_secret_name(key)) {
        json_decref(json);
        json = json_string(DT_SECRET_REMOVED);
    }
    free(clean);
    json_object_set_new(c->values, key, json);
    if (given)
        json_array_append_new(c->given, json_string(key));
}

/* A value that the file gives is written as check --resolved prints it, even if
 * the run has replaced it, for example a ratio by a number of steps.
 */
static void set_given(void *ctx, const char *key, const char *value, bool given)
{
    if (given)
        add_key(ctx, key, value, false);
}

/* An override as given, but without secrets; free it. NULL: out of memory. */
static char *clean_override(const char *text)
{
    char *key = strndup(text, strcspn(text, "=")), *clean = NULL;
    if (key && dt_secret_refers(text + strlen(key) + 1)) {
        clean = strdup(text);
    } else if (key && dt_secret_name(key)) {
        if (asprintf(&clean, "%s=%s", key, DT_SECRET_REMOVED) < 0)
            clean = NULL;
    } else if (key) {
        clean = dt_secret_remove(text);
    }
    free(key);
    return clean;
}

static json_t *overrides_json(const struct dt_conf *conf)
{
    json_t *all = json_array();
    for (size_t i = 0; i < conf->overrides.count; i++) {
        char *clean = clean_override(conf->overrides.text[i]);
        json_array_append_new(all, clean ? text_json(clean) : json_null());
        free(clean);
    }
    return all;
}

/* --- the process and the job --- */

/* The step of Slurm's job, "123.0"; null without one. */
static json_t *job_json(void)
{
    char text[96];
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (!job)
        return json_null();
    snprintf(text, sizeof(text), "%s%s%s", job, step ? "." : "",
             step ? step : "");
    return text_json(text);
}

/* The words of the command, without the values of options and variables that
 * have the name of a secret.
 */
static json_t *argv_json(void)
{
    json_t *words = json_array();
    char *word = NULL;
    size_t size = 0;
    bool secret = false;
    FILE *file = fopen("/proc/self/cmdline", "re");
    while (file && getdelim(&word, &size, '\0', file) > 0) {
        char *is = strchr(word, '=');
        bool option = word[0] == '-';
        if (is)
            *is = '\0';
        bool named = (option || is) && dt_secret_name(word);
        if (is)
            *is = '=';
        json_array_append_new(words, (secret && !option) || (is && named)
                                         ? json_string(DT_SECRET_REMOVED)
                                         : text_json(word));
        secret = named && !is;
    }
    free(word);
    if (file)
        fclose(file);
    return words;
}

/* Appends a word as a shell reads it. */
static void put_word(FILE *out, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+"
        "@%:,";
    if (word[0] && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, out);
    putc('\'', out);
}

/* Appends an override whose value is a secret: in its place stands a variable,
 * that of its own name for env:, without which the shell refuses the command.
 */
static void put_secret(FILE *out, const char *text)
{
    const int n = (int)strcspn(text, "=");
    const char *name = text;
    for (const char *p = text; p < text + n; p++)
        name = *p == '.' ? p + 1 : name;
    const bool variable = strncmp(text, "env.", 4) == 0;
    fprintf(out, "\"%.*s=${%s", n, text,
            isdigit((unsigned char)*name) ? "_" : "");
    for (; *name != '='; name++)
        putc(variable                        ? *name
             : isalnum((unsigned char)*name) ? toupper((unsigned char)*name)
                                             : '_',
             out);
    fputs(":?}\"", out);
}

static void put_overrides(FILE *out, const char *option,
                          const struct dt_conf *conf)
{
    for (size_t i = 0; i < conf->overrides.count; i++) {
        const char *text = conf->overrides.text[i];
        char *clean = clean_override(text);
        fputs(option, out);
        if (clean && strcmp(clean, text) == 0)
            put_word(out, text);
        else
            put_secret(out, text);
        free(clean);
    }
}

/* The command that resumes the run from its newest checkpoint, whatever the
 * file says of training.resume and run.overwrite.
 */
static json_t *resume_json(const struct dt_run *run)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    char *text = NULL;
    size_t bytes = 0;
    bool srun = getenv("SLURM_JOB_ID") && getenv("SLURM_STEP_ID");
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    if (srun && conf->launch.nodes)
        fputs("srun --disttrain=", out); /* the file says how many */
    else if (srun)
        fprintf(out, "srun -N%d -n%d --disttrain=", spec->nodes.count,
                spec->world);
    else if (spec->world > 1)
        fprintf(out, "mpirun -n %d disttrain train ", spec->world);
    else
        fputs("disttrain train ", out);
    put_word(out, conf->file);
    const char *option = srun ? " --disttrain-set=" : " --set ";
    put_overrides(out, option, conf);
    if (conf->training.resume != DT_CONF_RESUME_AUTO)
        fprintf(out, "%straining.resume=auto", option);
    json_t *json = fclose(out) == 0 ? text_json(text) : NULL;
    free(text);
    return json;
}

/* --- the ranks --- */

static json_t *nodes_json(const struct dt_run *run)
{
    json_t *nodes = json_array(), *ranks = NULL;
    const char *host = NULL;
    for (int i = 0; i < run->spec.world; i++) {
        int rank = run->spec.nodes.order[i];
        const char *name = dt_comm_host(run->comm, rank);
        if (!host || strcmp(host, name) != 0) {
            ranks = json_array();
            json_array_append_new(nodes,
                                  json_pack("{s:o, s:o}", "host",
                                            text_json(name), "ranks", ranks));
        }
        host = name;
        json_array_append_new(ranks, json_integer(rank));
    }
    return nodes;
}

/* The devices of all ranks, on rank 0; others get an empty list. */
static json_t *devices_json(const struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    char *texts = calloc((size_t)spec->world, DEVICE_TEXT + 1);
    json_t *devices = json_array();
    int rc = texts ? dt_gather_texts(run->comm, spec->exec.device->describe(),
                                     DEVICE_TEXT, texts, err)
                   : dt_error_set(err, EX_OSERR, "out of memory");
    for (int r = 0; rc == 0 && spec->rank == 0 && r < spec->world; r++)
        json_array_append_new(devices,
                              text_json(texts + (size_t)r * (DEVICE_TEXT + 1)));
    free(texts);
    if (rc == 0)
        return devices;
    json_decref(devices);
    return NULL;
}

/* --- the file --- */

static void facts_path(const struct dt_run *run, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/run.json", run->spec.conf.logging.dir);
}

/* An evaluation does not tell of the run that trained. */
static bool has_file(const struct dt_run *run)
{
    return run->spec.conf.logging.to_jsonl &&
           !run->spec.conf.training.eval_only;
}

static void write_facts(const struct dt_run *run)
{
    char path[PATH_MAX];
    struct dt_error err;
    char *text;
    if (!has_file(run))
        return;
    facts_path(run, path);
    text = json_dumps(run->facts, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (!text)
        dt_error_set(&err, EX_OSERR, "%s: out of memory", path);
    if (!text || dt_file_replace(path, text, strlen(text), &err) < 0)
        dt_log(DT_LOG_WARN, "algo", "%s; the run continues without it",
               err.text);
    free(text);
}

/* The file of an earlier start of this run; NULL: there is none. */
static json_t *read_facts(const struct dt_run *run)
{
    char path[PATH_MAX];
    struct dt_error err;
    facts_path(run, path);
    if (!dt_run_continues(&run->spec.conf) || !has_file(run))
        return NULL;
    char *text = dt_file_read(path, FACTS_MAX_BYTES, &err);
    json_t *facts = text ? dt_json_parse(path, text, &err) : NULL;
    free(text);
    if (!facts && err.status != EX_NOINPUT)
        dt_log(DT_LOG_WARN, "algo", "%s; run.json begins anew", err.text);
    return facts;
}

static json_t *new_id(void)
{
    uint32_t id = 0;
    char text[9];
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        id = (uint32_t)(dt_clock_wall() * 1000);
    snprintf(text, sizeof(text), "%08" PRIx32, id);
    return json_string(text);
}

/* The id and the starts, with those of earlier starts. */
static void add_history(const struct dt_run *run, json_t *facts)
{
    json_t *before = read_facts(run);
    json_t *id = json_object_get(before, "run_id");
    json_t *starts = json_object_get(before, "starts");
    if (json_is_string(id))
        json_object_set(facts, "run_id", id);
    else
        json_object_set_new(facts, "run_id", new_id());
    starts = json_is_array(starts) ? json_incref(starts) : json_array();
    json_array_append_new(
        starts, json_pack("{s:f, s:I, s:o}", "wall", dt_clock_wall(), "step",
                          (json_int_t)run->progress.step, "job", job_json()));
    json_object_set_new(facts, "starts", starts);
    json_decref(before);
}

static json_t *model_json(const struct dt_run *run)
{
    const struct dt_model_config *config = &run->spec.learner.config;
    return json_pack(
        "{s:I, s:s, s:I, s:I}", "parameters",
        (json_int_t)dt_learner_model_layout(&run->spec.learner)->param_total,
        "family", dt_model_type(config), "layers", (json_int_t)config->n_layer,
        "width", (json_int_t)config->n_embd);
}

static json_t *data_json(const struct dt_run *run)
{
    const struct dt_conf_list *files = &run->spec.conf.data.train;
    json_t *train = json_array();
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, run->data.hash);
    for (size_t i = 0; i < files->count; i++)
        json_array_append_new(train, text_json(files->text[i]));
    return json_pack("{s:o, s:I, s:s}", "train", train, "rows",
                     (json_int_t)run->epoch_samples, "hash", hash);
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Adds the numbers from which mfu is computed. */
static void add_flops(const struct dt_run *run, json_t *facts)
{
    const struct dt_peak *peak =
        dt_peak_of(run->spec.exec.device->describe(), run->learner.compute);
    json_object_set_new(facts, "flops_per_token",
                        number_json(dt_flops_per_token(&run->spec)));
    json_object_set_new(facts, "peak_flops",
                        number_json(peak ? peak->flops : NAN));
    json_object_set_new(facts, "peak_name",
                        peak ? json_string(peak->name) : json_null());
}

/* Adds the members that identify the run. */
static void add_identity(const struct dt_run *run, json_t *facts)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    struct configuration c = {json_object(), json_array()};
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, conf->fingerprint);
    dt_conf_each(conf, add_key, &c);
    dt_conf_each(spec->given, set_given, &c);
    json_object_set_new(facts, "name", text_json(conf->run.name));
    json_object_set_new(facts, "job", job_json());
    json_object_set_new(facts, "algorithm", json_string(spec->algo->name));
    json_object_set_new(facts, "output_dir", text_json(conf->run.output_dir));
    json_object_set_new(facts, "world", json_integer(spec->world));
    json_object_set_new(facts, "nodes", nodes_json(run));
    json_object_set_new(facts, "program", json_string(PACKAGE_VERSION));
    json_object_set_new(facts, "argv", argv_json());
    json_object_set_new(facts, "config_path", text_json(conf->file));
    json_object_set_new(facts, "config", c.values);
    json_object_set_new(facts, "given", c.given);
    json_object_set_new(facts, "overrides", overrides_json(conf));
    json_object_set_new(facts, "config_hash", json_string(hash));
    json_object_set_new(facts, "model", model_json(run));
    json_object_set_new(facts, "data", data_json(run));
    json_object_set_new(facts, "total_steps", json_integer(run->total_steps));
}

int dt_facts_begin(struct dt_run *run, struct dt_error *err)
{
    json_t *devices = devices_json(run, err);
    if (!devices)
        return -1;
    if (run->spec.rank != 0) {
        json_decref(devices);
        return 0;
    }
    run->facts = json_pack("{s:i}", "version", FACTS_VERSION);
    if (!run->facts) {
        json_decref(devices);
        return dt_error_set(err, EX_OSERR, "run.json: out of memory");
    }
    add_history(run, run->facts);
    add_identity(run, run->facts);
    json_object_set_new(run->facts, "devices", devices);
    add_flops(run, run->facts);
    json_object_set_new(run->facts, "status", json_string("running"));
    json_object_set_new(run->facts, "verdict", json_null());
    json_object_set_new(run->facts, "ended", json_null());
    json_object_set_new(run->facts, "account", json_null());
    json_object_set_new(run->facts, "resume", resume_json(run));
    write_facts(run);
    return 0;
}

void dt_facts_end(struct dt_run *run, const char *status, const char *verdict)
{
    struct dt_account_sums sums;
    if (!run->facts)
        return;
    dt_live_sums(run->live, &sums);
    json_object_set_new(run->facts, "account", dt_account_json(&sums));
    json_object_set_new(run->facts, "status", json_string(status));
    json_object_set_new(run->facts, "verdict", text_json(verdict));
    json_object_set_new(run->facts, "ended", json_real(dt_clock_wall()));
    write_facts(run);
}
