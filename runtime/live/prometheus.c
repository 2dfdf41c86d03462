/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.c - a file for the textfile collector of node_exporter
 *
 * Values have no times, as the collector requires; unknown values are left out.
 */
#include "config.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "live/live_impl.h"

enum { OLD_S = 600 }; /* only files of killed runs get as old */

/* Writes a label, with the escapes of the format. */
static void put_label(FILE *out, const char *name, const char *value,
                      const char *after)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
    fprintf(out, "\"%s", after);
}

static void put_metric(FILE *out, const struct dt_live_state *state,
                       const char *name, const char *type, const char *help,
                       double value)
{
    if (!isfinite(value))
        return;
    fprintf(out, "# HELP disttrain_%s %s\n# TYPE disttrain_%s %s\n", name, help,
            name, type);
    fprintf(out, "disttrain_%s{", name);
    put_label(out, "job", state->job, ",");
    put_label(out, "user", state->user, ",");
    put_label(out, "name", state->name, "} ");
    fprintf(out, "%.15g\n", value);
}

void dt_prometheus_print(const struct dt_live_state *state, FILE *out)
{
    const struct dt_live_numbers *n = &state->numbers;
    bool saved = state->saved && strcmp(state->save.kind, "save") == 0;
    put_metric(out, state, "up", "gauge", "1 while the run runs.", 1);
    put_metric(out, state, "step", "gauge", "Optimizer steps done.",
               state->counts ? (double)state->step : (double)NAN);
    put_metric(out, state, "steps", "gauge", "Optimizer steps of the run.",
               state->counts ? (double)state->total : (double)NAN);
    put_metric(out, state, "tokens_total", "counter",
               "Tokens that the run was trained on.", n->total_tokens);
    put_metric(out, state, "tokens_per_second", "gauge",
               "Tokens of all ranks in a second.", n->tokens_per_s);
    put_metric(out, state, "loss", "gauge", "Training loss.", n->loss);
    put_metric(out, state, "step_seconds", "gauge",
               "Median duration of the last steps.", state->step_s);
    put_metric(out, state, "mfu_ratio", "gauge",
               "Share of the peak of the devices.", n->mfu);
    put_metric(out, state, "goodput_ratio", "gauge",
               "Share of the time since the first start, but for the time "
               "between jobs, in steps that the weights have.",
               state->goodput);
    put_metric(out, state, "restarts_total", "counter",
               "Starts of the run after the first one.",
               state->account.known ? (double)(state->account.starts - 1)
                                    : (double)NAN);
    put_metric(out, state, "stragglers", "gauge",
               "Ranks named as slow in the last ten minutes.",
               (double)state->slow_count);
    put_metric(out, state, "checkpoint_age_seconds", "gauge",
               "Time since the last checkpoint.",
               saved ? state->wall - state->save.wall : (double)NAN);
    put_metric(out, state, "energy_joules_total", "counter",
               "Energy since this start of the run.", n->energy_j);
}

/* Makes the path disttrain_JOB_STEP.prom, or disttrain_pPID.prom without Slurm.
 */
static int find_path(const struct dt_live_state *state, const char *dir,
                     char path[PATH_MAX], struct dt_error *err)
{
    char id[sizeof(state->job)];
    snprintf(id, sizeof(id), "%s", state->job);
    if (!id[0])
        snprintf(id, sizeof(id), "p%d", (int)getpid());
    id[strcspn(id, ".")] = id[strcspn(id, ".")] ? '_' : '\0';
    int n = snprintf(path, PATH_MAX, "%s/disttrain_%s.prom", dir, id);
    return n < 0 || n >= PATH_MAX
               ? dt_error_set(err, EX_CANTCREAT, "%s: the name is too long",
                              dir)
               : 0;
}

/* Whether a file belongs to a killed run: others write every 15 seconds. */
static bool is_old(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           dt_clock_wall() - (double)st.st_mtim.tv_sec > OLD_S;
}

void dt_prometheus_clean(const char *dir)
{
    char path[PATH_MAX];
    DIR *list = opendir(dir);
    const struct dirent *entry;
    while (list && (entry = readdir(list))) {
        const size_t n = strlen(entry->d_name);
        const int used =
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (strncmp(entry->d_name, "disttrain_", 10) == 0 && n > 15 &&
            strcmp(entry->d_name + n - 5, ".prom") == 0 && used > 0 &&
            (size_t)used < sizeof(path) && is_old(path))
            unlink(path);
    }
    if (list)
        closedir(list);
}

int dt_prometheus_write(const struct dt_live_state *state, const char *dir,
                        struct dt_error *err)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    if (find_path(state, dir, path, err) < 0)
        return -1;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_prometheus_print(state, out);
    fclose(out);
    int rc = dt_file_replace(path, text, bytes, err);
    free(text);
    return rc;
}

void dt_prometheus_remove(const struct dt_live_state *state, const char *dir)
{
    char path[PATH_MAX];
    if (find_path(state, dir, path, NULL) == 0)
        unlink(path);
}
