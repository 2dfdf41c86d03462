/* SPDX-License-Identifier: Apache-2.0 */
/* copies_impl.h - copies of a run, for those who make and take them */
#ifndef DT_TRAIN_RESUME_COPIES_IMPL_H
#define DT_TRAIN_RESUME_COPIES_IMPL_H

#include "segment/segment.h"
#include "train/resume/copies.h"
#include "train/resume/settled.h"

enum { DT_COPIES = 2, DT_COPIED_MODELS = 3 };

/* In memory that outlives the process. */
struct dt_copies_record {
    uint64_t wrong;
    uint64_t saved; /* step of the newest checkpoint that is whole */
    double seconds; /* that a copy takes, on all ranks; 0: not measured */
    struct {
        uint64_t mark; /* 1 + its step; 0: not whole */
        struct dt_settled run;
    } copies[DT_COPIES];
};

/* A model of the run. */
struct dt_copied {
    const char *name;
    struct dt_parallel *parallel;
    struct dt_buffer *at[DT_COPIES]; /* locked by the locker */
    int *sources;                    /* (parts) after a start: who has which */
};

struct dt_copies {
    struct dt_segment *segment;
    struct dt_buffer *buf;
    struct dt_copies_record *record;
    struct dt_copied models[DT_COPIED_MODELS];
    size_t model_count;
    struct dt_locker *locker;
    struct dt_buffer *samples[DT_COPIES];
    struct dt_stream *stream;
    struct dt_event *copied, *staged; /* in it; in the run's: all are there */
    size_t last;                      /* the copy that was made or taken last */
    int source;                       /* a rank that has the one to be taken */
    int newcomers;                    /* ranks that have not */
    int newcomer, giver; /* the first one, and a rank with the same part */
    bool open;           /* it is on its way */
    bool asked;          /* for the next one */
    bool at_once;        /* all ranks had memory from the start */
    bool failed;         /* it could not be locked */
    double begun;
};

#endif /* DT_TRAIN_RESUME_COPIES_IMPL_H */
