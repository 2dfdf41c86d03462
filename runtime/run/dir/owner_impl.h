/* SPDX-License-Identifier: Apache-2.0 */
/* owner_impl.h - the file .owner: its contents, and whether their writer lives
 */
#ifndef DT_RUN_DIR_OWNER_IMPL_H
#define DT_RUN_DIR_OWNER_IMPL_H

#include <time.h>

/* The contents of the file. Unknown fields are "-". */
struct dt_owner_record {
    char job[96], step[32], restart[16]; /* job@cluster */
    char host[256], boot[64], space[64]; /* space: of process numbers */
    long pid;
    unsigned long long start; /* of the process, in ticks since the boot */
    char since[32];
    char nonce[17]; /* empty: the file is not written yet */
    char launch[48];
    char epoch[32]; /* step.number */
    struct timespec touched;
};

/* Describes this process, with a new nonce. */
void dt_owner_record_fill(struct dt_owner_record *record);

/* Creates `path` with the record; it must not exist. 0, or errno. */
int dt_owner_record_create(const char *path,
                           const struct dt_owner_record *record);

/* Reads the file; those of older releases have no launch, or epoch. 0; or
 * errno: ENOENT if there is none, EISDIR if it is not a regular file.
 */
int dt_owner_record_read(const char *path, struct dt_owner_record *record);

enum dt_owner_verdict {
    DT_OWNER_GONE, /* or others of its step have gone on without it */
    DT_OWNER_ALIVE,
    DT_OWNER_UNKNOWN,
    DT_OWNER_ENDED,   /* according to the loop that has started both */
    DT_OWNER_STOPPED, /* it is this run that is to end */
};

/* Whether the process of `other` has ended, from its record alone. */
enum dt_owner_verdict dt_owner_record_judge(const struct dt_owner_record *other,
                                            const struct dt_owner_record *self);

#endif /* DT_RUN_DIR_OWNER_IMPL_H */
