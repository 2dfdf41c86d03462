/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - a shared object that scores: opened, called, closed */
#include "config.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reward/disttrain_reward.h"
#include "reward/library.h"

enum { ERROR_BYTES = 400 };

struct dt_library {
    void *object, *state;
    bool open;
    char *path;
    int (*score)(void *, const struct disttrain_reward_batch *, double *,
                 char *, size_t);
    void (*close)(void *);
};

/* What the library says of a failure: one line for a terminal. */
static void clean(char text[ERROR_BYTES])
{
    text[ERROR_BYTES - 1] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    if (!*text)
        strcpy(text, "no reason given");
}

/* A function of the library, stored in the pointer `to`. */
static int find(const struct dt_library *library, const char *name, void *to,
                struct dt_error *err)
{
    void *address = dlsym(library->object, name);
    memcpy(to, &address, sizeof(address));
    return address ? 0
                   : dt_error_set(err, EX_UNAVAILABLE,
                                  "%s: has no function %s: see "
                                  "disttrain_reward.h",
                                  library->path, name);
}

static int load(struct dt_library *library, const char *config,
                struct dt_error *err)
{
    char why[ERROR_BYTES] = "";
    int (*abi)(void);
    int (*open)(const char *, void **, char *, size_t);
    library->object = dlopen(library->path, RTLD_NOW | RTLD_LOCAL);
    if (!library->object)
        return dt_error_set(err, EX_UNAVAILABLE, "%s", dlerror());
    if (find(library, "disttrain_reward_abi", &abi, err) < 0 ||
        find(library, "disttrain_reward_open", &open, err) < 0 ||
        find(library, "disttrain_reward_score", &library->score, err) < 0 ||
        find(library, "disttrain_reward_close", &library->close, err) < 0)
        return -1;
    if (abi() != DISTTRAIN_REWARD_ABI)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s: has version %d of disttrain_reward.h, "
                            "expected %d",
                            library->path, abi(), DISTTRAIN_REWARD_ABI);
    if (open(config ? config : "{}", &library->state, why, sizeof(why)) != 0) {
        clean(why);
        return dt_error_set(err, EX_UNAVAILABLE, "%s says: %s", library->path,
                            why);
    }
    library->open = true;
    return 0;
}

struct dt_library *dt_library_open(const char *path, const char *config,
                                   struct dt_error *err)
{
    struct dt_library *library = calloc(1, sizeof(*library));
    if (library)
        library->path = strdup(path);
    if (!library || !library->path)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (load(library, config, err) == 0)
        return library;
    dt_library_close(library);
    return NULL;
}

void dt_library_close(struct dt_library *library)
{
    if (!library)
        return;
    if (library->open)
        library->close(library->state);
    if (library->object)
        dlclose(library->object);
    free(library->path);
    free(library);
}

/* Arrays of a batch, all in one piece of memory, and texts made for it. */
struct arrays {
    uint64_t *numbers;   /* (4 N) */
    const char **texts;  /* (3 N) */
    const int32_t **ids; /* (N) */
    uint8_t *truncated;  /* (N) */
    char **made;         /* (2 N) texts to free */
};

static void free_arrays(struct arrays *a, size_t n)
{
    for (size_t i = 0; a->made && i < 2 * n; i++)
        free(a->made[i]);
    free(a->made);
    free(a->numbers);
    free(a->texts);
    free(a->ids);
    free(a->truncated);
}

static int make_arrays(struct arrays *a, const struct dt_reward_part *part)
{
    size_t n = part->count;
    a->numbers = calloc(4 * n, sizeof(*a->numbers));
    a->texts = calloc(3 * n, sizeof(*a->texts));
    a->ids = calloc(n, sizeof(*a->ids));
    a->truncated = calloc(n, sizeof(*a->truncated));
    a->made = calloc(2 * n, sizeof(*a->made));
    if (!a->numbers || !a->texts || !a->ids || !a->truncated || !a->made)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct dt_reward_sample *s = dt_reward_at(part, i);
        if (s->messages && !(a->made[i] = json_dumps(s->messages, 0)))
            return -1;
        a->made[n + i] = s->columns ? json_dumps(s->columns, 0) : strdup("{}");
        if (!a->made[n + i])
            return -1;
        a->numbers[i] = s->prompt;
        a->texts[i] = a->made[i] ? a->made[i] : s->prompt_text;
        a->numbers[n + i] = a->made[i] ? strlen(a->made[i]) : s->prompt_bytes;
        a->texts[n + i] = s->completion_text;
        a->numbers[2 * n + i] = s->completion_bytes;
        a->texts[2 * n + i] = a->made[n + i];
        a->ids[i] = s->ids;
        a->numbers[3 * n + i] = s->count;
        a->truncated[i] = s->truncated;
    }
    return 0;
}

int dt_library_score(struct dt_library *library,
                     const struct dt_reward_part *part, double *values,
                     struct dt_error *err)
{
    char why[ERROR_BYTES] = "";
    struct arrays a = {0};
    size_t n = part->count;
    int rc = 0;
    if (make_arrays(&a, part) < 0) {
        free_arrays(&a, n);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    const struct disttrain_reward_batch batch = {
        .struct_size = sizeof(batch),
        .count = n,
        .step = part->batch->step,
        .index = a.numbers,
        .prompt = a.texts,
        .prompt_bytes = a.numbers + n,
        .completion = a.texts + n,
        .completion_bytes = a.numbers + 2 * n,
        .ids = a.ids,
        .id_count = a.numbers + 3 * n,
        .truncated = a.truncated,
        .columns = a.texts + 2 * n,
    };
    if (library->score(library->state, &batch, values, why, sizeof(why)) != 0) {
        clean(why);
        rc = dt_error_set(err, EX_UNAVAILABLE, "%s says: %s", library->path,
                          why);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (isinf(values[i]))
            rc = dt_error_set(err, EX_PROTOCOL,
                              "%s: reward %zu is infinite: expected a finite "
                              "number, or NaN where there is none",
                              library->path, i);
    free_arrays(&a, n);
    return rc;
}
