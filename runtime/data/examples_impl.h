/* SPDX-License-Identifier: Apache-2.0 */
/* examples_impl.h - the cache of a file, made in parts by several threads */
#ifndef DT_DATA_EXAMPLES_IMPL_H
#define DT_DATA_EXAMPLES_IMPL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kind.h"
#include "data/cache.h"
#include "data/examples.h"
#include "data/jsonl.h"
#include "tokenizer/chat/chat.h"

/* Everything that the content of a cache depends on, and where it goes. */
struct dt_make {
    const char *path;
    const struct dt_tokenizer *tokenizer;
    const struct dt_example_options *options;
    struct dt_found found;
    struct dt_map map;   /* the file, and its rows as lines of JSON, which may
                            be the same: */
    struct dt_map lines; /* if not, only while the cache is made */
    bool is_text;        /* one document; else lines of: */
    enum dt_format format;
    enum dt_loss_on loss_on;
    struct dt_chat *chat; /* or NULL, and no_chat says why: */
    struct dt_error no_chat;
    uint64_t stamp; /* of the file now; 0 if it cannot be trusted */
    uint64_t key;
    uint64_t bad_allowed; /* lines, while the cache is made */
    char dir[PATH_MAX];   /* the folder that holds these: */
    char cache[PATH_MAX], parts_dir[PATH_MAX + 8];
};

/* Opens make->cache if it fits, else makes it and sets *made. One process makes
 * it while the others wait. If they see no progress for half an hour, they
 * continue without the lock. -1: as dt_examples_open.
 */
int dt_make_run(struct dt_make *make, struct dt_cache *cache, bool *made,
                struct dt_error *err);

/* examples_quality.c: how many of so many lines may be bad. */
uint64_t dt_make_bad_allowed(const struct dt_make *make, uint64_t lines);

/* examples_quality.c: says that so many bad lines are too many, however many
 * come, with the first of the notes, each `line: cause` and a NUL. -1:
 * EX_DATAERR, always.
 */
int dt_make_refuse(const struct dt_make *make, uint64_t bad, const char *notes,
                   size_t bytes, struct dt_error *err);

/* examples_quality.c: checks how many lines of a whole file are bad, and that
 * there is an example. -1: EX_DATAERR.
 */
int dt_make_check(const struct dt_make *make, const struct dt_cache *cache,
                  struct dt_error *err);

/* examples_quality.c: notes bad lines, renamed roles and seams. */
void dt_make_report(const struct dt_make *make, const struct dt_cache *cache);

/* Whether the lines are the file itself. */
static inline bool dt_make_is_plain(const struct dt_make *make)
{
    return make->found.form == DT_FORM_PLAIN &&
           make->found.codec == DT_CODEC_NONE;
}

/* Calls read(ctx) in dt_guard_run. -1: EX_IOERR, the file was truncated or its
 * disk failed.
 */
int dt_make_read(const struct dt_make *make, void (*read)(void *ctx), void *ctx,
                 struct dt_error *err);

/* examples_quality.c: passes a formatted text to options->note, if that is set.
 */
void dt_make_note(const struct dt_make *make, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* DT_DATA_EXAMPLES_IMPL_H */
