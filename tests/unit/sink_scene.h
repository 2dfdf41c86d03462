/* SPDX-License-Identifier: Apache-2.0 */
/* sink_scene.h - a directory, a run.json and records for tests of sinks */
#ifndef DT_TESTS_SINK_SCENE_H
#define DT_TESTS_SINK_SCENE_H

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "report/record.h"
#include "tests/unit/protobuf_reader.h"

static char dir[64];

static inline int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/dt-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
    (void)state;
    return dt_file_remove_tree(dir, NULL);
}

static const char run_json[] =
    "{\"version\": 1, \"name\": \"tiny\", \"run_id\": \"0123abcd\","
    " \"config\": {\"run.name\": \"tiny\", \"training.train_batch_size\": 32}}";

/* Opens a sink with run.json, in which `more` is a member of the configuration,
 * or NULL.
 */
static inline struct dt_sink *open_sink(const struct dt_sink_type *type,
                                        long step, const char *key,
                                        const char *word)
{
    struct dt_error err;
    json_t *run = json_loads(run_json, 0, NULL);
    assert_non_null(run);
    if (key)
        json_object_set_new(json_object_get(run, "config"), key,
                            json_string(word));
    const struct dt_sink_options options = {
        .dir = dir, .run = run, .first_step = step};
    struct dt_sink *sink = type->open(&options, &err);
    json_decref(run);
    if (!sink)
        fail_msg("%s", err.text);
    return sink;
}

/* A record of one loss and the learning rate, at 1700000000 + step. */
static inline struct dt_report_record a_record(enum dt_split split, long step,
                                               double loss)
{
    return (struct dt_report_record){
        .split = split,
        .step = step,
        .wall = 1700000000.0 + (double)step,
        .count = 3,
        .value = {{"loss", loss, true},
                  {"lr", 0.5, true},
                  {"energy_j", NAN, false}},
    };
}

static inline void put_record(const struct dt_sink_type *type,
                              struct dt_sink *sink,
                              const struct dt_report_record *record)
{
    struct dt_error err;
    if (type->record(sink, record, &err) < 0)
        fail_msg("%s", err.text);
}

/* The n-th name in a directory that begins with `prefix`, in order; "": none.
 */
static inline void find_name(const char *in, const char *prefix, int n,
                             char path[PATH_MAX])
{
    struct dirent **entries = NULL;
    int count = scandir(in, &entries, NULL, alphasort);
    path[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (!strncmp(entries[i]->d_name, prefix, strlen(prefix)) && n-- == 0 &&
            snprintf(path, PATH_MAX, "%s/%s", in, entries[i]->d_name) >=
                PATH_MAX)
            path[0] = '\0';
        free(entries[i]);
    }
    free(entries);
}

static inline struct dt_map map_file(const char *path)
{
    struct dt_map map;
    struct dt_error err;
    if (dt_map_init(&map, path, &err) < 0)
        fail_msg("%s", err.text);
    return map;
}

static inline void assert_hex(const void *data, size_t bytes, const char *hex)
{
    char text[512] = "";
    for (size_t i = 0; i < bytes && 2 * i + 3 < sizeof(text); i++)
        snprintf(text + 2 * i, 3, "%02x", ((const uint8_t *)data)[i]);
    assert_string_equal(text, hex);
}

/* Records until one fails, which it must; says why. */
static inline void fails_soon(const struct dt_sink_type *type,
                              struct dt_sink *sink, struct dt_error *err)
{
    for (long step = 1; step < 1000; step++) {
        const struct dt_report_record record =
            a_record(DT_SPLIT_TRAIN, step, 1.0);
        if (type->record(sink, &record, err) < 0)
            return;
    }
    fail_msg("nothing failed");
}

/* A disk with room for `bytes` in a file; 0: for all. */
static inline void limit_files(size_t bytes)
{
    static struct rlimit before;
    if (bytes > 0) {
        const struct rlimit now = {bytes, RLIM_INFINITY};
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before);
        setrlimit(RLIMIT_FSIZE, &now);
    } else {
        setrlimit(RLIMIT_FSIZE, &before);
    }
}

#endif /* DT_TESTS_SINK_SCENE_H */
