/* SPDX-License-Identifier: Apache-2.0 */
/* examples_make.h - the cache of a file, made in parts by several threads */
#ifndef DT_DATA_EXAMPLES_MAKE_H
#define DT_DATA_EXAMPLES_MAKE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "data/cache.h"
#include "tokenizer/chat.h"
#include "data/examples.h"
#include "data/jsonl.h"

/* Everything that one cache is made from. */
struct dt_make {
    const char *path;
    const struct dt_tokenizer *tokenizer;
    const struct dt_example_options *options;
    struct dt_map map;
    bool is_text; /* one document; else lines of: */
    enum dt_layout_kind layout;
    enum dt_loss_on loss_on;
    struct dt_chat *chat; /* or why there is none: */
    struct dt_error no_chat;
    uint64_t stamp; /* of the file as it is now, or 0 */
    uint64_t key;
    char dir[PATH_MAX]; /* and in it: */
    char cache[PATH_MAX], parts_dir[PATH_MAX + 8];
};

/* Opens make->cache if it fits, else makes it. *made: it was not there. One
 * process makes it, the others wait; one that waits for half an hour without
 * any progress goes on alone. -1: as dt_examples_open.
 */
int dt_make_run(const struct dt_make *make, struct dt_cache *cache, bool *made,
                struct dt_error *err);

/* Calls read(ctx) in dt_guard_run: -1 and EX_IOERR if the file is cut short. */
int dt_make_read(const struct dt_make *make, void (*read)(void *ctx), void *ctx,
                 struct dt_error *err);

/* Hands a formatted text to options->note, if there is one. */
void dt_make_note(const struct dt_make *make, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* DT_DATA_EXAMPLES_MAKE_H */
